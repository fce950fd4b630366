"""A damaged file of a model: the fix names where a whole one is, does it, proves it, and goes back when it fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.outside.look import trouble_with
from playbooks.context import Context, new_session, read_context
from playbooks.decisions import ApplyFix, Begin, Decision, Finish, Stop, Undo
from playbooks.replay import Policy, drive
from playbooks.report import markdown, one_fix_lines
from playbooks.unattended import Unattended
from tests.memory_logs import LOADING, failed, v1
from tests.outside_samples import WEIGHTS, models, names, state
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine_probe.events import Event
    from engine_probe.launch import Launch
    from playbooks.session import FixOption, Session

RESTORE = "restore-the-file"
CUT = v1(
    "0.32.0",
    LOADING,
    failed(
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, "
        "file not fully covered",
        "model_executor/model_loader/weight_utils.py:safetensors_weights_iterator",
    ),
    serve="chat",
)


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


class Served:
    """A deployment of one model with cut weights, and the whole files beside."""

    def __init__(self, folder: Path) -> None:
        self.whole, self.broken = models(folder)
        self.file = self.broken.parent / "deployment.yaml"
        self.file.write_text("models:\n  - {name: chat, model: ./chat}\n", encoding="utf-8")

    def rule(self, _launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        return CUT if trouble_with(self.broken / WEIGHTS) else None

    def never(self, _launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        return CUT

    def session(self, *sources: Path) -> Session:
        session = new_session("case", read_deployment(self.file), "warm", "warm")
        return replace(session, file_sources=tuple(map(str, sources)))


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


async def run(
    session: Session,
    context: Context,
    probe: RuledProbe,
    policy: Policy | asyncio.Queue[Decision] | None = None,
    on_change: Callable[[Session, Event | None], None] = lambda _session, _event: None,
) -> Session:
    driving = drive(session, probe, policy or Unattended(fix=RESTORE), on_change, context=context)
    return await asyncio.wait_for(driving, 60)


def fix_of(session: Session) -> FixOption:
    return next(one for one in session.fixes if one.id == RESTORE)


async def test_all_of_it_is_shown_first(served: Served, context: Context) -> None:
    policy = Unattended(fix=RESTORE, dry_run=True)
    session = await run(served.session(served.whole), context, RuledProbe(served.rule), policy)
    assert session.causes[0].id == "safetensors-file-corrupt"
    fix = fix_of(session)
    weights = served.broken / WEIGHTS
    size, half = (served.whole / WEIGHTS).stat().st_size, weights.stat().st_size
    cut = f"cut ({half:,} of {size:,} bytes)"
    assert fix.unavailable is None
    assert (fix.key, fix.old_value, fix.new_value) == (f"files.{WEIGHTS}", cut, str(served.whole))
    assert fix.title == f"{WEIGHTS} of chat: {cut} → from {served.whole}"
    assert fix.diff == (f"-  files.{WEIGHTS}: {cut}", f"+  files.{WEIGHTS}: from {served.whole}")
    temporary = served.broken / f".{WEIGHTS}.vllm-console"
    assert fix.commands == (
        f"cp -L {served.whole / WEIGHTS} {temporary}",
        f"mv {weights} {weights}.r1",
        f"mv {temporary} {weights}",
    )
    assert fix.way_back == (f"mv -f {weights}.r1 {weights}",)
    assert all(line in "\n".join(one_fix_lines(fix)) for line in (*fix.commands, *fix.way_back))
    assert weights.stat().st_size == half


async def test_it_holds_and_says_how_to_go_back(served: Served, context: Context) -> None:
    text = served.file.read_text("utf-8")
    session = await run(served.session(served.whole), context, RuledProbe(served.rule))
    assert session.verdict == "verified", [(one.id, one.outcome, one.measured) for one in session.checks]
    assert (served.broken / WEIGHTS).read_bytes() == (served.whole / WEIGHTS).read_bytes()
    assert (served.file.read_text("utf-8"), session.kept_file) == (text, None)
    weights = served.broken / WEIGHTS
    assert session.outside == (
        f"{weights} is replaced by that of {served.whole}; as it was: {weights}.r1",
        f"to go back: mv -f {weights}.r1 {weights}",
    )
    assert all(line in markdown(session) for line in session.outside)
    assert session.facts["files.trouble"].value == "none found"  # type: ignore[union-attr]


async def test_when_it_does_not_hold_the_file_is_as_before(served: Served, context: Context) -> None:
    before, all_names = state(served.broken / WEIGHTS), names(served.broken)
    session = await run(served.session(served.whole), context, RuledProbe(served.never))
    assert (session.verdict, fix_of(session).outcome) == ("not verified", "did not hold")
    assert (state(served.broken / WEIGHTS), names(served.broken)) == (before, all_names)
    assert (session.outside, session.revision) == ((), 0)
    assert session.facts["files.damaged_file"].value == WEIGHTS  # type: ignore[union-attr]


async def test_without_a_source_it_is_greyed_and_says_what_to_give(served: Served, context: Context) -> None:
    session = await run(served.session(), context, RuledProbe(served.rule))
    why = fix_of(session).unavailable
    assert why is not None
    assert f"no whole copy of {WEIGHTS} is known" in why
    assert "--files-from DIR" in why


async def test_a_person_may_name_the_source(served: Served, context: Context) -> None:
    """Also of a fix that is greyed for want of it; and undo it afterwards."""
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    before = state(served.broken / WEIGHTS)

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase != "deciding" or decisions.qsize():
            return
        if session.verdict == "verified":
            decisions.put_nowait(Undo())
        elif session.notes:
            decisions.put_nowait(Finish())
        elif session.applied_fix is None:
            decisions.put_nowait(ApplyFix(RESTORE, str(served.whole)))

    session = await run(served.session(), context, RuledProbe(served.rule), decisions, person)
    assert session.notes == (f"{RESTORE} had been verified and was undone as asked",)
    assert state(served.broken / WEIGHTS) == before


async def test_a_source_that_is_damaged_too_is_refused(served: Served, context: Context) -> None:
    (served.whole / WEIGHTS).write_bytes(b"")
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    all_names = names(served.broken)

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase == "deciding" and not decisions.qsize():
            decisions.put_nowait(Finish() if session.notes else ApplyFix(RESTORE, str(served.whole)))

    session = await run(served.session(), context, RuledProbe(served.rule), decisions, person)
    assert any(f"{served.whole / WEIGHTS}: is empty" in note for note in session.notes)
    assert names(served.broken) == all_names


async def test_a_copy_can_be_stopped(served: Served, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed, and the fix can be tried again."""
    from engine_probe.outside import file_change

    monkeypatch.setattr(file_change, "_CHUNK_BYTES", 1)
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    all_names = names(served.broken)
    asked: list[str] = []

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase == "writing" and "stop" not in asked:
            asked.append("stop")
            decisions.put_nowait(Stop())
        elif session.progress.phase == "deciding" and not decisions.qsize():
            decisions.put_nowait(Finish() if asked else ApplyFix(RESTORE))
            asked.append("apply")

    session = await run(served.session(served.whole), context, RuledProbe(served.rule), decisions, person)
    assert "it was stopped" in session.notes
    assert (fix_of(session).unavailable, fix_of(session).outcome) == (None, "not tried")
    assert names(served.broken) == all_names


MIXED = """
playbook: cut-and-too-long
title: A cut file and a length that is too long
summary: Both at once.
family: format
kind: resource
symptom: does-not-start
layer: model_runner
stage: weight_load
symptoms:
  any:
    - {id: cut, log: incomplete metadata}
samples:
  match: [{line: incomplete metadata, facts: {}}]
  no_match: [{line: all is well}]
hypotheses:
  - id: both
    claim: It is both.
    experiment: {cost: none, ask: [files.damaged_file], confirm: [files.damaged_file is set],
      refute: [files.damaged_file is unset]}
    fixes: [both-in-turn]
fixes:
  - id: both-in-turn
    steps:
      - set: {"files.{files.damaged_files}": "{files.whole_copy}"}
      - set: {args.max-model-len: 32}
    why: Each alone is not enough.
    expect: [load.is_serving is true]
    you_lose: Length.
    risk: low
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Context:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "cut-and-too-long.yaml").write_text(MIXED, encoding="utf-8")
    return read_context((folder,))


@pytest.mark.parametrize("holds", [True, False])
async def test_steps_of_the_file_and_of_the_deployment(holds: bool, served: Served, mixed: Context) -> None:
    """They are shown as one, verified as one, and undone as one."""
    before, text = state(served.broken / WEIGHTS), served.file.read_text("utf-8")

    def rule(launch: Launch, up: Mapping[str, Launch]) -> str | None:
        return served.rule(launch, up) if holds and launch.args.get("max-model-len") == 32 else CUT

    policy = Unattended(fix="both-in-turn", playbook="cut-and-too-long")
    session = await run(served.session(served.whole), mixed, RuledProbe(rule), policy)
    fix = next(one for one in session.fixes if one.id == "both-in-turn")
    assert [one.key for one in fix.steps] == [f"files.{WEIGHTS}", "args.max-model-len"]
    assert [line[:1] for line in fix.diff] == ["+", "-", "+"]
    assert (len(fix.commands), len(fix.way_back)) == (3, 1)
    assert session.verdict == ("verified" if holds else "not verified")
    assert (state(served.broken / WEIGHTS) == before) is not holds
    assert (served.file.read_text("utf-8") == text) is not holds
    assert bool(session.outside) is holds
    if not holds:
        assert names(served.file.parent) == ["chat", "deployment.yaml"]


async def test_several_files_are_one_change(served: Served, context: Context) -> None:
    (served.broken / "tokenizer.json").write_text("{", encoding="utf-8")
    session = await run(served.session(served.whole), context, RuledProbe(served.rule))
    assert session.verdict == "verified"
    fix = fix_of(session)
    assert fix.key == f"files.{WEIGHTS}, tokenizer.json"
    assert fix.title.startswith(f"2 files ({WEIGHTS}, tokenizer.json) of chat: cut (")
    for name in (WEIGHTS, "tokenizer.json"):
        assert (served.broken / name).read_bytes() == (served.whole / name).read_bytes()
        assert (served.broken / f"{name}.r1").exists()


async def test_of_several_files_all_or_none(served: Served, context: Context) -> None:
    (served.broken / "tokenizer.json").write_text("{", encoding="utf-8")
    (served.whole / "tokenizer.json").unlink()
    session = await run(served.session(served.whole), context, RuledProbe(served.rule))
    assert "no whole copy of tokenizer.json is known" in (fix_of(session).unavailable or "")


async def test_a_source_that_is_of_no_use_is_said_and_the_next_one_taken(served: Served, context: Context) -> None:
    session = await run(served.session(served.broken, served.whole), context, RuledProbe(served.rule))
    assert session.verdict == "verified"
    assert any(f"--files-from {served.broken} was not used: " in note for note in session.notes)
