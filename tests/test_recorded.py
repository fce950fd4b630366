"""A kept case gives back every session that there was, offline; a cut or old one as far as it goes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.events import Event, MemorySample, Text
from playbooks.recorded import past_case
from playbooks.session import Session, Step
from playbooks.unattended import Unattended
from tests.kept_case_samples import DEPLOYMENT, POOL, SHORTER, keep_case, kv_context, kv_deployment
from tests.recorded_probe import RecordedProbe, recorded_loads

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.context import Context


@pytest.fixture(scope="module")
def context() -> Context:
    return kv_context()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return kv_deployment(tmp_path / "here")


class Steps:
    """Every session of a case as it was made."""

    def __init__(self) -> None:
        self.sessions: list[tuple[object, Session]] = []

    def see(self, _before: Session, happening: object, after: Session) -> None:
        self.sessions.append((happening, after))


def settled(session: Session) -> Session:
    """As a recording can know it: the folder is named by whoever reads it."""
    return replace(session, case_folder=None)


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()]


async def test_every_session_is_made_again(file: Path, tmp_path: Path, context: Context) -> None:
    bad, good = recorded_loads()
    steps = Steps()
    probe = RecordedProbe(bad, bad, good)
    case, session = await keep_case(file, tmp_path, probe, Unattended(), context=context, on_step=steps.see)
    past = past_case(case.path, context)
    assert past.trouble is None
    assert past.session is not None
    assert settled(past.session) == settled(session)
    made = {id(one.happening): one.session for one in past.recording.taken}
    assert len(made) == len(past.recording.taken)
    kept = [settled(one.session) for one in past.recording.taken if not isinstance(one.happening, Event)][1:]
    there = [settled(one) for happening, one in steps.sessions if not isinstance(happening, Event)]
    assert kept == there


async def test_moments_are_the_steps_of_the_method(file: Path, tmp_path: Path, context: Context) -> None:
    bad, good = recorded_loads()
    case, _ = await keep_case(file, tmp_path, RecordedProbe(bad, bad, good), Unattended(), context=context)
    found = past_case(case.path, context).moments
    assert [(one.step, one.title) for one in found] == [
        (Step.SYMPTOM, "tiny does not start"),
        (Step.HYPOTHESES, found[1].session.causes[0].title),
        (Step.FIX, f"fix {SHORTER}"),
        (Step.VERIFY, f"{SHORTER}: did not hold"),
        (Step.FIX, f"fix {POOL}"),
        (Step.VERIFY, f"{POOL}: verified"),
        (Step.VERIFY, "the end: verified, and the report is written"),
    ]
    assert found[2].session.fixes[0].diff == ("+  args.max-model-len: 1408",)


async def test_a_case_needs_nothing_but_its_folder(file: Path, tmp_path: Path, context: Context) -> None:
    case, session = await keep_case(file, tmp_path, context=context)
    elsewhere = case.path.rename(tmp_path / "copied")
    for path in sorted(file.parent.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    without = replace(context, library=())  # a release, or a host, that has none of its playbooks
    past = past_case(elsewhere, without)
    assert past.trouble is None
    assert past.session is not None
    assert past.session.checks == session.checks
    assert past.session.case_folder == str(elsewhere)


async def test_a_cut_line_is_said_and_all_before_it_is_shown(file: Path, tmp_path: Path, context: Context) -> None:
    case, _ = await keep_case(file, tmp_path, context=context)
    path = case.path / "events.jsonl"
    content = path.read_bytes()
    at = content.index(b'"event":"done:RevisionWritten"') + 60
    path.write_bytes(content[:at])
    past = past_case(case.path, context)
    assert past.trouble is not None
    assert "in the middle of a line" in past.trouble
    assert [one.title for one in past.moments][-2:] == [
        f"fix {SHORTER}",
        "here it was cut off: writing max-model-len of tiny: 4,096 (the model's own, not set) → 1,408",
    ]


async def test_every_cut_is_read(file: Path, tmp_path: Path, context: Context) -> None:
    """Wherever a kill or a full disk cuts it."""
    case, _ = await keep_case(file, tmp_path, context=context)
    path = case.path / "events.jsonl"
    content = path.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:at])
        past = past_case(case.path, context)
        assert past.trouble is not None or content[at : at + 1] in (b"", b"\n") or content[at - 1 : at] == b"\n"


async def test_an_older_release_s_case_is_shown_and_said(file: Path, tmp_path: Path, context: Context) -> None:
    case, session = await keep_case(file, tmp_path, context=context)
    path = case.path / "events.jsonl"
    kept = [one for one in events_of(case.path) if one["event"] not in ("begun", "playbook", "lines")]
    kept = [one for one in kept if not one["event"].startswith("done:")]
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in kept), encoding="utf-8")
    past = past_case(case.path, context)
    assert past.trouble is not None
    assert past.trouble.startswith("an older release kept it without its results")
    assert past.session is not None
    assert past.session.verdict == "verified"
    outcomes = {one.id: one.outcome for one in session.checks}
    shown = {one.id: one.outcome for one in past.session.checks}
    assert len(shown) > 5
    assert outcomes | shown == outcomes


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"no json\n", b'{"event":"begun"}\n', b'{"event":"begun","session":1}\n']
)
def test_what_is_no_recording_says_why(content: bytes, tmp_path: Path, context: Context) -> None:
    (tmp_path / "events.jsonl").write_bytes(content)
    past = past_case(tmp_path, context)
    assert past.moments == ()
    assert past.trouble


def test_a_folder_without_events_says_so(tmp_path: Path, context: Context) -> None:
    past = past_case(tmp_path, context)
    assert (past.moments, past.session) == ((), None)
    assert past.trouble == "it kept no events: No such file or directory"


async def test_a_happening_that_no_release_knows_ends_it_there(file: Path, tmp_path: Path, context: Context) -> None:
    case, _ = await keep_case(file, tmp_path, context=context)
    path = case.path / "events.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    lines.insert(len(lines) - 1, '{"event":"done:FlewToTheMoon","time":1.0}\n')
    path.write_text("".join(lines), encoding="utf-8")
    past = past_case(case.path, context)
    assert past.trouble == f"events.jsonl:{len(lines) - 1}: FlewToTheMoon is nothing that this release knows"
    assert past.session is not None
    assert past.session.verdict == "verified"


async def test_secrets_are_masked_and_told_apart(tmp_path: Path, context: Context) -> None:
    secret, other = "correct horse battery", "staple of the stable"
    text = DEPLOYMENT + f"      api-key: {secret}\n    env: {{HF_TOKEN: {other}}}\n"
    file = kv_deployment(tmp_path / "here", text)
    case, session = await keep_case(file, tmp_path, context=context)
    kept = (case.path / "events.jsonl").read_text("utf-8")
    assert secret not in kept
    assert other not in kept
    past = past_case(case.path, context)
    assert past.trouble is None
    assert past.session is not None
    assert past.session.checks == session.checks
    launch = past.session.deployment.models[0]
    assert (launch.args["api-key"], launch.env["HF_TOKEN"]) == ("***", "***2")


async def test_a_flood_is_counted_where_it_tells_nothing(file: Path, tmp_path: Path, context: Context) -> None:
    bad, good = recorded_loads()
    chatter = [Text("tiny", line=f"Loading shard {number}", offset=number) for number in range(20_000)]
    samples = [MemorySample("tiny", time=100 + number / 10, host_total_bytes=2**33) for number in range(1000)]
    bad = [bad[0], *chatter, *samples, *bad[1:]]
    case, session = await keep_case(file, tmp_path, RecordedProbe(bad, good), context=context)
    kept = events_of(case.path)
    assert sum("Loading shard" in str(one) for one in kept) == 0
    assert max(one["count"] for one in kept if one["event"] == "lines") >= 20_000
    assert sum(one["event"] == "memory_sample" and one["time"] < 200 for one in kept) < 25
    past = past_case(case.path, context)
    assert past.session is not None
    assert settled(past.session) == settled(session)


async def test_a_flood_that_tells_something_is_kept_up_to_a_bound_and_said(
    file: Path, tmp_path: Path, context: Context
) -> None:
    bad, good = recorded_loads()
    chatter = [Text("tiny", line=f"GPU KV cache size: {number:,} tokens", offset=number) for number in range(3_000)]
    case, session = await keep_case(file, tmp_path, RecordedProbe([bad[0], *chatter, *bad[1:]], good), context=context)
    kept = events_of(case.path)
    assert sum("GPU KV cache size" in str(one) for one in kept if one["event"] == "text") <= 2_001
    past = past_case(case.path, context)
    assert past.session is not None
    assert past.session.verdict == session.verdict == "verified"
    assert sum("a load printed more than a case keeps" in note for note in past.session.notes) == 1
