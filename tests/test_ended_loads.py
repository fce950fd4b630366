"""A session names the causes that `diagnose` names for the log of its load: same ranking, evidence and facts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.events import Ended, Event, Failed, Hung, Ready, Started, Text
from engine_probe.facts import Known
from engine_probe.logs.telling import telling_records
from engine_probe.run_log import RunLog
from playbooks.case import new_case
from playbooks.context import Context, new_session, read_context
from playbooks.decisions import Begin, Finish
from playbooks.diagnosis import Diagnosis, Given, diagnose
from playbooks.effects import Diagnose
from playbooks.ended_load import diagnose_load
from playbooks.evidence import Evidence
from playbooks.replay import drive
from playbooks.session import Step, Verdict
from playbooks.unattended import Unattended
from tests.memory_logs import CAPTURING, LOADED, LOADING, PROFILED, SERVING, SIZED, failed, info, oom, v1
from tests.recorded_probe import RecordedProbe

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.decisions import Decision
    from playbooks.session import Session

DEPLOYMENT = """\
models:
  - name: chat
    model: acme/m-7b
    args: {dtype: float16, tensor-parallel-size: 2}
"""
UP = v1("0.13.0", LOADING, LOADED, PROFILED, SIZED) + SERVING + "\n"
DIVIDED = v1("0.13.0", LOADING, failed("AssertionError: 14336 is not divisible by 3", "distributed/utils.py:divide"))
LOAD_FRAMES = ("v1/worker/gpu_model_runner.py:load_model", "model_executor/model_loader/utils.py:initialize_model")
NARROWED = {
    "frames": (v1("0.10.2", LOADING, failed(oom(), *LOAD_FRAMES)), "utilization-too-low-for-weights"),
    "stages": (v1("0.9.2", LOADING, LOADED, PROFILED, SIZED, CAPTURING, oom()), "cuda-graph-capture-oom"),
    "frames of a helper": (DIVIDED, "heads-not-divisible-by-tp"),
    "along_with": (
        v1(
            "0.11.2",
            info("Casting torch.bfloat16 to torch.float16.", "model.py"),
            LOADING,
            LOADED,
            failed(
                "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "v1/sample/sampler.py:f"
            ),
        ),
        "float16-overflow",
    ),
}
HANG = (
    "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes hang."
)


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


def load_of(log: str, *end: Event) -> list[Event]:
    """What a probe reports of a load that prints `log`."""
    ending = end or (Failed("chat", reason="vllm exited with code 1 before it was ready", exit_code=1),)
    return [
        Started("chat", grade="cold"),
        *(Text("chat", line=one) for one in log.splitlines()),
        *ending,
        Ended("chat"),
    ]


class DiagnosedOnly:
    """Begins and ends: no experiment adds to what the log told."""

    def decide(self, session: Session) -> Decision | None:
        decisions: dict[str, Decision] = {"not begun": Begin(), "deciding": Finish()}
        return decisions.get(session.progress.phase)


async def observed(file: Path, context: Context, tmp_path: Path, load: list[Event]) -> tuple[Session, Diagnosis]:
    """The session up to its decision, and what `diagnose engine.log --deployment FILE` says."""
    deployment = read_deployment(file)
    session = new_session("case", deployment, "cold", "cold")
    log = RunLog()
    log.open(tmp_path / "engine.log")
    case = new_case(tmp_path / "state", date(2026, 11, 29))
    driving = drive(session, RecordedProbe(load), DiagnosedOnly(), lambda *_: None, context=context, case=case, log=log)
    session = await asyncio.wait_for(driving, 30)
    given = Given("engine.log", Evidence(deployment.models[0], deployment))
    diagnosis = diagnose(telling_records(log.reading()), context.library, context.wrappers, given)
    log.close()
    return session, diagnosis


@pytest.mark.parametrize("narrowed_by", NARROWED)
async def test_a_narrowed_wording_counts_in_a_session_too(
    narrowed_by: str, file: Path, context: Context, tmp_path: Path
) -> None:
    log, cause = NARROWED[narrowed_by]
    session, diagnosis = await observed(file, context, tmp_path, load_of(log))
    assert diagnosis.causes[0].cause.id == cause
    assert_same(session, diagnosis)


def assert_same(session: Session, diagnosis: Diagnosis) -> None:
    told = [replace(one.cause, evidence=()) for one in diagnosis.causes if one.playbook is not None]
    assert [replace(one, evidence=()) for one in session.causes] == told
    for mine, theirs in zip(session.causes, diagnosis.causes, strict=True):
        assert [(one.line, one.text) for one in mine.evidence] == [
            (one.line, one.text) for one in theirs.cause.evidence
        ]
        assert {one.file for one in mine.evidence} == {"load-1.log"}
    values = {name: fact.value for name, fact in session.facts.items() if isinstance(fact, Known)}
    for name, fact in diagnosis.facts.items():
        assert isinstance(fact, Known)
        assert values[name] == fact.value, name
    captured = session.progress.captured[session.causes[0].id]
    assert {name: fact.value for name, fact in captured.items() if isinstance(fact, Known)} == {
        name: fact.value for name, fact in diagnosis.causes[0].captured.items() if isinstance(fact, Known)
    }


async def test_a_load_that_hangs_is_known_by_its_last_words(file: Path, context: Context, tmp_path: Path) -> None:
    log = v1("0.11.2", LOADING, LOADED, info(HANG, "shm_broadcast.py"), info(HANG, "shm_broadcast.py"))
    reason = "nothing moved for 300 s"
    stacks = [{"name": "VLLM::Worker_TP0", "pid": 7, "stack": ["Thread 1\n  File broadcast.py"]}]
    hung = load_of(log, Hung("chat", silent_seconds=300, stacks=stacks), Failed("chat", reason=reason))
    session, diagnosis = await observed(file, context, tmp_path, hung)
    assert diagnosis.outcome == "incomplete"
    assert session.causes[0].id == "worker-stopped-hang"
    assert_same(session, diagnosis)


async def test_a_model_that_serves_and_warns_of_wrong_answers_is_not_healthy(
    file: Path, context: Context, tmp_path: Path
) -> None:
    newly = "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at /m and are newly made"
    log = v1("0.13.0", LOADING, newly, LOADED, PROFILED, SIZED) + SERVING + "\n"
    ready = Ready("chat", served_models=["chat"], port=8000)
    session, diagnosis = await observed(file, context, tmp_path, load_of(log, ready))
    assert diagnosis.symptom == "answers-are-wrong"
    assert session.symptom is not None
    assert (session.symptom.kind, session.verdict) == ("answers-are-wrong", "stopped")
    assert session.progress.up == ()
    assert_same(session, diagnosis)


async def test_a_model_that_serves_is_healthy(file: Path, context: Context, tmp_path: Path) -> None:
    ready = Ready("chat", served_models=["chat"], port=8000)
    session, diagnosis = await observed(file, context, tmp_path, load_of(UP, ready))
    assert (diagnosis.outcome, session.verdict, session.causes) == ("healthy", "healthy", ())


async def test_evidence_points_into_the_load_s_own_log(file: Path, context: Context, tmp_path: Path) -> None:
    session, _ = await observed(file, context, tmp_path, load_of(DIVIDED))
    (folder,) = (tmp_path / "state" / "cases").iterdir()
    (evidence, *_) = session.causes[0].evidence
    assert evidence.line is not None
    assert "is not divisible by 3" in (folder / evidence.file).read_text("utf-8").splitlines()[evidence.line - 1]


@pytest.fixture
def two(file: Path) -> Path:
    file.write_text(DEPLOYMENT + "  - {name: other, model: acme/m-1b}\n", encoding="utf-8")
    return file


async def test_a_model_is_diagnosed_by_its_own_lines(two: Path, context: Context) -> None:
    """The other one serves and prints meanwhile."""
    chat_up = load_of(UP, Ready("chat", served_models=["acme/m-7b"], port=8000))[:-1]
    printed = [Text("chat", line="ValueError: No available memory for the cache blocks."), *load_of(DIVIDED)]
    other = [one if index == 0 else replace(one, model="other") for index, one in enumerate(printed)]

    class Probe(RecordedProbe):
        async def stop(self, model: str, reason: str | None = None) -> None:
            self._queue.put_nowait(Ended(model))

        @staticmethod
        def _of(launch: object, event: Event) -> Event:
            return event

    session = new_session("case", read_deployment(two), "cold", "cold")
    probe = Probe(chat_up, other)
    session = await asyncio.wait_for(
        drive(session, probe, Unattended(dry_run=True), lambda *_: None, context=context), 30
    )
    assert session.model == "other"
    assert session.causes[0].id == "heads-not-divisible-by-tp"
    assert session.causes[0].evidence[0].file == "load-2.log"


def test_what_was_measured_sharpens_the_diagnosis(file: Path, context: Context) -> None:
    """The look-ups of hypotheses know what the session measured: a reason is not replaced by another."""
    deployment = read_deployment(file)
    log = RunLog()
    log.open_privately()
    for event in load_of(DIVIDED):
        log.add(event)
    facts = {"host.available_gib": Known(3.5, "measured", "this host")}
    done = diagnose_load(Diagnose(1, deployment.models[0], deployment, facts), log.reading(), context)
    log.close()
    assert done.diagnosis.facts["host.available_gib"] == facts["host.available_gib"]
    assert all(one.verdict is not Verdict.RUNNING for one in done.diagnosis.causes[0].cause.hypotheses)


async def test_a_failure_that_no_playbook_explains_still_shows_what_else_was_seen(
    file: Path, context: Context, tmp_path: Path
) -> None:
    """A warning is known, and the exception after it is not."""
    words = "The model type 'gemma3' does not support float16. Reason: Numerical instability."
    warning = f"@ WARNING 11-29 10:00:09 [x.py:1] {words}"
    log = v1("0.13.0", warning, LOADING, failed("ValueError: the moon is in the wrong house", "v1/x.py:f"))
    session, diagnosis = await observed(file, context, tmp_path, load_of(log))
    assert diagnosis.causes[0].playbook is None
    assert session.verdict == "unexplained"
    assert [one.id for one in session.causes] == [one.cause.id for one in diagnosis.causes[1:]]
    assert (session.step is Step.HYPOTHESES) == bool(session.causes)
    assert session.causes
