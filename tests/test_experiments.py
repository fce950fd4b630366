"""Experiments in a session: which come next, what they tell, how they end; on recorded events and on a real engine."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from docs.experiment_pages import experiment_page
from engine_probe.deployment import read_deployment
from engine_probe.engine import Engine, local_engine
from engine_probe.events import ConfigBuilt, Ended, Failed, Ready
from engine_probe.facts import Known
from playbooks import experiments
from playbooks.context import new_session
from playbooks.decisions import ApplyFix, Begin, Decision, Finish, RunExperiment, Stop
from playbooks.diagnose import allowed, step
from playbooks.effects import Diagnose, Examine, Examined, Load, StopExamine, StopLoad
from playbooks.examining import examine
from playbooks.facts import is_fact
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.model_config import model_facts
from playbooks.next_experiment import next_experiment
from playbooks.replay import drive
from playbooks.report import plain
from playbooks.session import Hypothesis, Session, Verdict
from playbooks.unattended import Unattended
from tests.experiment_samples import KV, RANDOM, RIGHT, SHORTER, WRONG, two_claims
from tests.recorded_probe import RecordedProbe, diagnosis_of, recorded_loads
from tui.commands.replay_run import run_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine_probe.facts import Fact
    from playbooks.context import Context


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return build_fault(fault_named(KV), tmp_path / "lab")


def begun(file: Path) -> Session:
    deployment = read_deployment(file)
    return new_session("2026-11-30-0001", deployment, "warm", "warm", model_facts(deployment.models[0].model))


def take(session: Session, happenings: Sequence[object], context: Context) -> tuple[Session, list[object]]:
    """Fed one after the other; a diagnosis is made at once."""
    effects: list[object] = []
    for number, one in enumerate(happenings):
        session, new = step(session, one, context)  # type: ignore[arg-type]
        effects += new
        for effect in new:
            if isinstance(effect, Diagnose):
                session, more = step(session, diagnosis_of(effect, happenings[: number + 1], context), context)
                effects += more
    return session, effects


def diagnosed(file: Path, context: Context) -> Session:
    return take(begun(file), [Begin(), *recorded_loads()[0]], context)[0]


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def claim(session: Session, name: str) -> Hypothesis:
    return next(one for cause in session.causes for one in cause.hypotheses if one.id == name)


def measured(**facts: float | bool) -> dict[str, Fact]:
    return {name.replace("__", "."): Known(value, "measured", "the test") for name, value in facts.items()}


def test_the_table_is_whole() -> None:
    for one in experiments.every():
        assert one.kind in ("load", "examine")
        assert one.cost in ("none", "seconds", "one full start")
        assert bool(one.how) or one.kind == "load"
        assert (one.grade in ("dry", "session")) == (one.kind == "load")
        assert one.facts
        assert [name for name in one.facts if not is_fact(name)] == []
        assert one.meaning
        assert one.tells_apart
    assert len(set(experiments.names())) == len(experiments.names())


def test_the_page_names_each() -> None:
    page = experiment_page(())
    assert [name for name in experiments.names() if f"## {name}\n" not in page] == []


def test_what_costs_seconds_comes_before_any_fix(file: Path, tmp_path: Path) -> None:
    session = diagnosed(file, two_claims(tmp_path))
    assert Unattended().decide(session) == RunExperiment(KV, WRONG)


def test_with_a_confirmed_claim_nothing_is_left_to_decide(file: Path, tmp_path: Path) -> None:
    session = diagnosed(file, two_claims(tmp_path))
    (cause,) = session.causes
    sure = replace(cause, hypotheses=(cause.hypotheses[0], replace(cause.hypotheses[1], verdict=Verdict.CONFIRMED)))
    session = replace(session, causes=(sure,))
    assert next_experiment(session) is None
    assert next_experiment(session, thorough=True) == RunExperiment(KV, WRONG)


def test_one_fix_asked_for_is_tried_at_once(file: Path, tmp_path: Path) -> None:
    session = diagnosed(file, two_claims(tmp_path))
    assert Unattended(fix=RANDOM).decide(session) == ApplyFix(RANDOM)


def test_a_full_start_only_where_two_fixes_are_rivals(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session = diagnosed(file, context)
    unknown, _ = take(session, [RunExperiment(KV, WRONG), Examined("tensor-audit", {}, "the disk is gone")], context)
    assert Unattended().decide(unknown) == RunExperiment(KV, RIGHT)
    refuted, _ = take(
        session,
        [RunExperiment(KV, WRONG), Examined("tensor-audit", measured(files__missing_tensors=0))],
        context,
    )
    assert Unattended().decide(refuted) == ApplyFix(SHORTER)
    assert Unattended(thorough=True).decide(refuted) == RunExperiment(KV, RIGHT)


def test_a_full_start_that_is_the_fix_itself_is_left_to_the_fix(file: Path, tmp_path: Path) -> None:
    context = two_claims(
        tmp_path, "load-with-dummy-weights", "load.is_serving is true", "load.is_serving is false", "one full start"
    )
    session = diagnosed(file, context)
    assert claim(session, WRONG).change == "args.load-format=dummy"
    assert Unattended().decide(session) == RunExperiment(KV, RIGHT)


def test_a_dry_run_loads_nothing_more(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    policy = Unattended(dry_run=True)
    session = diagnosed(file, context)
    assert policy.decide(session) == RunExperiment(KV, WRONG)
    session, _ = take(session, [RunExperiment(KV, WRONG), Examined("tensor-audit", {}, "no class")], context)
    assert policy.decide(session) == Finish()


def test_what_an_examination_measured_refutes_and_stays(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session, effects = step(diagnosed(file, context), RunExperiment(KV, WRONG), context)
    (effect,) = effects
    assert isinstance(effect, Examine)
    assert effect.name == "tensor-audit"
    assert claim(session, WRONG).verdict is Verdict.RUNNING
    assert allowed(session, Stop())
    assert not allowed(session, ApplyFix(SHORTER))
    done = Examined("tensor-audit", measured(files__missing_tensors=0))
    session, effects = step(session, done, context)
    assert effects == ()
    assert claim(session, WRONG).verdict is Verdict.REFUTED
    assert session.progress.facts_before["files.missing_tensors"] == done.facts["files.missing_tensors"]
    greyed = next(fix for fix in session.fixes if fix.id == RANDOM)
    assert greyed.unavailable is not None
    assert greyed.unavailable.startswith("refuted: The files lack tensors.")
    assert "experiment: compare the tensors" in plain(session)


def test_an_examination_that_cannot_be_done_says_why(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session, _ = step(diagnosed(file, context), RunExperiment(KV, WRONG), context)
    session, _ = step(session, Examined("tensor-audit", {}, "the engine runs elsewhere"), context)
    judged = claim(session, WRONG)
    assert (judged.verdict, judged.because) == (Verdict.INCONCLUSIVE, ("the engine runs elsewhere",))
    assert session.progress.phase == "deciding"


def test_a_reason_takes_no_value_away(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session = diagnosed(file, context)
    session = replace(session, facts={**session.facts, **measured(files__missing_tensors=3)})
    session, _ = step(session, RunExperiment(KV, WRONG), context)
    session, _ = step(session, Examined("tensor-audit", {}, "no time"), context)
    assert claim(session, WRONG).verdict is Verdict.CONFIRMED


def test_a_stop_ends_an_examination(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session, _ = step(diagnosed(file, context), RunExperiment(KV, WRONG), context)
    session, effects = step(session, Stop(), context)
    assert effects == (StopExamine(),)
    session, _ = step(session, Examined("tensor-audit", {}, "whatever"), context)
    judged = claim(session, WRONG)
    assert (judged.verdict, judged.because) == (Verdict.INCONCLUSIVE, ("it was stopped",))
    assert allowed(session, ApplyFix(SHORTER))


def test_a_load_that_was_stopped_told_nothing(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session, _ = step(diagnosed(file, context), RunExperiment(KV, RIGHT), context)
    session, effects = step(session, Stop(), context)
    assert effects == (StopLoad("tiny"),)
    session, _ = take(session, [Failed("tiny", reason="ended"), Ended("tiny")], context)
    judged = claim(session, RIGHT)
    assert (judged.verdict, judged.because) == (Verdict.INCONCLUSIVE, ("it was stopped",))


def test_a_load_that_failed_says_nothing_of_the_configuration(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session, _ = step(diagnosed(file, context), RunExperiment(KV, RIGHT), context)
    session, _ = take(session, [Failed("tiny", reason="no room"), Ended("tiny")], context)
    assert claim(session, RIGHT).verdict is Verdict.REFUTED
    assert "engine.config_accepted" not in session.facts


def test_a_model_that_was_alone_is_not_loaded_alone_again(file: Path, tmp_path: Path) -> None:
    context = two_claims(
        tmp_path, "load-alone", "load.serves_alone is true", "load.serves_alone is false", "one full start"
    )
    session = diagnosed(file, context)
    assert next_experiment(session, thorough=True) == RunExperiment(KV, RIGHT)
    (launch,) = session.deployment.models
    two = replace(session.deployment, models=(launch, replace(launch, name="other")))
    assert next_experiment(replace(session, deployment=two), thorough=True) == RunExperiment(KV, WRONG)


def test_a_load_that_watches_gpus_is_judged_by_what_was_seen(file: Path, tmp_path: Path) -> None:
    context = two_claims(
        tmp_path,
        "watch-gpu-while-profiling",
        "gpu.others_growth_gib >= 0.5",
        "gpu.others_growth_gib < 0.1",
        "one full start",
    )
    session, effects = step(diagnosed(file, context), RunExperiment(KV, WRONG), context)
    (load,) = effects
    assert isinstance(load, Load)
    assert load.watches_gpus
    ending = [
        Failed("tiny", reason="no room"),
        Examined("watch-gpu-while-profiling", measured(gpu__others_growth_gib=2.0)),
    ]
    grown, _ = take(session, [*ending, Ended("tiny")], context)
    assert claim(grown, WRONG).verdict is Verdict.CONFIRMED
    unseen = Examined("watch-gpu-while-profiling", {}, "no NVIDIA driver library")
    blind, _ = take(session, [Failed("tiny", reason="no room"), unseen, Ended("tiny")], context)
    judged = claim(blind, WRONG)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "no NVIDIA driver library" in judged.because[0]


def test_the_change_of_an_experiment_is_filled_in(file: Path, tmp_path: Path) -> None:
    context = two_claims(tmp_path)
    session, effects = step(diagnosed(file, context), RunExperiment(KV, RIGHT), context)
    (load,) = effects
    assert isinstance(load, Load)
    assert load.launch.args["max-model-len"] == 1024  # a quarter of the model's own 4,096
    ready = Ready("tiny", served_models=[load.launch.model])
    session, effects = take(session, [ConfigBuilt("tiny"), ready, Ended("tiny")], context)
    assert StopLoad("tiny") in effects
    assert claim(session, RIGHT).verdict is Verdict.CONFIRMED


SLEEP = ["sleep", str(10**6 + os.getpid())]
"""A command line that no other process of this host has."""


def endless(folder: Path) -> Engine:
    """It never answers, and what it starts would go on for ever."""
    path = folder / "endless"
    path.write_text(f"#!/bin/sh\n{' '.join(SLEEP)} & {' '.join(SLEEP)}\n", encoding="utf-8")
    path.chmod(0o755)
    return local_engine(str(path), "the test")


def sleepers() -> int:
    """How many processes of `endless` there are, whoever adopted them."""
    return sum(one.info["cmdline"] == SLEEP for one in psutil.process_iter(["cmdline"]))


class Endless(RecordedProbe):
    def __init__(self, engine: Engine) -> None:
        super().__init__(recorded_loads()[0])
        self.engine = engine


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)  # what is waited for is another process's doing


async def test_a_stop_leaves_nothing_of_an_examination(file: Path, tmp_path: Path) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    seen: list[Session] = []
    driving = asyncio.create_task(
        drive(
            begun(file),
            Endless(endless(tmp_path)),
            decisions,
            lambda session, _event: seen.append(session),
            context=two_claims(tmp_path),
        )
    )
    decisions.put_nowait(Begin())
    await asyncio.wait_for(until(lambda: bool(seen) and seen[-1].progress.phase == "deciding"), 60)
    decisions.put_nowait(RunExperiment(KV, WRONG))
    await asyncio.wait_for(until(lambda: sleepers() == 2), 60)
    decisions.put_nowait(Stop())
    await asyncio.wait_for(until(lambda: seen[-1].progress.phase == "deciding"), 60)
    assert claim(seen[-1], WRONG).because == ("it was stopped",)
    assert sleepers() == 0
    decisions.put_nowait(Finish())
    await asyncio.wait_for(driving, 60)


async def test_a_console_that_ends_leaves_nothing_of_an_examination(file: Path, tmp_path: Path) -> None:
    driving = asyncio.create_task(
        drive(begun(file), Endless(endless(tmp_path)), Unattended(), lambda *_: None, context=two_claims(tmp_path))
    )
    await asyncio.wait_for(until(lambda: sleepers() == 2), 60)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(driving, 60)
    assert sleepers() == 0


async def test_what_only_an_engine_can_tell_is_inconclusive_without_one(file: Path, tmp_path: Path) -> None:
    session = await asyncio.wait_for(
        drive(
            begun(file),
            RecordedProbe(recorded_loads()[0]),
            Unattended(dry_run=True),
            lambda *_: None,
            context=two_claims(tmp_path),
        ),
        60,
    )
    assert claim(session, WRONG).because == ("there is no engine to ask",)


def test_a_far_engine_is_asked_there_and_files_of_it_are_not_those_here(file: Path) -> None:
    far = Engine(prefix=("env", sys.executable), label="far", found_by="the test")
    deployment = read_deployment(file)
    launch = deployment.models[0]
    assert examine(Examine("port-test", launch, deployment, {}), far, threading.Event()).why_not is None
    files = examine(Examine("file-audit", launch, deployment, {}), far, threading.Event())
    assert files.why_not is not None
    assert "elsewhere" in files.why_not


@pytest.mark.engine
async def test_a_wrong_claim_is_refuted_and_the_fix_of_the_other_holds(
    file: Path, tmp_path: Path, engine: Engine
) -> None:
    before = text(file)
    session = await run_session(
        read_deployment(file), engine, "warm", Unattended(), lambda *_: None, two_claims(tmp_path)
    )
    assert claim(session, WRONG).verdict is Verdict.REFUTED
    assert session.facts["files.missing_tensors"].source == "measured"  # type: ignore[union-attr]
    assert (session.verdict, session.applied_fix) == ("verified", SHORTER)
    assert [fix.outcome for fix in session.fixes if fix.id == RANDOM] == ["not tried"]
    assert session.progress.load_number == 2  # the failure, and the proof of the fix
    assert text(file.with_name(f"{file.name}.r1")) == before


@pytest.mark.engine
async def test_an_inconclusive_experiment_says_why_and_the_way_goes_on(
    file: Path, tmp_path: Path, engine: Engine
) -> None:
    context = two_claims(tmp_path, "largest-allocation", "gpu.in_fragments_gib > 1", "gpu.in_fragments_gib <= 1")
    session = await run_session(read_deployment(file), engine, "warm", Unattended(), lambda *_: None, context)
    first = claim(session, WRONG)
    assert first.verdict is Verdict.INCONCLUSIVE
    assert "there is no GPU memory" in first.because[0]
    assert claim(session, RIGHT).verdict is Verdict.CONFIRMED  # a full start decided between the two fixes
    assert (session.verdict, session.applied_fix) == ("verified", SHORTER)
    assert "there is no GPU memory" in text(Path(session.report_path or ""))
