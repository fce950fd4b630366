"""A fix under way: write it, load, measure check by check, and go back when something does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from engine_probe.deployment import change
from engine_probe.events import Ended, Event, Failed, Hung, Ready, RequestAnswered
from playbooks import verifying
from playbooks.context import launch_named, with_progress
from playbooks.effects import Load, SendRequest, StopLoad, UndoRevision, WriteRevision
from playbooks.exceptions import exception_line
from playbooks.facts import lookup_for
from playbooks.fixing import with_value
from playbooks.observe import load_begins
from playbooks.patterns import to_value
from playbooks.session import Outcome, Session, Step

if TYPE_CHECKING:
    from playbooks.conditions import Lookup
    from playbooks.context import Context
    from playbooks.decisions import ApplyFix
    from playbooks.effects import Effect, EffectFailed, RevisionUndone, RevisionWritten
    from playbooks.session import Check, FixOption

Answer = tuple[Session, tuple["Effect", ...]]
_UNDOING = "going back to the deployment before the fix"


def apply_fix(session: Session, decision: ApplyFix, context: Context) -> Answer:
    """Write the one change; the load follows when it is written."""
    option = next(one for one in session.fixes if one.id == decision.fix)
    if decision.value is not None:
        option = with_value(option, session, decision.value)
    if option.unavailable is not None:
        return replace(session, notes=(*session.notes, f"{option.id}: {option.unavailable}")), ()
    session = _with_fix(session, option)
    playbook = context.playbook(verifying.cause_of_fix(session, option.id).id)
    checks = verifying.checks_of(playbook, option, 0, _lookup_after(session, option))
    session = replace(session, applied_fix=option.id, step=Step.VERIFY, checks=checks, verdict=None)
    session = with_progress(session, phase="writing", before=session.deployment)
    session = replace(session, running=f"writing {option.title}")
    return session, (WriteRevision(session.deployment, session.model, option.key, option.new_value),)


def _lookup_after(session: Session, option: FixOption) -> Lookup:
    """Facts as they will be with the change, as far as they can be known before the load."""
    after = change(session.deployment, session.model, option.key, to_value(option.new_value))
    facts = {name: fact for name, fact in session.facts.items() if not name.startswith("engine.")}
    return lookup_for(launch_named(after, session.model), facts)


def on_written(session: Session, done: RevisionWritten, context: Context) -> Answer:
    """The deployment has the change: load it for real."""
    session = replace(session, deployment=done.deployment, revision=done.number, kept_file=done.kept)
    session = with_progress(session, phase="verifying", requests=(), stopping=False)
    session = load_begins(session, session.model, context)
    session = _with_check(session, verifying.LOADS, Outcome.RUNNING)
    session = replace(session, running=f"loading {session.model} ({session.verify_grade}) to verify")
    return session, (Load(launch_named(session.deployment, session.model), session.verify_grade),)


def on_event(session: Session, event: Event, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    """The load and the answers of a verification, or the end of a load that is to be undone."""
    progress = session.progress
    if isinstance(event, Ended):
        return undo(session) if event.model == session.model else (session, ())
    if progress.phase == "undoing" or progress.stopping or event.model != session.model:
        return session, ()
    if isinstance(event, Hung):
        return session, (StopLoad(session.model, reason=f"nothing moved for {event.silent_seconds:.0f} s"),)
    if isinstance(event, Failed):
        return _with_failure(session), ()
    if isinstance(event, Ready):
        session = replace(session, checks=verifying.judge_load(session, context))
        playbook = context.playbook(verifying.cause_of_fix(session, session.applied_fix or "").id)
        return _go_on(with_progress(session, requests=verifying.wants_request(playbook)), context)
    if isinstance(event, RequestAnswered) and progress.requests[:1] == (event.id,):
        session = _with_checked(session, verifying.judge_answer(session, event, context))
        return _go_on(with_progress(session, requests=progress.requests[1:]), context)
    return session, ()


def _go_on(session: Session, context: Context) -> Answer:
    """Give up at the first check that does not hold, else send the next request, else it is verified."""
    broken = verifying.failed(session.checks) or verifying.undecided(session.checks)
    if broken is not None:
        return go_back(session, context)
    if session.progress.requests:
        name = session.progress.requests[0]
        session = _with_check(session, name, Outcome.RUNNING)
        session = replace(session, running=f"asking: {name.replace('-', ' ')}")
        return session, (SendRequest(session.model, verifying.request_for(session, name, context)),)
    session = _with_outcome(session, "verified")
    session = with_progress(session, phase="deciding")
    return replace(session, verdict="verified", running=None), ()


def go_back(session: Session, _context: Context) -> Answer:
    """End the load if it runs, then undo the change."""
    session = replace(with_progress(session, phase="undoing"), running=_UNDOING)
    return (session, (StopLoad(session.model),)) if session.model in session.progress.open else undo(session)


def undo(session: Session) -> Answer:
    """Put the file back. The load has ended."""
    before = session.progress.before
    assert before is not None
    session = replace(with_progress(session, phase="undoing"), running=_UNDOING)
    return session, (UndoRevision(before),)


def on_undone(session: Session, done: RevisionUndone) -> Answer:
    """The file is as it was: offer the next fix, if one is left."""
    held = verifying.failed(session.checks) is None and verifying.undecided(session.checks) is None
    was_verified = any(one.id == session.applied_fix and one.outcome == "verified" for one in session.fixes)
    note = _why_undone(session, held, was_verified)
    session = _with_outcome(session, "not tried" if held else "did not hold")
    session = replace(
        session,
        deployment=done.deployment,
        revision=max(0, session.revision - 1),
        kept_file=None,
        checks=verifying.not_reached(session.checks, "an earlier check did not hold"),
        applied_fix=None,
        step=Step.FIX,
        running=None,
        notes=(*session.notes, note),
        facts=dict(session.progress.facts_before),
    )
    session = with_progress(session, phase="deciding", stopping=False, before=None, requests=())
    left = [one for one in session.fixes if _is_left(one)]
    return replace(session, verdict=session.verdict or (None if left else "not verified")), ()


def on_effect_failed(session: Session, done: EffectFailed) -> Answer:
    """The change could not be written, or not be undone: wait for the person."""
    session = replace(session, running=None)
    if isinstance(done.effect, WriteRevision):
        refused = next(one for one in session.fixes if one.id == session.applied_fix)
        session = _with_fix(session, replace(refused, unavailable=f"it could not be written: {done.text}"))
        session = replace(session, applied_fix=None, step=Step.FIX, checks=())
        return with_progress(session, phase="deciding", before=None), ()
    if isinstance(done.effect, UndoRevision):
        session = _with_outcome(session, "did not hold")
        return replace(with_progress(session, phase="deciding"), verdict="not verified", applied_fix=None), ()
    return with_progress(session, phase="deciding"), ()


def _is_left(option: FixOption) -> bool:
    return option.unavailable is None and option.by_hand is None and option.outcome == "not tried"


def _why_undone(session: Session, held: bool, was_verified: bool) -> str:
    """In one sentence, so that nobody takes the name of a check for what came of it."""
    failed, undecided = verifying.failed(session.checks), verifying.undecided(session.checks)
    broken = failed or undecided
    if held or broken is None:
        if was_verified:
            return f"{session.applied_fix} had been verified and was undone as asked"
        return f"{session.applied_fix} was undone before its verification came to its end"
    said = broken.measured or broken.reason or "no answer"
    if broken.id == verifying.LOADS:
        why = f"{session.model} did not load: {said}"
    elif failed is not None:
        why = f'the check "{broken.title}" failed: {said}; expected {broken.expected}'
    else:
        why = f'the check "{broken.title}" could not be decided: {broken.reason or said}'
    return f"{session.applied_fix} did not hold and was undone, because {why}"


def _with_failure(session: Session) -> Session:
    """The load ended by itself: the check that was under way failed."""
    progress = session.progress
    reason = progress.failure.reason if progress.failure is not None else "the load ended"
    measured = exception_line(progress.root) if progress.root is not None else reason
    name = progress.requests[0] if progress.requests else verifying.LOADS
    check = next(one for one in session.checks if one.id == name)
    return _with_checked(session, replace(check, outcome=Outcome.FAIL, measured=measured))


def _with_checked(session: Session, check: Check) -> Session:
    return replace(session, checks=tuple(check if one.id == check.id else one for one in session.checks))


def _with_check(session: Session, name: str, outcome: Outcome) -> Session:
    check = next(one for one in session.checks if one.id == name)
    return _with_checked(session, replace(check, outcome=outcome))


def _with_fix(session: Session, option: FixOption) -> Session:
    return replace(session, fixes=tuple(option if one.id == option.id else one for one in session.fixes))


def _with_outcome(session: Session, outcome: Literal["not tried", "verified", "did not hold"]) -> Session:
    fixes = tuple(replace(one, outcome=outcome) if one.id == session.applied_fix else one for one in session.fixes)
    return replace(session, fixes=fixes)
