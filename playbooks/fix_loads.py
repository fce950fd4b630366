"""What a fix under way is measured by: step by step a load, then the answers; and what comes next.

A step that is not the last one is judged by the load of the model that it changes. The last one is verified in full:
all models of the deployment are up together, started as the deployment says, and each answers. Where a check does not
hold, nothing more is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from engine_probe.events import Failed, Ready, RequestAnswered
from engine_probe.facts import Known
from engine_probe.outside.keys import PACKAGES
from playbooks import fix_checks, proof, proof_answers, verifying
from playbooks.context import captured_of, grade_to_verify, launch_named, with_progress
from playbooks.effects import Load, LookAtFiles, SendRequest, StopLoad, WriteRevision
from playbooks.exceptions import exception_line
from playbooks.fix_steps import steps_of
from playbooks.focus import looking_at, seen_of, still_loading
from playbooks.observe import load_begins
from playbooks.session import Outcome, Session

if TYPE_CHECKING:
    from engine_probe.events import BurstAnswered, Event
    from playbooks.context import Context
    from playbooks.effects import Effect, FilesSeen
    from playbooks.session import Check, FixOption, FixStep

Answer = tuple[Session, tuple["Effect", ...]]
_OF_THE_START = "deployment."
"""Keys that change how or in which order the models start."""


def touched(session: Session) -> tuple[str, ...]:
    """Models that run with a change of the fix, or may, and those on their way: they are ended before it is undone."""
    steps = _steps(session)[: session.progress.fix_step + 1]
    return tuple(dict.fromkeys((session.model, *(one.launch for one in steps), *still_loading(session))))


def beside(session: Session) -> tuple[str, ...]:
    """Models that must serve beside the mended one in the end, in the deployment's order: all the others."""
    return tuple(one.name for one in session.deployment.models if one.name != session.model)


def write_step(session: Session) -> Answer:
    """Write the step under way; its load follows when it is written."""
    step = _step(session)
    session = replace(with_progress(session, phase="writing"), running=f"writing {step.title}{_of_steps(session)}")
    return session, (WriteRevision(session.deployment, step.launch, step.key, step.new_value),)


def begin_loads(session: Session, context: Context) -> Answer:
    """The step is written: load what it is judged by. A step that expects nothing leads to the next at once."""
    step = _step(session)
    if not _is_last(session):
        if not step.expect:
            return _next_step(_with_check(session, current_check(session), Outcome.PASS, "written"))
        return _end_first(with_progress(session, phase="verifying", queue=(step.launch,)), context)
    return _end_first(with_progress(session, phase="verifying", queue=_to_load(session, step)), context)


def _to_load(session: Session, step: FixStep) -> tuple[str, ...]:
    """What the last step is verified by: loads in the deployment's order, so that it holds as the user starts it.

    Models that serve as they are go on; but none that comes after one that has to be loaded again, nor any where all
    start at once, or the start itself was changed.
    """
    names = tuple(one.name for one in session.deployment.models)
    if session.deployment.start == "parallel" or step.key.startswith(_OF_THE_START):
        return names
    changed = {session.model, step.launch}
    first = next(number for number, name in enumerate(names) if name in changed or name not in session.progress.up)
    return names[first:]


def _end_first(session: Session, context: Context) -> Answer:
    """End those of the queue that run, as they were before the step; then load."""
    running = tuple(name for name in session.progress.queue if name in session.progress.open)
    if not running:
        return load_next(session, context)
    session = with_progress(session, restarting=running)
    session = replace(session, running=f"ending {', '.join(running)}, to load it again")
    return session, tuple(map(StopLoad, running))


def on_restarting_ended(session: Session, model: str, context: Context) -> Answer:
    """One that is to be loaded again has ended; when all have, the loads begin."""
    left = tuple(name for name in session.progress.restarting if name != model)
    session = with_progress(session, restarting=left)
    return (session, ()) if left else load_next(session, context)


def load_next(session: Session, context: Context) -> Answer:
    """Load the first of the queue, or all of it where the deployment starts its models in parallel."""
    queue = session.progress.queue
    names = queue if session.deployment.start == "parallel" else queue[:1]
    session = with_progress(session, queue=queue[len(names) :], restarting=())
    for name in names:
        session = load_begins(session, name, context)
        session = _with_check(session, check_of(session, name), Outcome.RUNNING)
    session = looking_at(session, session.model if session.model in names else names[0])
    grade = _grade(session)
    session = replace(session, running=f"loading {', '.join(names)} ({grade}) to verify{_of_steps(session)}")
    return session, tuple(Load(launch_named(session.deployment, name), grade) for name in names)


def on_loaded(session: Session, event: Event, context: Context) -> Answer:
    """A load under way came to its end well: it is ready, or its configuration was built."""
    waiting = still_loading(session)
    if isinstance(event, Ready) and waiting:
        return replace(looking_at(session, waiting[0]), running=f"loading {', '.join(waiting)} to verify"), ()
    if isinstance(event, Ready) and session.progress.queue:
        return load_next(session, context)
    session = looking_at(session, session.model if _is_last(session) else _step(session).launch)
    if not _is_last(session):
        session = _judge_step(session)
        return (session, ()) if verifying.broken(session.checks) else _next_step(session)
    launch = launch_named(session.deployment, session.model)
    checks = proof.with_ready(verifying.judge_load(session, context), launch, session.progress.ready)
    session = replace(session, checks=checks, running=f"looking at the files of {session.model}")
    return session, () if verifying.broken(checks) else (LookAtFiles(launch, session.deployment),)


def on_files_seen(session: Session, seen: FilesSeen, context: Context) -> Answer:
    """What the files tell of the model that is up; then everything that is asked of it, and of those beside it."""
    session = replace(session, checks=proof.with_files(session.checks, seen))
    playbook = context.playbook(verifying.cause_of_fix(session, session.applied_fix or "").id)
    others = (fix_checks.beside_check(name) for name in beside(session) if name in session.progress.up)
    wanted = (*verifying.wants_request(session, playbook), *others)
    return _go_on(with_progress(session, files=seen, numbers=(), attempt=0, requests=wanted), context)


def on_answer(session: Session, event: RequestAnswered | BurstAnswered, context: Context) -> Answer:
    """The answer to the request under way."""
    other = fix_checks.asked_beside(event.id)
    if other is not None and isinstance(event, RequestAnswered):
        judged: Check | None = fix_checks.judge_beside(_check(session, event.id), event)
        if judged is not None and judged.outcome is Outcome.FAIL and is_another_case(session, other):
            judged = _of_another_case(session, judged)
    else:
        judged = verifying.judge_answer(session, event, context)
    if judged is None:  # a model that pools, and the path is not for it
        return _go_on(with_progress(session, attempt=session.progress.attempt + 1), context)
    session = proof_answers.taken_in(_with_checked(session, judged), judged, event)
    return _go_on(with_progress(session, attempt=0, requests=session.progress.requests[1:]), context)


def _go_on(session: Session, context: Context) -> Answer:
    """Send the next request; where none is left it is verified."""
    if verifying.broken(session.checks):
        return session, ()
    if session.progress.requests:
        name = session.progress.requests[0]
        session = _with_check(session, name, Outcome.RUNNING)
        session = replace(session, running=f"asking: {_check(session, name).title}")
        other = fix_checks.asked_beside(name)
        if other is not None:
            request = fix_checks.beside_request(name, seen_of(session, other).ready)
            return session, (SendRequest(other, request),)
        return session, (SendRequest(session.model, verifying.request_for(session, name, context)),)
    session = with_outcome(session, "verified")
    session = with_progress(session, phase="deciding")
    return replace(session, verdict="verified", running=None), ()


def _next_step(session: Session) -> Answer:
    return write_step(with_progress(session, fix_step=session.progress.fix_step + 1))


def _judge_step(session: Session) -> Session:
    accepted = Known(value=True, source="measured", origin="the load of this step")
    session = replace(session, facts={**session.facts, "engine.config_accepted": accepted})
    captured = captured_of(session, verifying.cause_of_fix(session, session.applied_fix or "").id)
    launch = launch_named(session.deployment, _step(session).launch)
    check = _check(session, current_check(session))
    now, before = {**session.facts, **captured}, {**session.progress.facts_before, **captured}
    return _with_checked(session, fix_checks.judge_step(check, launch, now, before))


def is_another_case(session: Session, model: str) -> bool:
    """It never served before a fix of another one was tried, and the fix is none of it: a fault of its own is no reason
    against the fix.

    Where a step changes it, or how the models start, it has to come up, though it failed beside the other before.
    """
    steps = _steps(session)
    if not _is_last(session) or any(one.key.startswith(_OF_THE_START) for one in steps):
        return False
    well = set(session.progress.observed) - set(session.progress.failed_too)
    return model not in {session.model, *well, *(one.launch for one in steps)}


def with_another_case(session: Session, event: Failed) -> Session:
    """The verification goes on without it, and says so."""
    model = event.model or ""
    root = seen_of(session, model).root
    session = _with_checked(session, _of_another_case(session, _check(session, fix_checks.beside_check(model))))
    file = session.deployment.path
    way = f"go on with it: vllm-console wizard --deployment {file}" if file is not None else "begin again for it"
    why = exception_line(root) if root is not None else event.reason
    note = f"{_check(session, fix_checks.beside_check(model)).reason}: {why.rstrip('.')}. That is another case; {way}"
    return replace(session, notes=(*session.notes, note))


def _of_another_case(session: Session, check: Check) -> Check:
    model = fix_checks.asked_beside(check.id) or ""
    is_known = model in session.progress.failed_too
    reason = "failed before too, and still does" if is_known else "was loaded for the first time, and failed"
    return replace(check, outcome=Outcome.ABSTAIN, optional=True, reason=f"{model} {reason}")


def on_another_case_ended(session: Session, context: Context) -> Answer:
    """Go on with what is left to load, or with what is asked."""
    if session.progress.requests:
        return session, ()
    return on_loaded(session, seen_of(session, session.model).ready or Ready(session.model), context)


def with_failure(session: Session, event: Failed) -> Session:
    """A load ended by itself: the check of its model failed, or the request that it was asked."""
    model = event.model or session.model
    root = seen_of(session, model).root
    measured = exception_line(root) if root is not None else event.reason
    session = _with_check(session, check_of(session, model), Outcome.FAIL, measured)
    ready = seen_of(session, session.model).ready
    if model == session.model or ready is None or _check(session, verifying.LOADS).outcome is not Outcome.RUNNING:
        return session
    return _with_check(session, verifying.LOADS, Outcome.PASS, f"ready in {ready.seconds:.1f} s")


def with_refusal(session: Session, text: str) -> Session:
    """A step after the first could not be written."""
    return _with_check(session, current_check(session), Outcome.FAIL, f"it could not be written: {text}")


def current_check(session: Session) -> str:
    """The id of the check that is under way."""
    return check_of(session, session.progress.loading or session.model)


def check_of(session: Session, model: str) -> str:
    """The id of the check that the load of `model` decides, or that is asked of it just now."""
    requests = session.progress.requests
    asked = (fix_checks.asked_beside(requests[0]) or session.model) if requests else None
    if asked == model:
        return requests[0]
    if not _is_last(session) and model == _step(session).launch:
        return fix_checks.step_check(session.progress.fix_step)
    return verifying.LOADS if model == session.model else fix_checks.beside_check(model)


def changes_packages(session: Session) -> bool:
    """Of the step under way."""
    return _step(session).key.startswith(PACKAGES)


def _applied(session: Session) -> FixOption:
    return next(one for one in session.fixes if one.id == session.applied_fix)


def _steps(session: Session) -> tuple[FixStep, ...]:
    return steps_of(_applied(session), session)


def _step(session: Session) -> FixStep:
    return _steps(session)[session.progress.fix_step]


def _is_last(session: Session) -> bool:
    return session.progress.fix_step == len(_steps(session)) - 1


def _grade(session: Session) -> str:
    expect = _step(session).expect
    is_dry = not _is_last(session) and all(text.startswith("engine.config_accepted ") for text in expect)
    return "dry" if is_dry and not session.progress.packages_changed else grade_to_verify(session)


def _of_steps(session: Session) -> str:
    count = len(_steps(session))
    return f", step {session.progress.fix_step + 1} of {count}" if count > 1 else ""


def _check(session: Session, name: str) -> Check:
    return next(one for one in session.checks if one.id == name)


def _with_checked(session: Session, check: Check) -> Session:
    return replace(session, checks=tuple(check if one.id == check.id else one for one in session.checks))


def _with_check(session: Session, name: str, outcome: Outcome, measured: str | None = None) -> Session:
    check = _check(session, name)
    return _with_checked(session, replace(check, outcome=outcome, measured=measured or check.measured))


def with_outcome(session: Session, outcome: Literal["not tried", "verified", "did not hold"]) -> Session:
    """What the applied fix has come to."""
    fixes = tuple(replace(one, outcome=outcome) if one.id == session.applied_fix else one for one in session.fixes)
    return replace(session, fixes=fixes)
