"""Two models that fail together and work apart, on the real engine: found, mended, and both proved."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.load_conditions import LoadConditions
from engine_probe.supervisor import Probe
from playbooks.context import new_session, read_context
from playbooks.decisions import ApplyFix, Begin, Decision, Finish, RunExperiment
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.lab.surroundings import Scene
from playbooks.lab.unmade import CannotMake
from playbooks.replay import drive
from playbooks.session import Outcome, Proof, Session, Verdict
from playbooks.start import facts_before

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.engine import Engine
    from engine_probe.events import Event

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


class Person:
    """Watches, loads the one that failed alone, applies one fix, and leaves."""

    def __init__(self, claim: str, fix: str) -> None:
        self.decisions: asyncio.Queue[Decision] = asyncio.Queue()
        self.decisions.put_nowait(Begin())
        self._claim, self._fix = claim, fix
        self._has_tried = False

    def see(self, session: Session, _event: Event | None) -> None:
        if session.progress.phase != "deciding" or self.decisions.qsize():
            return
        if session.verdict is not None or not session.causes:
            self.decisions.put_nowait(Finish())
        elif not self._has_tried:
            self._has_tried = True
            self.decisions.put_nowait(RunExperiment(session.causes[0].id, self._claim))
        else:
            self.decisions.put_nowait(ApplyFix(self._fix))


async def mended(name: str, person: Person, folder: Path, engine: Engine) -> Session:
    """The session of one fault of the lab, with what surrounds it."""
    fault = fault_named(name)
    with ExitStack() as stack:
        words: dict[str, str] = {}
        conditions = LoadConditions()
        for one in fault.surroundings:
            try:
                around = stack.enter_context(one.run(Scene(folder, engine)))
            except CannotMake as reason:
                pytest.skip(str(reason))
            words |= around.words
            conditions |= around.conditions
        deployment = read_deployment(build_fault(fault, folder, words))
        session = new_session("case", deployment, "warm", "warm", facts_before(deployment))
        session = replace(session, proof=Proof(concurrent=2, burst_seconds=0.5))
        async with Probe(engine, owns=folder) as probe:
            probe.conditions = conditions
            return await drive(session, probe, person.decisions, person.see, context=read_context())


@pytest.mark.parametrize(
    ("fault", "claim", "fix", "failed"),
    [
        ("two-pools-one-limit", "in-the-way-of-one-another", "share-the-room-alike", ("chat", "code")),
        ("same-port-twice", "alone-it-works", "another-port", ("code",)),
    ],
)
async def test_two_models_that_fail_together_and_work_apart(
    fault: str, claim: str, fix: str, failed: tuple[str, ...], tmp_path: Path, engine: Engine
) -> None:
    session = await mended(fault, Person(claim, fix), tmp_path / "lab", engine)
    assert session.causes[0].id == fault_named(fault).cause
    assert session.symptom is not None
    assert session.symptom.model in failed  # whom the kernel ends is its own choice
    judged = next(one for one in session.causes[0].hypotheses if one.id == claim)
    assert judged.verdict is Verdict.CONFIRMED
    assert (session.verdict, session.applied_fix) == ("verified", fix)
    checks = {one.id: one.outcome for one in session.checks}
    other = "code" if session.symptom.model == "chat" else "chat"
    assert (checks["loads"], checks[f"beside-{other}"]) == (Outcome.PASS, Outcome.PASS)
