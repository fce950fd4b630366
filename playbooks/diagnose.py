"""The wizard's brain: one step of a session. Pure: what should be done comes back as effects.

What happens is a probe's event, a person's decision, or what came of an effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.events import Ended, Event, Failed, Hung, Ready, Trouble
from playbooks import experimenting, trying
from playbooks.causes import symptom_of, with_diagnosis
from playbooks.context import launch_named, with_progress
from playbooks.decisions import ApplyFix, Begin, Finish, RunExperiment, Stop, Undo
from playbooks.effects import (
    Diagnose,
    Diagnosed,
    EffectFailed,
    Load,
    ReportWritten,
    RevisionUndone,
    RevisionWritten,
    StopLoad,
    WriteReport,
)
from playbooks.fixing import fixes_of
from playbooks.observe import load_begins, observe
from playbooks.session import Session, Step

if TYPE_CHECKING:
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.diagnosis import Diagnosis
    from playbooks.effects import Done, Effect

Answer = tuple[Session, tuple["Effect", ...]]
_OF_ONE_MODEL = ("model.", "files.", "adapter.", "gpu.", "weights.on_disk_gib")
_OF_THE_END = "load."
"""How a load ended is what an experiment or a fix is judged by, and no reason of its failure."""


def step(session: Session, happening: Event | Decision | Done, context: Context) -> Answer:
    """The session after `happening`, and what is to be done about it."""
    if isinstance(happening, Ready) and (served := served_by_another(session, happening)) is not None:
        return session, (StopLoad(session.progress.loading or session.model, reason=served),)
    if isinstance(happening, Event):
        return _on_event(observe(session, happening, context), happening, context)
    if isinstance(happening, (RevisionWritten, RevisionUndone, Diagnosed, ReportWritten, EffectFailed)):
        return _on_done(session, happening, context)
    return _on_decision(session, happening, context)


def allowed(session: Session, decision: Decision) -> bool:
    """Whether `decision` does something now. A screen greys what is not allowed."""
    phase = session.progress.phase
    if isinstance(decision, Begin):
        return phase == "not begun"
    if isinstance(decision, Stop):
        return bool(session.progress.open) and phase in ("observing", "experimenting", "verifying")
    if isinstance(decision, Finish):
        return phase in ("not begun", "deciding")
    if isinstance(decision, Undo):
        return phase == "deciding" and session.applied_fix is not None
    if isinstance(decision, RunExperiment):
        return phase == "deciding" and session.applied_fix is None
    fixes = {fix.id: fix for fix in session.fixes}
    option = fixes.get(decision.fix)
    usable = option is not None and option.unavailable is None and option.by_hand is None
    return phase == "deciding" and session.applied_fix is None and usable


def _on_decision(session: Session, decision: Decision, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    if not allowed(session, decision):
        return session, ()
    if isinstance(decision, Begin):
        queue = tuple(launch.name for launch in session.deployment.models)
        return load_next(with_progress(session, phase="observing", queue=queue), context)
    if isinstance(decision, RunExperiment):
        return experimenting.run_experiment(session, decision, context)
    if isinstance(decision, ApplyFix):
        return trying.apply_fix(session, decision, context)
    if isinstance(decision, Undo):
        return trying.go_back(replace(session, verdict=None))
    if isinstance(decision, Finish):
        return _finish(session)
    stopping = with_progress(session, stopping=True)
    return replace(stopping, running="stopping"), _stop_all(stopping)


def served_by_another(session: Session, ready: Ready) -> str | None:
    """A reason when the server that answered on the load's port serves another model; None when it is ours."""
    if ready.model != session.progress.loading or not ready.served_models:
        return None
    launch = launch_named(session.deployment, ready.model or session.model)
    given = launch.args.get("served-model-name", launch.model)
    names = given if isinstance(given, tuple) else (str(given),)
    if any(name in ready.served_models for name in names):
        return None
    return f"another server answers on port {ready.port}: it serves {ready.served_models[0]}"


def load_next(session: Session, context: Context) -> Answer:
    """Load the first launch of the queue."""
    name, *rest = session.progress.queue
    if session.progress.load_number and session.progress.phase == "observing":
        session = _forget_the_model(session)
    grade = session.verify_grade if session.progress.phase == "verifying" else session.grade
    session = with_progress(session, queue=tuple(rest))
    session = load_begins(replace(session, model=name), name, context)
    session = replace(session, running=f"loading {name} ({grade})")
    return session, (Load(launch_named(session.deployment, name), grade),)


def _forget_the_model(session: Session) -> Session:
    """Facts of the first model's files, and of its GPUs before any load, say nothing about the next."""
    kept = {name: fact for name, fact in session.facts.items() if not name.startswith(_OF_ONE_MODEL)}
    return replace(session, facts=kept)


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
        return _on_event_between(session, event), ()
    return _on_observed(session, event, context)


def _on_event_between(session: Session, event: Event) -> Session:
    """Nothing is being tried; a model that is up may still end by itself."""
    if not isinstance(event, Failed):
        return session
    return replace(session, notes=(*session.notes, f"{event.model} ended while it served: {event.reason}"))


def _on_observed(session: Session, event: Event, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    progress = session.progress
    if isinstance(event, Ready) and event.model == progress.loading and not progress.stopping:
        return _ask(session)
    if isinstance(event, Failed):
        return replace(session, model=event.model or session.model), ()
    if not isinstance(event, Ended):
        return session, ()
    if progress.stopping:
        return _stopped_observing(session)
    if progress.is_diagnosed:
        return (session, ()) if progress.open else (_to_decide(session), ())
    if progress.failure is not None:
        return _ask(session)
    if progress.config_built:  # a dry load ends by itself
        return load_next(session, context) if progress.queue else _healthy(session)
    return session, ()


def _healthy(session: Session) -> Answer:
    return replace(with_progress(session, phase="deciding"), verdict="healthy", running=None), ()


def _stopped_observing(session: Session) -> Answer:
    if session.progress.open:
        return session, ()
    session = with_progress(session, phase="deciding", stopping=False)
    return replace(session, verdict="stopped", running=None), ()


def _ask(session: Session) -> Answer:
    """A load has failed and ended, or it serves: what its log says is asked for."""
    number = session.progress.loads[session.model]
    launch = launch_named(session.deployment, session.model)
    session = replace(session, running=f"reading what {session.model} printed")
    facts = {name: fact for name, fact in session.facts.items() if not name.startswith(_OF_THE_END)}
    session = replace(session, facts=facts)
    return session, (Diagnose(number, launch, session.deployment, facts),)


def _diagnosed(session: Session, diagnosis: Diagnosis | None, context: Context) -> Answer:
    """Name the symptom, the causes, and what can be tried. None: the log could not be read."""
    has_failed = session.progress.failure is not None
    if not has_failed and (diagnosis is None or not diagnosis.causes):
        return load_next(session, context) if session.progress.queue else _healthy(session)
    if diagnosis is not None:
        session = with_diagnosis(session, diagnosis)
    session = replace(session, symptom=symptom_of(session, diagnosis), fixes=fixes_of(session, context))
    if diagnosis is None or diagnosis.is_unexplained or not session.causes:
        session = replace(session, verdict="unexplained")
    if has_failed:
        return _to_decide(session), ()
    session = with_progress(session, is_diagnosed=True, queue=())
    return replace(session, running="ending what answers wrongly"), _stop_all(session)


def _to_decide(session: Session) -> Session:
    up_before = tuple(name for name in session.progress.up if name != session.model)
    session = with_progress(session, phase="deciding", is_diagnosed=False, up_before=up_before)
    session = replace(session, running=None)
    if not session.causes:
        return session
    if session.verdict is not None:  # what is less likely than that no playbook knows it can be looked at
        return replace(session, step=Step.HYPOTHESES)
    can_fix = any(fix.unavailable is None and fix.by_hand is None for fix in session.fixes)
    return replace(session, step=Step.FIX if can_fix else Step.HYPOTHESES)


def _on_done(session: Session, done: Done, context: Context) -> Answer:
    if isinstance(done, EffectFailed):
        return _on_effect_failed(session, done, context)
    if isinstance(done, ReportWritten):
        return replace(with_progress(session, phase="done"), report_path=done.path, running=None), ()
    if isinstance(done, RevisionWritten):
        return trying.on_written(session, done, context)
    if isinstance(done, Diagnosed):
        return _diagnosed(session, done.diagnosis, context)
    session, effects = trying.on_undone(session, done)
    return _finish(session) if session.progress.then_done else (session, effects)


def _on_effect_failed(session: Session, done: EffectFailed, context: Context) -> Answer:
    session = replace(session, notes=(*session.notes, done.text))
    if isinstance(done.effect, Diagnose):
        return _diagnosed(session, None, context)
    if isinstance(done.effect, WriteReport):
        return replace(with_progress(session, phase="done"), running=None), ()
    return trying.on_effect_failed(session, done)


def _cannot_run(session: Session) -> Answer:
    """The engine is gone or never came: nothing more can be loaded."""
    session = replace(session, verdict="cannot run")
    session = with_progress(session, open=(), up=(), queue=(), then_done=True)
    if session.applied_fix is not None and session.progress.phase in ("verifying", "writing"):
        return trying.undo(session)
    return _finish(session)


def _finish(session: Session) -> Answer:
    verdict = session.verdict or ("not verified" if _was_tried(session) else "stopped")
    session = replace(with_progress(session, phase="finishing"), verdict=verdict, running="writing the report")
    return (session, _stop_all(session)) if session.progress.open else (session, (WriteReport(),))


def _was_tried(session: Session) -> bool:
    return any(fix.outcome == "did not hold" for fix in session.fixes)


def _report_when_all_ended(session: Session) -> Answer:
    return (session, ()) if session.progress.open else (session, (WriteReport(),))


def _stop_all(session: Session) -> tuple[Effect, ...]:
    return tuple(StopLoad(name) for name in session.progress.open)
