"""A fix under way: write its steps one by one, measure each, and take all of them back when something does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from engine_probe.events import BurstAnswered, ConfigBuilt, Ended, Event, Failed, Hung, Ready, RequestAnswered
from playbooks import fix_checks, fix_loads, proof, verifying
from playbooks.context import launch_named, with_progress
from playbooks.effects import StopLoad, UndoRevision, WriteRevision
from playbooks.facts import lookup_for
from playbooks.fix_steps import steps_of
from playbooks.fixing import with_value
from playbooks.focus import looking_at
from playbooks.outside_fixes import changed
from playbooks.patterns import to_value
from playbooks.session import Check, Outcome, Session, Step

if TYPE_CHECKING:
    from engine_probe.launch import Deployment
    from playbooks.conditions import Lookup
    from playbooks.context import Context
    from playbooks.decisions import ApplyFix
    from playbooks.effects import AppliedDiffers, Effect, EffectFailed, FilesSeen, RevisionUndone, RevisionWritten
    from playbooks.session import FixOption

Answer = tuple[Session, tuple["Effect", ...]]
_REFUSED = "it could not be written: "
_UNDOING = "going back to the deployment before the fix"


def apply_fix(session: Session, decision: ApplyFix, context: Context) -> Answer:
    """Write the one change, or the first step; the load follows when it is written."""
    option = next(one for one in session.fixes if one.id == decision.fix)
    if decision.value is not None:
        option = with_value(option, session, decision.value)
    if option.unavailable is not None:
        return replace(session, notes=(*session.notes, f"{option.id}: {option.unavailable}")), ()
    option = replace(option, outcome="not tried", undone=None)
    session = _with_fix(session, option)
    playbook = context.playbook(verifying.cause_of_fix(session, option.id).id)
    checks = (
        *fix_checks.step_checks(steps_of(option, session)),
        *verifying.checks_of(playbook, option, 0, _lookup_after(session, option)),
        *proof.standard_checks(launch_named(_after(session, option), session.model), session.proof, playbook),
        *fix_checks.beside_checks(fix_loads.beside(session)),
    )
    session = replace(session, applied_fix=option.id, checked_fix=option.id, step=Step.VERIFY, checks=checks)
    session = replace(session, verdict=None)
    session = with_progress(session, before=session.deployment, fix_step=0, written=0, requests=(), stopping=False)
    return fix_loads.write_step(session)


def _lookup_after(session: Session, option: FixOption) -> Lookup:
    """Facts as they will be with the change, as far as they can be known before the load."""
    after = _after(session, option)
    facts = {name: fact for name, fact in session.facts.items() if not name.startswith("engine.")}
    return lookup_for(launch_named(after, session.model), facts)


def _after(session: Session, option: FixOption) -> Deployment:
    after = session.deployment
    for one in steps_of(option, session):
        after = changed(after, one.launch, one.key, to_value(one.new_value))
    return after


def on_written(session: Session, done: RevisionWritten, context: Context) -> Answer:
    """The deployment, or what lies outside it, has the change: load it for real."""
    kept = session.kept_file or done.kept
    session = replace(session, deployment=done.deployment, revision=done.number, kept_file=kept)
    session = replace(session, outside=(*session.outside, *done.outside), facts={**session.facts, **done.facts})
    packages_changed = session.progress.packages_changed or fix_loads.changes_packages(session)
    session = with_progress(session, written=session.progress.written + 1, packages_changed=packages_changed)
    return fix_loads.begin_loads(session, context)


def on_event(session: Session, event: Event, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    """The loads and the answers of a verification, or the end of a load that is to be undone."""
    progress = session.progress
    if isinstance(event, Ended):
        return _on_ended(session, event, context)
    if progress.phase == "undoing" or progress.stopping:
        return session, ()
    if isinstance(event, Failed):
        return (session, ()) if event.model in progress.restarting else (_failed(session, event), ())
    if isinstance(event, (RequestAnswered, BurstAnswered)):
        if progress.requests[:1] != (event.id,) or verifying.broken(session.checks):
            return session, ()
        return _or_back(fix_loads.on_answer(session, event, context))
    if event.model not in progress.open:
        return session, ()
    if isinstance(event, Hung):
        reason = f"nothing moved for {event.silent_seconds:.0f} s"
        return session, (StopLoad(event.model or session.model, reason=reason),)
    if isinstance(event, Ready) and not progress.requests and not verifying.broken(session.checks):
        return _or_back(fix_loads.on_loaded(session, event, context))
    return session, ()


def on_files_seen(session: Session, seen: FilesSeen, context: Context) -> Answer:
    """The files of the model that is up have been looked at: what they tell, then what it answers."""
    if session.progress.phase != "verifying" or session.progress.stopping:
        return session, ()
    return _or_back(fix_loads.on_files_seen(session, seen, context))


def _on_ended(session: Session, event: Ended, context: Context) -> Answer:
    """A load is over: to be loaded again, or because it failed, or on the way back."""
    progress = session.progress
    if progress.phase == "undoing" or progress.stopping:
        is_waited_for = any(name in progress.open for name in fix_loads.touched(session))
        return (session, ()) if is_waited_for else undo(session)
    if verifying.broken(session.checks):
        return go_back(session)
    if event.model in progress.restarting:
        return fix_loads.on_restarting_ended(session, event.model or "", context)
    if fix_loads.is_another_case(session, event.model or ""):
        return _or_back(fix_loads.on_another_case_ended(session, context))
    if event.model == progress.loading and progress.config_built:
        return _or_back(fix_loads.on_loaded(session, ConfigBuilt(event.model or ""), context))
    return go_back(session)


def _failed(session: Session, event: Failed) -> Session:
    is_another = fix_loads.is_another_case(session, event.model or "")
    return fix_loads.with_another_case(session, event) if is_another else fix_loads.with_failure(session, event)


def _or_back(answer: Answer) -> Answer:
    """The answer, unless it ends with a check that does not hold."""
    session, effects = answer
    return (session, effects) if effects or not verifying.broken(session.checks) else go_back(session)


def go_back(session: Session) -> Answer:
    """End what runs with a change of the fix, then undo it."""
    session = replace(with_progress(session, phase="undoing"), running=_UNDOING)
    running = tuple(name for name in fix_loads.touched(session) if name in session.progress.open)
    return (session, tuple(map(StopLoad, running))) if running else undo(session)


def undo(session: Session) -> Answer:
    """Put the file back, all steps of it. What ran with them has ended."""
    before = session.progress.before
    assert before is not None
    session = replace(with_progress(session, phase="undoing"), running=_UNDOING)
    return session, (UndoRevision(before),)


def on_undone(session: Session, done: RevisionUndone) -> Answer:
    """The file is as it was: offer the next fix, if one is left."""
    session = looking_at(session, session.model)
    held = not verifying.broken(session.checks)
    was_verified = any(one.id == session.applied_fix and one.outcome == "verified" for one in session.fixes)
    note = _why_undone(session, held, was_verified)
    session = fix_loads.with_outcome(session, "not tried" if held else "did not hold")
    session = _with_undone(session, was_verified=was_verified) if held else session
    session = replace(
        session,
        stages=session.progress.stages_before or session.stages,
        deployment=done.deployment,
        revision=max(0, session.revision - session.progress.written),
        kept_file=None,
        outside=(),
        checks=verifying.not_reached(
            session.checks, "it was undone before" if held else "an earlier check did not hold"
        ),
        applied_fix=None,
        step=Step.FIX,
        running=None,
        notes=(*session.notes, note),
        facts=dict(session.progress.facts_before),
    )
    session = with_progress(
        session,
        phase="deciding",
        stopping=False,
        before=None,
        requests=(),
        queue=(),
        packages_changed=False,
        restarting=(),
    )
    left = [one for one in session.fixes if _is_left(one)]
    return replace(session, verdict=session.verdict or (None if left else "not verified")), ()


def on_effect_failed(session: Session, done: EffectFailed) -> Answer:
    """A step could not be written, or not be undone."""
    session = replace(session, running=None)
    if isinstance(done.effect, WriteRevision) and session.progress.written:
        return go_back(fix_loads.with_refusal(session, done.text))
    if isinstance(done.effect, WriteRevision):
        refused = next(one for one in session.fixes if one.id == session.applied_fix)
        why_not = None if done.was_stopped else f"{_REFUSED}{done.text}"
        session = _with_fix(session, replace(refused, unavailable=why_not))
        session = replace(session, applied_fix=None, step=Step.FIX, checks=())
        return with_progress(session, phase="deciding", before=None), ()
    if isinstance(done.effect, UndoRevision):
        session = fix_loads.with_outcome(session, "did not hold")
        return replace(with_progress(session, phase="deciding"), verdict="not verified", applied_fix=None), ()
    return with_progress(session, phase="deciding"), ()


def was_tried(session: Session) -> bool:
    """A fix was written or was to be: a session without one that holds has verified nothing."""
    return any(fix.outcome == "did not hold" or (fix.unavailable or "").startswith(_REFUSED) for fix in session.fixes)


def on_differs(session: Session, done: AppliedDiffers) -> Session:
    """What was proved is not what is there: nothing is said of that, and it stays as it is."""
    check = Check("as-verified", "the files are what was verified", "unchanged", done.text, Outcome.FAIL)
    session = fix_loads.with_outcome(session, "did not hold")
    said = f"the file is not what was verified: {done.text}"
    return replace(session, verdict="not verified", checks=(*session.checks, check), notes=(*session.notes, said))


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


def _with_undone(session: Session, *, was_verified: bool) -> Session:
    option = next(one for one in session.fixes if one.id == session.applied_fix)
    when: Literal["after it was verified", "before its verification ended"]
    when = "after it was verified" if was_verified else "before its verification ended"
    return _with_fix(session, replace(option, undone=when))


def _with_fix(session: Session, option: FixOption) -> Session:
    return replace(session, fixes=tuple(option if one.id == option.id else one for one in session.fixes))
