"""Whole sessions on recorded events: cause, fix, verification, and the way back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest
from recorded_probe import RecordedProbe, diagnosis_of, failing_load, recorded_loads

from engine_probe.deployment import read_deployment
from engine_probe.events import (
    ConfigBuilt,
    Ended,
    Event,
    Failed,
    Hung,
    Ready,
    RequestAnswered,
    Started,
    Trouble,
    Warmed,
    Warming,
    encode,
)
from engine_probe.logs.index import open_log
from engine_probe.run_log import RunLog
from playbooks.case import CaseFolder, new_case
from playbooks.context import Context, new_session, read_context
from playbooks.decisions import ApplyFix, Begin, Decision, Finish, RunExperiment, Stop, Undo
from playbooks.diagnose import allowed, step
from playbooks.effects import (
    Diagnose,
    EffectFailed,
    Load,
    LookAtFiles,
    RevisionUndone,
    RevisionWritten,
    SendRequest,
    StopLoad,
    UndoRevision,
    WriteRevision,
)
from playbooks.files_seen import look_at_files
from playbooks.fixing import option_of, with_value
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.model_config import model_facts
from playbooks.proof import is_standard
from playbooks.replay import Policy, drive
from playbooks.report import markdown, one_fix_lines, plain
from playbooks.session import Outcome, Session, Step, Verdict
from playbooks.unattended import Unattended
from playbooks.way_back import is_changed, will_change
from tests.good_answers import good_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from playbooks.effects import Done

KV = "kv-cache-too-small-for-max-model-len"
SHORTER, POOL = "serve-a-shorter-context", "enlarge-the-pool"


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return build_fault(fault_named(KV), tmp_path / "lab")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def begin(file: Path) -> Session:
    deployment = read_deployment(file)
    return new_session("2026-11-29-0001", deployment, "warm", "warm", model_facts(deployment.models[0].model))


async def run(
    file: Path,
    context: Context,
    probe: RecordedProbe,
    policy: Policy | asyncio.Queue[Decision] | None = None,
    on_change: Callable[[Session, Event | None], None] = lambda _session, _event: None,
    case: CaseFolder | None = None,
    log: RunLog | None = None,
) -> Session:
    driving = drive(begin(file), probe, policy or Unattended(), on_change, context=context, case=case, log=log)
    return await asyncio.wait_for(driving, 20)


def bad_then_good() -> RecordedProbe:
    return RecordedProbe(*recorded_loads())


async def test_the_fault_is_explained_mended_and_proved(file: Path, context: Context) -> None:
    before = text(file)
    probe = bad_then_good()
    session = await run(file, context, probe)

    assert session.verdict == "verified"
    assert session.step is Step.VERIFY
    assert session.symptom is not None
    assert (session.symptom.kind, session.symptom.stage, session.symptom.layer) == (
        "does-not-start",
        "memory_planning",
        "engine",
    )
    (cause,) = session.causes
    assert (cause.id, cause.confidence) == (KV, 0.95)
    assert cause.evidence[0].file == "load-1.log"
    assert cause.evidence[0].line is not None
    assert {one.id: one.verdict for one in cause.hypotheses} == {
        "context-longer-than-anyone-asked-for": Verdict.CONFIRMED,
        "context-chosen-too-long": Verdict.REFUTED,
        "pool-set-by-hand": Verdict.CONFIRMED,
        "budget-smaller-than-the-card": Verdict.REFUTED,
        "neighbour-grew-while-vllm-measured": Verdict.REFUTED,
        "sixteen-bit-kv-is-the-bulk": Verdict.REFUTED,
    }
    assert session.applied_fix == SHORTER
    assert [launch.args.get("max-model-len") for launch in probe.launches] == [None, 1408]
    assert all(one.outcome is Outcome.PASS for one in session.checks)
    measured = {one.id: one.measured for one in session.checks}
    assert measured["cache-allocated"] == measured["expect-1"] == "1,536 tokens"
    promise = next(one for one in session.checks if one.id == "expect-1")
    assert promise.expected == "KV cache tokens ≥ 1,408 (max-model-len as launched)"
    assert promise.brief == "KV cache tokens ≥ 1,408"
    assert promise.conditions == ("kv.tokens >= launch.max_model_len",)
    assert "1,400 + 8 = 1,408 tokens" in str(measured["answers-at-full-length"])
    assert text(file) == before + "      max-model-len: 1408\n"
    assert text(file.parent / "deployment.yaml.r1") == before


async def test_the_request_at_full_length_fills_the_context_exactly(file: Path, context: Context) -> None:
    probe = bad_then_good()
    await run(file, context, probe)
    healthy, short, full = probe.requests
    assert (healthy.path, healthy.body) == ("/health", None)
    assert short.path == full.path == "/v1/completions"
    assert full.body is not None
    assert len(full.body["prompt"]) + full.body["max_tokens"] == 1408
    assert full.body["ignore_eos"] is True


async def test_a_fix_that_does_not_hold_is_taken_back_before_the_next(file: Path, context: Context) -> None:
    bad, good = recorded_loads()
    before = text(file)
    texts: list[str] = []

    def watch(session: Session, event: Event | None) -> None:
        if isinstance(event, Started):
            texts.append(text(file))

    session = await run(file, context, RecordedProbe(bad, bad, good), on_change=watch)
    assert session.verdict == "verified"
    assert {one.id: one.outcome for one in session.fixes} | {SHORTER: "did not hold", POOL: "verified"} == {
        one.id: one.outcome for one in session.fixes
    }
    assert texts[0] == before
    assert texts[1] == before + "      max-model-len: 1408\n"
    assert texts[2] == before.replace('"96M"', "276824064")
    assert any("did not hold and was undone" in note for note in session.notes)


async def test_when_no_fix_holds_the_file_is_as_it_was(file: Path, context: Context) -> None:
    bad, _ = recorded_loads()
    before = text(file)
    session = await run(file, context, RecordedProbe(bad, bad, bad))
    assert session.verdict == "not verified"
    assert text(file) == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["deployment.yaml", "tiny", "whole"]


async def test_an_answer_that_is_too_short_fails_the_fix(file: Path, context: Context) -> None:
    bad, good = recorded_loads()
    short = [
        replace(one, prompt_tokens=900) if isinstance(one, RequestAnswered) and one.prompt_tokens == 1400 else one
        for one in good
    ]
    session = await run(file, context, RecordedProbe(bad, short), Unattended(fix=SHORTER))
    assert session.verdict == "not verified"
    failed = next(one for one in session.checks if one.outcome is Outcome.FAIL)
    assert (failed.id, failed.measured) == (
        "answers-at-full-length",
        "status 200, 900 + 8 = 908 tokens in 1.10 s",
    )


async def test_a_measurement_that_is_missing_proves_nothing(file: Path, context: Context) -> None:
    """The numbers of the load before must not stand for those of this one."""
    bad, good = recorded_loads()
    silent = [one for one in good if "KV cache size" not in encode(one)]
    session = await run(file, context, RecordedProbe(bad, silent), Unattended(fix=SHORTER))
    assert session.verdict == "not verified"
    outcomes = {one.id: one.outcome for one in session.checks}
    assert outcomes["cache-allocated"] is Outcome.FAIL
    assert outcomes["expect-1"] is Outcome.ABSTAIN
    assert outcomes["answers"] is Outcome.ABSTAIN


async def test_dry_run_changes_nothing_and_proposes(file: Path, context: Context) -> None:
    before = text(file)
    session = await run(file, context, RecordedProbe(recorded_loads()[0]), Unattended(dry_run=True))
    assert session.verdict == "stopped"
    assert text(file) == before
    proposed = session.fixes[0]
    assert (proposed.id, proposed.new_value, proposed.diff) == (SHORTER, "1408", ("+  args.max-model-len: 1408",))
    assert proposed.title == "max-model-len of tiny: 4,096 (the model's own, not set) → 1,408"
    assert proposed.promises == ("KV cache tokens ≥ 1,408",)
    pool = next(one for one in session.fixes if one.id == POOL)
    assert pool.title == "kv-cache-memory-bytes of tiny: 96 MiB → 264 MiB (276,824,064 bytes)"
    assert pool.promises == ("KV cache tokens ≥ 4,096",)
    assert proposed.you_lose == "Requests longer than 1,408 tokens are refused."


async def test_a_no_is_a_no(file: Path, context: Context) -> None:
    policy = Unattended(confirm=lambda _fix: False)
    session = await run(file, context, RecordedProbe(recorded_loads()[0]), policy)
    assert session.verdict == "stopped"
    assert session.applied_fix is None


async def test_only_fixes_that_can_do_something_are_offered(file: Path, context: Context) -> None:
    session = await run(file, context, RecordedProbe(recorded_loads()[0]), Unattended(dry_run=True))
    reasons = {one.id: one.unavailable for one in session.fixes}
    assert reasons[SHORTER] is None
    assert reasons[POOL] is None
    assert "VLLM_CPU_KVCACHE_SPACE" in str(reasons["enlarge-the-cpu-pool"])
    assert "KV cache size set by hand" in str(reasons["raise-the-budget"])


async def test_a_failure_that_no_playbook_knows(file: Path, context: Context) -> None:
    session = await run(file, context, RecordedProbe(failing_load("tiny", "the moon is in the wrong house")))
    assert session.verdict == "unexplained"
    assert session.symptom is not None
    assert session.symptom.headline == "ValueError: the moon is in the wrong house"
    assert (session.causes, session.fixes) == ((), ())


async def test_a_cover_message_alone_is_no_headline(file: Path, context: Context) -> None:
    cover = failing_load("tiny", "Engine core initialization failed. See root cause above.", "RuntimeError")
    session = await run(file, context, RecordedProbe(cover))
    assert session.verdict == "unexplained"
    assert session.symptom is not None
    assert session.symptom.headline == "vllm exited with code 1 before it was ready"


async def test_a_model_that_loads_is_healthy(file: Path, context: Context) -> None:
    session = await run(file, context, RecordedProbe(recorded_loads()[1]))
    assert session.verdict == "healthy"
    assert session.symptom is None


async def test_an_engine_that_cannot_run(file: Path, context: Context) -> None:
    session = await run(file, context, RecordedProbe([Trouble(text="no python", fatal=True)]))
    assert session.verdict == "cannot run"
    assert session.notes == ("no python",)


async def test_an_engine_lost_while_verifying_leaves_the_file_as_it_was(file: Path, context: Context) -> None:
    before = text(file)
    lost: list[Event] = [Started("tiny"), Trouble(text="gone", fatal=True)]
    session = await run(file, context, RecordedProbe(recorded_loads()[0], lost))
    assert session.verdict == "cannot run"
    assert text(file) == before


async def test_a_driver_that_is_cancelled_leaves_the_file_as_it_was(file: Path, context: Context) -> None:
    before = text(file)
    probe = RecordedProbe(recorded_loads()[0], [Started("tiny")])
    reached = asyncio.Event()

    def watch(session: Session, event: Event | None) -> None:
        if session.progress.phase == "verifying":
            reached.set()

    task = asyncio.create_task(run(file, context, probe, on_change=watch))
    await asyncio.wait_for(reached.wait(), 20)
    assert text(file) != before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert text(file) == before


async def test_a_file_that_someone_else_changed_is_not_written(file: Path, context: Context) -> None:
    def meddle(session: Session, event: Event | None) -> None:
        if isinstance(event, Failed):
            file.write_text(text(file) + "# mine\n", encoding="utf-8")

    session = await run(file, context, bad_then_good(), on_change=meddle, policy=Unattended(fix=SHORTER))
    assert session.verdict != "verified"
    assert any("has changed on disk" in note for note in session.notes)
    assert "max-model-len:" not in text(file)


async def test_a_case_keeps_events_logs_and_report(file: Path, context: Context, tmp_path: Path) -> None:
    case = new_case(tmp_path / "state", date(2026, 11, 29))
    session = await run(file, context, bad_then_good(), case=case)
    assert case.name == "2026-11-29-0001"
    assert sorted(path.name for path in case.path.iterdir()) == [
        "deployment-after.yaml",
        "deployment-before.yaml",
        "events.jsonl",
        "load-1.log",
        "load-2.log",
        "report.md",
        "summary.json",
    ]
    kinds = [json.loads(line)["event"] for line in (case.path / "events.jsonl").read_text("utf-8").splitlines()]
    assert kinds[:2] == ["begun", "decision:Begin"]
    assert "decision:ApplyFix" in kinds
    evidence = session.causes[0].evidence[0]
    assert evidence.line is not None
    logged = (case.path / evidence.file).read_text("utf-8").splitlines()[evidence.line - 1]
    assert "To serve at least one request" in logged
    assert session.symptom is not None
    assert session.symptom.evidence[0].line == evidence.line
    assert session.report_path == str(case.path / "report.md")
    assert new_case(tmp_path / "state", date(2026, 11, 29)).name == "2026-11-29-0002"


async def test_a_case_s_log_holds_both_loads_as_vllm_printed_them(file: Path, context: Context, tmp_path: Path) -> None:
    log = RunLog()
    log.open(tmp_path / "engine.log")
    session = await run(file, context, bad_then_good(), log=log)
    log.close()
    lines = (tmp_path / "engine.log").read_text("utf-8").splitlines()
    begun = [number for number, line in enumerate(lines) if "vllm_console.probe - INFO - warm load of tiny" in line]
    assert len(begun) == 2
    assert session.symptom is not None
    assert any(session.symptom.headline in line for line in lines[begun[0] : begun[1]])
    assert not any(session.symptom.headline in line for line in lines[begun[1] :])
    index = open_log(tmp_path / "engine.log")
    while not index.advance():
        pass
    changes = index.stage_changes()
    index.close()
    in_first = [stage for at, stage in changes if at < begun[1]]
    in_second = [stage for at, stage in changes if at > begun[1]]
    assert "memory_planning" in in_first
    assert "warmup" not in in_first
    assert "warmup" in in_second


async def test_a_full_disk_ends_no_case_and_is_said_once(file: Path, context: Context, tmp_path: Path) -> None:
    case = new_case(tmp_path / "state", date(2026, 11, 29))
    for name in ("deployment-before.yaml", "events.jsonl", "load-1.log", "load-2.log", "engine.log"):
        (case.path / name).symlink_to("/dev/full")
    log = RunLog()
    log.open(case.path / "engine.log")
    session = await run(file, context, bad_then_good(), case=case, log=log)
    log.close()
    assert session.verdict == "verified"
    (said,) = [note for note in session.notes if "No space left on device" in note]
    assert "The case goes on" in said


async def test_the_report_has_the_four_steps(file: Path, context: Context) -> None:
    session = await run(file, context, bad_then_good())
    for report in (markdown(session), plain(session)):
        for words in ("Symptom", "Hypotheses", "Fix", "Verify", "What was not proved"):
            assert words in report
        assert "load-1.log:" in report
        assert "+  args.max-model-len: 1408" in report
        assert "expected  KV cache tokens ≥ 1,408 (max-model-len as launched)" in report
        assert "measured  1,536 tokens" in report
        assert "95 % confidence: " in report
        assert "max-model-len as launched: not set" in report
        assert "launch.max_model_len" not in report.partition("## Facts")[0]


def test_the_import_of_vllm_is_what_goes_on(file: Path, context: Context) -> None:
    session, _ = take(begin(file), [Begin(), Warming()], context)
    assert session.running == "importing vLLM once (warm-up); then loading tiny (warm)"
    session, _ = take(session, [Warmed(seconds=7.0, vllm_version="0.32.0")], context)
    assert session.running == "loading tiny (warm)"


async def test_log_text_cannot_leave_its_fence(file: Path, context: Context) -> None:
    session = await run(file, context, RecordedProbe(failing_load("tiny", "a ``` b\n# not a heading")))
    assert "````text\nload-1.log:2  ValueError: a ``` b" in markdown(session)


async def test_secrets_do_not_reach_the_case(file: Path, context: Context, tmp_path: Path) -> None:
    case = new_case(tmp_path / "state", date(2026, 11, 29))
    secret = "hf_" + "abcdefghij0123456789klmn"
    await run(file, context, RecordedProbe(failing_load("tiny", f"no access with {secret}")), case=case)
    assert all(secret not in path.read_text("utf-8") for path in case.path.iterdir())


async def test_a_person_decides_step_by_step(file: Path, context: Context) -> None:
    bad, good = recorded_loads()
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    undone: list[str] = []

    def person(session: Session, event: Event | None) -> None:
        if session.progress.phase != "deciding" or decisions.qsize():
            return
        if session.verdict == "verified":
            decisions.put_nowait(Undo())
        elif undone or any("was undone" in note for note in session.notes):
            undone.append(text(file))
            decisions.put_nowait(Finish())
        elif session.causes and session.applied_fix is None:
            decisions.put_nowait(ApplyFix(SHORTER, "1024"))

    before = text(file)
    probe = RecordedProbe(bad, good)
    session = await run(file, context, probe, decisions, person)
    assert probe.launches[1].args["max-model-len"] == 1024
    assert undone[0] == before
    assert session.applied_fix is None


def take(session: Session, happenings: Sequence[object], context: Context) -> tuple[Session, list[object]]:
    effects: list[object] = []
    heard: list[object] = []
    for one in happenings:
        heard.append(one)
        session, new = step(session, one, context)  # type: ignore[arg-type]
        while new:
            effects += new
            asked, new = new, ()
            for effect in asked:
                done = came_of(effect, heard, context)
                if done is not None:
                    session, new = step(session, done, context)
    return session, effects


def came_of(effect: object, heard: Sequence[object], context: Context) -> Done | Event | None:
    """What a driver and a model that is well feed back at once."""
    if isinstance(effect, Diagnose):
        return diagnosis_of(effect, heard, context)
    if isinstance(effect, LookAtFiles):
        return look_at_files(effect.launch, effect.deployment, is_local=True)
    is_asked = isinstance(effect, SendRequest) and is_standard(effect.request.id)
    return good_answer(effect.model, effect.request) if isinstance(effect, SendRequest) and is_asked else None


def diagnosed(file: Path, context: Context, **args: object) -> Session:
    session = begin(file)
    if args:
        launch = session.deployment.models[0]
        for name, value in args.items():
            launch = launch.with_arg(name.replace("_", "-"), value)  # type: ignore[arg-type]
        launch = replace(launch, model="/models/tiny-llama")  # the one that the recorded load tells of
        session = replace(session, deployment=replace(session.deployment, models=(launch,)))
    return take(session, [Begin(), *recorded_loads()[0]], context)[0]


def test_a_length_that_was_chosen_is_another_hypothesis(file: Path, context: Context) -> None:
    verdicts = {one.id: one.verdict for one in diagnosed(file, context, max_model_len=4096).causes[0].hypotheses}
    assert verdicts["context-longer-than-anyone-asked-for"] is Verdict.REFUTED
    assert verdicts["context-chosen-too-long"] is Verdict.CONFIRMED


def test_an_experiment_loads_once_with_one_change_and_is_judged_by_its_end(file: Path, context: Context) -> None:
    session = diagnosed(file, context)
    message = "To serve at least one request with the model's max seq len (4096), (0.25 GiB KV cache is needed, "
    assert session.causes[0].evidence[0].text.startswith("ValueError: " + message)
    cause = session.causes[0]
    untested = replace(
        session,
        causes=(replace(cause, hypotheses=tuple(replace(h, verdict=Verdict.UNTESTED) for h in cause.hypotheses)),),
    )
    session, effects = step(untested, RunExperiment(KV, "sixteen-bit-kv-is-the-bulk"), context)
    (load,) = effects
    assert isinstance(load, Load)
    assert load.grade == "dry"
    assert load.launch.args["kv-cache-dtype"] == "fp8"
    assert "kv-cache-dtype" not in session.deployment.models[0].args
    session, effects = step(session, ConfigBuilt("tiny", seconds=0.3), context)
    session, _ = step(session, Ended("tiny"), context)
    judged = next(one for one in session.causes[0].hypotheses if one.id == "sixteen-bit-kv-is-the-bulk")
    assert judged.verdict is Verdict.REFUTED  # 0.1275 GiB does not fit in 0.09 GiB
    assert session.progress.phase == "deciding"
    assert session.running is None


def test_stop_ends_the_load_and_undoes_what_was_not_proved(file: Path, context: Context) -> None:
    session, effects = step(diagnosed(file, context), ApplyFix(SHORTER), context)
    (write,) = effects
    assert isinstance(write, WriteRevision)
    assert (write.launch, write.key, write.value) == ("tiny", "args.max-model-len", "1408")
    after = session.deployment
    session, _ = step(session, RevisionWritten(1, after), context)
    session, effects = step(session, Stop(), context)
    assert effects == (StopLoad("tiny"),)
    session, effects = step(session, Ended("tiny"), context)
    assert effects == (UndoRevision(write.before),)
    session, _ = step(session, RevisionUndone(write.before), context)
    assert session.applied_fix is None
    assert session.progress.phase == "deciding"


def test_stop_before_anything_is_known(file: Path, context: Context) -> None:
    session, effects = take(begin(file), [Begin(), Started("tiny"), Stop(), Ended("tiny")], context)
    assert session.verdict == "stopped"
    assert StopLoad("tiny") in effects
    assert allowed(session, Begin())
    session, effects = take(session, [Begin(), *recorded_loads()[0]], context)
    assert (session.verdict, session.causes[0].id) == (None, KV)
    assert not allowed(session, Begin())


def test_what_is_not_allowed_changes_nothing(file: Path, context: Context) -> None:
    fresh = begin(file)
    for decision in (ApplyFix(SHORTER), Undo(), Stop(), RunExperiment(KV, "pool-set-by-hand")):
        assert not allowed(fresh, decision)
        assert step(fresh, decision, context) == (fresh, ())
    session = diagnosed(file, context)
    assert allowed(session, ApplyFix(SHORTER))
    assert not allowed(session, ApplyFix("raise-the-budget"))
    assert not allowed(session, ApplyFix("no-such-fix"))
    assert not allowed(session, Begin())


def test_a_load_that_hangs_is_ended_and_is_a_failure(file: Path, context: Context) -> None:
    session, effects = take(begin(file), [Begin(), Started("tiny"), Hung("tiny", silent_seconds=300)], context)
    stop = effects[-1]
    assert stop == StopLoad("tiny", reason="nothing moved for 300 s")
    session, _ = take(session, [Failed("tiny", reason="nothing moved for 300 s"), Ended("tiny")], context)
    assert session.verdict == "unexplained"
    assert session.symptom is not None
    assert session.symptom.headline == "nothing moved for 300 s"


def test_another_server_on_the_port_is_not_our_model(file: Path, context: Context) -> None:
    ready = Ready("tiny", served_models=["/models/other"], port=8000)
    session, effects = take(begin(file), [Begin(), Started("tiny"), ready], context)
    assert effects[-1] == StopLoad("tiny", reason="another server answers on port 8000: it serves /models/other")
    assert session.verdict is None


def test_a_revision_that_cannot_be_written_leaves_the_choice(file: Path, context: Context) -> None:
    session, effects = step(diagnosed(file, context), ApplyFix(SHORTER), context)
    session, _ = step(session, EffectFailed(effects[0], "the disk is full"), context)
    assert session.applied_fix is None
    assert session.progress.phase == "deciding"
    assert "the disk is full" in session.notes


def test_a_value_that_cannot_be_is_refused_with_the_reason(file: Path, context: Context) -> None:
    session = diagnosed(file, context)
    fix = next(one for one in session.fixes if one.id == SHORTER)
    session = replace(session, fixes=(replace(fix, key="args"),))
    session, effects = step(session, ApplyFix(SHORTER, "1024"), context)
    assert effects == ()
    assert session.notes


def test_several_models_load_in_order_and_the_failing_one_is_named(file: Path, context: Context) -> None:
    session = begin(file)
    first = replace(session.deployment.models[0], name="first")
    session = replace(session, deployment=replace(session.deployment, models=(first, session.deployment.models[0])))
    ready = Ready("first", served_models=[first.model])
    session, effects = take(session, [Begin(), Started("first"), ready], context)
    assert [one.launch.name for one in effects if isinstance(one, Load)] == ["first", "tiny"]
    session, _ = take(session, recorded_loads()[0], context)
    assert session.model == "tiny"
    assert session.causes[0].id == KV
    assert session.progress.up == ("first",)


async def test_a_case_left_early_says_that_nothing_was_proved(file: Path, context: Context) -> None:
    session = await run(file, context, RecordedProbe(recorded_loads()[0]), Unattended(dry_run=True))
    report = plain(session)
    assert "no fix was applied" in report.partition("What was not proved")[2]
    assert f"{POOL}: not tried\n      kv-cache-memory-bytes of tiny: 96 MiB → 264 MiB" in report
    assert "nothing more to say" not in report


async def test_a_report_names_the_fixes_that_did_not_hold(file: Path, context: Context) -> None:
    bad, _ = recorded_loads()
    session = await run(file, context, RecordedProbe(bad, bad), Unattended(fix=SHORTER))
    assert f"no fix held; tried: {SHORTER}" in plain(session)


async def test_a_case_that_ended_before_any_load_did_proves_nothing(file: Path, context: Context) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Finish())
    assert "nothing: no load came to its end" in plain(await run(file, context, RecordedProbe(), decisions))


def test_before_a_fix_the_file_that_will_keep_the_old_one_is_known(file: Path) -> None:
    assert will_change(read_deployment(file)) == (f"{file} will be changed; as it is now it stays as {file}.r1",)
    file.with_name(f"{file.name}.r7").write_text("", encoding="utf-8")
    assert will_change(read_deployment(file))[0].endswith(f"{file}.r8")


async def test_a_file_that_is_a_link_goes_back_where_it_points(file: Path, context: Context, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    session = await run(link, context, bad_then_good())
    _, way_back = is_changed(session)
    assert way_back == f"to go back: mv {file}.r1 {file}"


async def test_a_fix_that_did_not_hold_says_what_came_of_it(file: Path, context: Context) -> None:
    bad, good = recorded_loads()
    dead: list[Event] = [Started("tiny"), Failed("tiny", reason="vllm exited with code 2"), Ended("tiny")]
    session = await run(file, context, RecordedProbe(bad, dead), Unattended(fix=POOL))
    assert f"{POOL} did not hold and was undone, because tiny did not load: vllm exited with code 2" in session.notes
    silent = [one for one in good if "KV cache size" not in encode(one)]
    (note,) = (await run(file, context, RecordedProbe(bad, silent), Unattended(fix=SHORTER))).notes
    assert note == (
        f'{SHORTER} did not hold and was undone, because the check "cache allocated" failed: '
        "the line did not come; expected KV cache tokens ≥ length that vLLM serves"
    )


async def test_a_verified_fix_that_is_undone_leaves_a_trace(file: Path, context: Context) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())

    def person(session: Session, event: Event | None) -> None:
        if session.progress.phase != "deciding" or decisions.qsize():
            return
        if session.verdict == "verified":
            decisions.put_nowait(Undo())
        elif session.notes:
            decisions.put_nowait(Finish())
        elif session.causes and session.applied_fix is None:
            decisions.put_nowait(ApplyFix(SHORTER))

    session = await run(file, context, bad_then_good(), decisions, person)
    assert session.notes == (f"{SHORTER} had been verified and was undone as asked",)
    assert session.kept_file is None
    assert f"note: {SHORTER} had been verified" in plain(session)
    report = plain(session)
    assert f"{SHORTER}: undone after it was verified" in report
    assert f"of {SHORTER}, which is undone: what was changed is as it was before" in report
    assert "no fix was applied" not in report
    assert {one.stage: one.state for one in session.stages}["memory_planning"] == "failed"


async def test_what_was_not_measured_is_told_in_one_block_a_reason(file: Path, context: Context) -> None:
    bad, _ = recorded_loads()
    report = plain(await run(file, context, RecordedProbe(bad, bad), Unattended(fix=SHORTER)))
    assert report.count("because   an earlier check did not hold") == 1
    assert "they are  " in report
    assert "measured  nothing" not in report.split("they are")[1]


def test_a_value_of_one_s_own_has_no_risk_of_the_playbook(file: Path, context: Context) -> None:
    session = diagnosed(file, context)
    option = next(one for one in session.fixes if one.id == SHORTER)
    assert option.risk == "low"
    lines = one_fix_lines(with_value(option, session, "32000"))
    assert "    risk: not judged for this value; low for the playbook's" in lines
    assert any(line.startswith("    why the playbook's value: ") for line in lines)
    assert "    risk: low" in one_fix_lines(with_value(option, session, "1408"))


def test_a_fix_whose_reason_is_not_known_is_of_no_low_risk(file: Path, context: Context) -> None:
    session = diagnosed(file, context)
    (cause, *_) = session.causes
    open_ones = tuple(replace(one, verdict=Verdict.INCONCLUSIVE) for one in cause.hypotheses)
    spec = next(one for one in context.playbook(cause.id).fixes if one.id == SHORTER)
    assert (spec.risk, option_of(spec, cause, session).risk) == ("low", "low")
    option = option_of(spec, replace(cause, hypotheses=open_ones), session)
    assert option.risk == "medium"
    claim = next(one.claim for one in open_ones if SHORTER in one.fixes)
    assert f"    risk: medium; it is not known whether: {claim}" in one_fix_lines(option)
