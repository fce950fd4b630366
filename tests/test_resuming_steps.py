"""Two models on one card, and a fix in two steps: recorded whole, and gone on with from wherever it was cut off."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.engine import local_engine
from engine_probe.events import Text
from playbooks.fingerprints import fingerprints, keep_fingerprints
from playbooks.recorded import past_case
from playbooks.replay import drive
from playbooks.resuming import resumable
from playbooks.unattended import Unattended
from tests.kept_case_samples import context_of, keep_case
from tests.stand_in.ruled_probe import RuledProbe
from tests.test_fix_steps import ALIKE, DEPLOYMENT, one_card

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.launch import Launch
    from playbooks.case import CaseFolder
    from playbooks.context import Context
    from playbooks.session import Session

CAUSE = "co-located-models-budgets-exceed-gpu"
ENGINE = local_engine("/opt/vllm/bin/python", "the test")


@pytest.fixture(scope="module")
def context() -> Context:
    return context_of(CAUSE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "here" / "deployment.yaml"
    path.parent.mkdir()
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


async def whole_case(file: Path, state: Path, context: Context, probe: RuledProbe) -> tuple[CaseFolder, Session]:
    case, session = await keep_case(file, state, probe, Unattended(fix=ALIKE), context=context)
    assert session.verdict == "verified"
    return case, session


async def test_loads_of_several_models_are_rebuilt(file: Path, tmp_path: Path, context: Context) -> None:
    case, session = await whole_case(file, tmp_path, context, RuledProbe(one_card))
    past = past_case(case.path, context)
    assert (past.trouble, past.session) == (None, replace(session, case_folder=str(case.path)))
    fix = next(one for one in past.moments if one.title == f"fix {ALIKE}")
    assert len(next(one for one in fix.session.fixes if one.id == ALIKE).steps) == 2


async def test_a_flood_of_models_that_start_together_is_counted(file: Path, tmp_path: Path, context: Context) -> None:
    class Chatting(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            for number in range(2_500):
                self._tell(Text(launch.name, line=f"shard {number}", offset=number))
            await super().load(launch, grade)

    put_back(file, DEPLOYMENT + "start: parallel\n")
    case, session = await keep_case(file, tmp_path, Chatting(lambda *_: None), Unattended(), context=context)
    assert session.verdict == "healthy"
    kept = (case.path / "events.jsonl").read_text("utf-8")
    assert kept.count('"event":"text"') < 10
    past = past_case(case.path, context)
    assert (past.trouble, past.session) == (None, replace(session, case_folder=str(case.path)))


async def test_wherever_it_is_cut_both_steps_are_made_again(file: Path, tmp_path: Path, context: Context) -> None:
    case, _ = await whole_case(file, tmp_path, context, RuledProbe(one_card))
    wanted = text_of(file)
    put_back(file)
    deployment = read_deployment(file)
    keep_fingerprints(case.path, fingerprints(deployment, ENGINE))
    lines = (case.path / "events.jsonl").read_text("utf-8").splitlines()
    lines[0] = re.sub(r'"since":[\d.]+', '"since":1.0', lines[0])
    kinds = [json.loads(line)["event"] for line in lines]
    first, last = kinds.index("decision:ApplyFix"), kinds.index("decision:Finish") - 1
    phases: set[str] = set()
    for at in (*range(first, last, 3), kinds.index("decision:ApplyFix") + 1):
        (case.path / "events.jsonl").write_text("".join(line + "\n" for line in lines[:at]), encoding="utf-8")
        (case.path / "report.md").unlink(missing_ok=True)
        found = resumable(tmp_path, deployment, fingerprints(deployment, ENGINE), context)
        assert found is not None
        assert found.session is not None
        ended = past_case(case.path, context).session
        assert ended is not None
        phases.add(f"{ended.progress.phase} {ended.progress.fix_step}")
        probe = RuledProbe(one_card)
        driving = drive(found.session, probe, Unattended(fix=ALIKE), lambda *_: None, context=context, case=found.case)
        session = await asyncio.wait_for(driving, 30)
        assert session.verdict == "verified"
        assert text_of(file) == wanted
        assert probe.asked[0] == "warm load of chat"  # step 1; no load to see what is wrong
        assert sum(" load of code" in word for word in probe.asked) == 1
        put_back(file)
    assert phases >= {"deciding 0", "writing 0", "verifying 0", "verifying 1"}


def text_of(file: Path) -> str:
    return file.read_text("utf-8")


def put_back(file: Path, text: str = DEPLOYMENT) -> None:
    """As `take_back` does at the next start."""
    file.write_text(text, encoding="utf-8")
    for kept in file.parent.glob("*.r*"):
        kept.unlink()


async def test_cut_off_in_an_experiment_it_is_made_again(file: Path, tmp_path: Path, context: Context) -> None:
    probe = RuledProbe(one_card)
    case, session = await keep_case(file, tmp_path, probe, Unattended(thorough=True), context=context)
    assert session.verdict == "verified"
    put_back(file)
    deployment = read_deployment(file)
    keep_fingerprints(case.path, fingerprints(deployment, ENGINE))
    lines = (case.path / "events.jsonl").read_text("utf-8").splitlines()
    lines[0] = re.sub(r'"since":[\d.]+', '"since":1.0', lines[0])
    at = next(number for number, line in enumerate(lines) if '"event":"decision:RunExperiment"' in line)
    (case.path / "events.jsonl").write_text("".join(line + "\n" for line in lines[: at + 2]), encoding="utf-8")
    (case.path / "report.md").unlink()
    found = resumable(tmp_path, deployment, fingerprints(deployment, ENGINE), context)
    assert found is not None
    assert found.words.startswith(f"case {case.name} was cut off in an experiment; it goes on from there")
    assert found.session is not None
    again = RuledProbe(one_card)
    driving = drive(found.session, again, Unattended(thorough=True), lambda *_: None, context=context, case=found.case)
    session = await asyncio.wait_for(driving, 30)
    assert session.verdict == "verified"
    assert len(again.asked) < len(probe.asked)
    past = past_case(case.path, context)
    assert past.trouble is None
    assert "it goes on after it was cut off" in [one.title for one in past.moments]
