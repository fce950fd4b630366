"""The wizard's brain: one step of a session. Pure: what should be done comes back as effects.

What happens is a probe's event, a person's decision, or what came of an effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.events import Ended, Event, Hung, Ready, Trouble
from playbooks import experimenting, from_log, observing, trying
from playbooks.context import with_progress
from playbooks.decisions import ApplyFix, Begin, BeginFromLog, Finish, RunExperiment, Stop, Undo
from playbooks.effects import (
    AppliedDiffers,
    Diagnose,
    Diagnosed,
    DiagnoseLogs,
    EffectFailed,
    Examined,
    FilesSeen,
    LogsDiagnosed,
    LookAtFiles,
    ReportWritten,
    RevisionUndone,
    RevisionWritten,
    StopLoad,
    WriteReport,
)
from playbooks.fixing import with_value
from playbooks.observe import observe
from playbooks.session import Session

if TYPE_CHECKING:
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.effects import Done, Effect

Answer = tuple[Session, tuple["Effect", ...]]


def step(session: Session, happening: Event | Decision | Done, context: Context) -> Answer:
    """The session after `happening`, and what is to be done about it."""
    if isinstance(happening, Ready) and (served := observing.served_by_another(session, happening)) is not None:
        return session, (StopLoad(happening.model or session.model, reason=served),)
    if isinstance(happening, Event):
        return _on_event(observe(session, happening, context), happening, context)
    if isinstance(
        happening,
        (
            RevisionWritten,
            RevisionUndone,
            Diagnosed,
            LogsDiagnosed,
            Examined,
            FilesSeen,
            ReportWritten,
            EffectFailed,
            AppliedDiffers,
        ),
    ):
        return _on_done(session, happening, context)
    return _on_decision(session, happening, context)


def allowed(session: Session, decision: Decision) -> bool:  # noqa: PLR0911 - one a kind
    """Whether `decision` does something now. A screen greys what is not allowed."""
    phase = session.progress.phase
    if session.no_loads is not None and isinstance(decision, (Begin, RunExperiment, ApplyFix)):
        return False
    if isinstance(decision, (Begin, BeginFromLog)):
        return phase == "not begun" or (isinstance(decision, Begin) and _was_stopped(session))
    if isinstance(decision, Stop):
        is_busy = phase in ("observing", "verifying") and bool(session.progress.open)
        return is_busy or phase in ("experimenting", "writing")
    if isinstance(decision, Finish):
        return phase in ("not begun", "deciding")
    if isinstance(decision, Undo):
        return phase == "deciding" and session.applied_fix is not None
    if isinstance(decision, RunExperiment):
        return phase == "deciding" and session.applied_fix is None
    fixes = {fix.id: fix for fix in session.fixes}
    option = fixes.get(decision.fix)
    if option is not None and option.unavailable is not None and decision.value is not None:
        option = with_value(option, session, decision.value)
    usable = option is not None and option.unavailable is None and option.by_hand is None
    return phase == "deciding" and session.applied_fix is None and usable


def _was_stopped(session: Session) -> bool:
    """Before it was decided what is wrong: the loads can begin once more."""
    return session.progress.phase == "deciding" and session.verdict == "stopped" and session.applied_fix is None


def _on_decision(session: Session, decision: Decision, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    if not allowed(session, decision):
        return session, ()
    if isinstance(decision, Begin):
        return observing.begin(session, context)
    if isinstance(decision, BeginFromLog):
        return from_log.begin(session, decision)
    if isinstance(decision, RunExperiment):
        return experimenting.run_experiment(session, decision, context)
    if isinstance(decision, ApplyFix):
        return trying.apply_fix(session, decision, context)
    if isinstance(decision, Undo):
        return trying.go_back(replace(session, verdict=None))
    if isinstance(decision, Finish):
        return _finish(session)
    stopping = with_progress(session, stopping=True)
    return replace(stopping, running="stopping"), (*experimenting.stop(stopping), *_stop_all(stopping))


def _on_event(session: Session, event: Event, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    if isinstance(event, Trouble):
        session = replace(session, notes=(*session.notes, event.text))
        return _cannot_run(session) if event.fatal else (session, ())
    if session.progress.phase == "experimenting":
        return experimenting.on_event(session, event, context)
    if session.progress.phase in ("verifying", "undoing"):
        return trying.on_event(session, event, context)
    if isinstance(event, Hung):
        silent = f"nothing moved for {event.silent_seconds:.0f} s"
        return session, (StopLoad(event.model or session.model, reason=silent),)
    if session.progress.phase == "finishing":
        return _report_when_all_ended(session) if isinstance(event, Ended) else (session, ())
    if session.progress.phase != "observing":
        return observing.on_event_between(session, event)
    return observing.on_event(session, event, context)


def _on_done(session: Session, done: Done, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    if isinstance(done, EffectFailed):
        return _on_effect_failed(session, done, context)
    if isinstance(done, AppliedDiffers):
        return trying.on_differs(session, done), ()
    if isinstance(done, ReportWritten):
        return replace(with_progress(session, phase="done"), report_path=done.path, running=None), ()
    if isinstance(done, RevisionWritten):
        return trying.on_written(session, done, context)
    if isinstance(done, LogsDiagnosed):
        return from_log.named(session, done, context), ()
    if isinstance(done, Examined):
        return experimenting.on_examined(session, done, context)
    if isinstance(done, FilesSeen):
        return _on_files_seen(session, done, context)
    if isinstance(done, Diagnosed):
        return observing.diagnosed(session, done.diagnosis, context)
    session, effects = trying.on_undone(session, done)
    return _finish(session) if session.progress.then_done else (session, effects)


def _on_files_seen(session: Session, seen: FilesSeen, context: Context) -> Answer:
    if session.progress.phase == "observing":
        return observing.on_files_seen(session, seen)
    return trying.on_files_seen(session, seen, context)


def _on_effect_failed(session: Session, done: EffectFailed, context: Context) -> Answer:
    session = replace(session, notes=(*session.notes, done.text))
    if isinstance(done.effect, Diagnose):
        return observing.diagnosed(session, None, context)
    if isinstance(done.effect, LookAtFiles):
        return _on_files_seen(session, FilesSeen(done.effect.launch.name, why_not=done.text), context)
    if isinstance(done.effect, DiagnoseLogs):
        return _finish(replace(session, verdict="stopped"))
    if isinstance(done.effect, WriteReport):
        return replace(with_progress(session, phase="done"), running=None), ()
    return trying.on_effect_failed(session, done)


def _cannot_run(session: Session) -> Answer:
    """The engine is gone or never came: nothing more can be loaded."""
    session = replace(session, verdict="cannot run")
    session = with_progress(session, open=(), up=(), queue=(), then_done=True)
    if session.applied_fix is not None and session.progress.phase in ("verifying", "writing", "undoing"):
        return trying.undo(session)
    return _finish(session)


def _finish(session: Session) -> Answer:
    verdict = session.verdict or ("not verified" if trying.was_tried(session) else "stopped")
    session = replace(with_progress(session, phase="finishing"), verdict=verdict, running="writing the report")
    return (session, _stop_all(session)) if session.progress.open else (session, (WriteReport(),))


def _report_when_all_ended(session: Session) -> Answer:
    return (session, ()) if session.progress.open else (session, (WriteReport(),))


def _stop_all(session: Session) -> tuple[Effect, ...]:
    return tuple(StopLoad(name) for name in session.progress.open)
