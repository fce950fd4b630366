"""A case that was cut off goes on from its last finished step, and only where nothing has changed since."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.engine import local_engine
from engine_probe.errors import InputError
from playbooks.cut_off import cut_off
from playbooks.fingerprints import fingerprints, keep_fingerprints
from playbooks.recorded import moments, past_case
from playbooks.replay import drive
from playbooks.resuming import Resumable, resumable, resumable_case, unfinished
from playbooks.unattended import Unattended
from playbooks.unverified import take_back
from playbooks.way_back import way_on
from tests.kept_case_samples import KV, POOL, SHORTER, keep_case, kv_context, kv_deployment
from tests.recorded_probe import RecordedProbe, recorded_loads

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.launch import Launch
    from playbooks.case import CaseFolder
    from playbooks.context import Context
    from playbooks.session import Session

ENGINE = local_engine("/opt/vllm/bin/python", "the test")


@pytest.fixture(scope="module")
def context() -> Context:
    return kv_context()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return kv_deployment(tmp_path / "here")


def content(file: Path) -> bytes:
    return file.read_bytes()


def put_back(file: Path, before: bytes) -> None:
    file.write_bytes(before)
    for kept in file.parent.glob("*.r*"):
        kept.unlink()


def cut(case: CaseFolder, lines: int) -> list[str]:
    """The case as a kill would have left it after so many lines; the kinds of lines that stay."""
    path = case.path / "events.jsonl"
    kept = path.read_text("utf-8").splitlines()[:lines]
    kept[0] = re.sub(r'"since":[\d.]+', '"since":1.0', kept[0])
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    for name in ("report.md", "deployment-after.yaml"):
        (case.path / name).unlink(missing_ok=True)
    return [str(json.loads(line)["event"]) for line in kept]


def found_in(state: Path, file: Path, context: Context) -> Resumable | None:
    deployment = read_deployment(file)
    return resumable(state, deployment, fingerprints(deployment, ENGINE), context)


async def go_on(found: Resumable, probe: RecordedProbe, context: Context) -> Session:
    assert found.session is not None
    driving = drive(found.session, probe, Unattended(), lambda *_: None, context=context, case=found.case)
    return await asyncio.wait_for(driving, 30)


async def bad_case(file: Path, state: Path, context: Context) -> CaseFolder:
    """Two fixes were tried, and both did not hold: the file is as it was."""
    bad, _ = recorded_loads()
    case, session = await keep_case(file, state, RecordedProbe(bad, bad, bad), Unattended(), context=context)
    assert session.verdict == "not verified"
    keep_fingerprints(case.path, fingerprints(read_deployment(file), ENGINE))
    return case


async def test_wherever_it_is_cut_it_goes_on_and_loads_nothing_twice(
    file: Path, tmp_path: Path, context: Context
) -> None:
    case = await bad_case(file, tmp_path, context)
    whole = (case.path / "events.jsonl").read_bytes()
    _, good = recorded_loads()
    before = content(file)
    seen: set[tuple[str, ...]] = set()
    for lines in range(1, len(whole.splitlines())):
        (case.path / "events.jsonl").write_bytes(whole)
        kinds = cut(case, lines)
        found = found_in(tmp_path, file, context)
        if "done:Diagnosed" not in kinds:
            assert found is None
            continue
        assert found is not None
        assert found.session is not None
        tried = tuple(one.id for one in found.session.fixes if one.outcome == "did not hold")
        seen.add(tried)
        assert kinds.count("done:RevisionUndone") <= len(tried)
        if lines % 7 == 0:
            probe = RecordedProbe(good)
            session = await go_on(found, probe, context)
            is_left = len(tried) < 2
            assert [one.outcome for one in session.fixes if one.id in tried] == ["did not hold"] * len(tried)
            assert (session.verdict, len(probe.launches)) == (("verified", 1) if is_left else ("not verified", 0))
            put_back(file, before)
    assert seen == {(), (SHORTER,), (SHORTER, POOL)}


async def test_a_case_that_went_on_is_shown_whole(file: Path, tmp_path: Path, context: Context) -> None:
    case = await bad_case(file, tmp_path, context)
    kinds = [json.loads(line)["event"] for line in (case.path / "events.jsonl").read_text("utf-8").splitlines()]
    cut(case, kinds.index("done:RevisionWritten") + 3)
    found = found_in(tmp_path, file, context)
    assert found is not None
    assert found.words == (
        f"case {case.name} was cut off while it verified {SHORTER}; it goes on from there: found in tiny: {KV}"
    )
    session = await go_on(found, RecordedProbe(recorded_loads()[1]), context)
    assert session.verdict == "verified"
    assert session.progress.load_number == 3  # load-2.log is that of the load that was cut off
    past = past_case(case.path, context)
    assert past.trouble is None
    assert [one.title for one in past.moments][2:] == [
        f"fix {SHORTER}",
        "it goes on after it was cut off",
        f"fix {SHORTER}",
        f"{SHORTER}: verified",
        "the end: verified, and the report is written",
    ]
    assert unfinished(tmp_path, file) is None


async def test_a_fix_whose_check_had_failed_is_not_tried_again(file: Path, tmp_path: Path, context: Context) -> None:
    """It was cut off on the way back."""
    case = await bad_case(file, tmp_path, context)
    kinds = [json.loads(line)["event"] for line in (case.path / "events.jsonl").read_text("utf-8").splitlines()]
    cut(case, kinds.index("done:RevisionUndone"))
    found = found_in(tmp_path, file, context)
    assert found is not None
    assert found.words.endswith(f"{SHORTER} did not hold and is not tried again")


async def test_a_verified_case_only_wants_its_report(file: Path, tmp_path: Path, context: Context) -> None:
    case, _ = await keep_case(file, tmp_path, context=context)
    keep_fingerprints(case.path, fingerprints(read_deployment(file), ENGINE))
    kinds = [json.loads(line)["event"] for line in (case.path / "events.jsonl").read_text("utf-8").splitlines()]
    cut(case, kinds.index("decision:Finish"))
    found = found_in(tmp_path, file, context)
    assert found is not None
    probe = RecordedProbe()
    session = await go_on(found, probe, context)
    assert (session.verdict, session.applied_fix, probe.asked) == ("verified", SHORTER, [])
    assert (case.path / "report.md").exists()


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (
            lambda file: file.write_text(file.read_text("utf-8") + "# mine\n", "utf-8"),
            "deployment.yaml has changed since",
        ),
        (lambda file: (file.parent / "tiny-llama" / "added").touch(), "the files of tiny changed since"),
    ],
)
async def test_what_changed_since_begins_anew(
    change: object, because: str, file: Path, tmp_path: Path, context: Context
) -> None:
    case = await bad_case(file, tmp_path, context)
    cut(case, len((case.path / "events.jsonl").read_bytes().splitlines()) - 1)
    assert callable(change)
    change(file)
    found = found_in(tmp_path, file, context)
    assert found is not None
    assert (found.session, found.words.endswith(because)) == (None, True)


async def test_another_engine_begins_anew(file: Path, tmp_path: Path, context: Context) -> None:
    case = await bad_case(file, tmp_path, context)
    cut(case, len((case.path / "events.jsonl").read_bytes().splitlines()) - 1)
    deployment = read_deployment(file)
    other = local_engine("/opt/other/bin/python", "the test")
    found = resumable(tmp_path, deployment, fingerprints(deployment, other), context)
    assert found is not None
    assert found.stale == "the engine changed since"


async def test_a_case_that_somebody_works_on_is_left_alone(file: Path, tmp_path: Path, context: Context) -> None:
    seen: list[object] = []

    class Looking(RecordedProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            seen.append(unfinished(tmp_path, file))
            await super().load(launch, grade)

    await keep_case(file, tmp_path, Looking(*recorded_loads()), context=context)
    assert seen == [None, None]


async def test_a_case_that_was_left_can_go_on_in_the_same_console(file: Path, tmp_path: Path, context: Context) -> None:
    """The wizard was closed while a fix was verified: the file is put back at once, and the case is not lost."""
    reached = asyncio.Event()

    class Waiting(RecordedProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            if len(self.launches) == 1:
                self.asked.append(launch)
                reached.set()
            else:
                await super().load(launch, grade)

    before = content(file)
    driving = asyncio.create_task(keep_case(file, tmp_path, Waiting(*recorded_loads()), context=context))
    await asyncio.wait_for(reached.wait(), 30)
    assert content(file) != before
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert content(file) == before
    assert take_back(tmp_path, file) == ()
    left = unfinished(tmp_path, file)
    assert left is not None
    keep_fingerprints(left.case.path, fingerprints(read_deployment(file), ENGINE))
    found = found_in(tmp_path, file, context)
    assert found is not None
    assert (await go_on(found, RecordedProbe(recorded_loads()[1]), context)).verdict == "verified"


async def test_a_case_that_was_left_undecided_can_go_on_where_it_is_named(
    file: Path, tmp_path: Path, context: Context
) -> None:
    bad, good = recorded_loads()
    case, session = await keep_case(file, tmp_path, RecordedProbe(bad), Unattended(dry_run=True), context=context)
    prints = fingerprints(read_deployment(file), ENGINE)
    keep_fingerprints(case.path, prints)
    assert (session.verdict, way_on(session)) == ("stopped", f"vllm-console wizard --resume {case.name}")
    assert found_in(tmp_path, file, context) is None, "nothing goes on with it unasked"
    named = cut_off(tmp_path, case.name)
    found = resumable_case(named.case, read_deployment(file), prints, context)
    assert found is not None
    assert f"case {case.name} was left undecided; it goes on from there" in found.words
    session = await go_on(found, RecordedProbe(good), context)
    assert (session.verdict, way_on(session)) == ("verified", None)
    assert "it goes on" in [one.title for one in moments(case.path, context)]
    with pytest.raises(InputError, match="its report is written"):
        cut_off(tmp_path, case.name)
