"""The first loads of a case: one after another, or all at once, until all serve or one fails and is diagnosed.

Of several that fail the first is the case. Its failure may come while others load or serve: what they did then is a
fact of it, and it is decided only when the others have settled too, since a fix must hold beside them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.events import Ended, Event, Failed, Ready, RequestAnswered
from playbooks import asking, trial, verifying
from playbooks.causes import symptom_of, with_diagnosis
from playbooks.context import launch_named, with_progress
from playbooks.effects import Diagnose, Load, SendRequest, StopLoad
from playbooks.fixing import fixes_of
from playbooks.focus import looking_at, seen_of, still_loading
from playbooks.neighbours import facts_at_failure
from playbooks.observe import load_begins
from playbooks.session import Session, Step

if TYPE_CHECKING:
    from playbooks.context import Context
    from playbooks.diagnosis import Diagnosis
    from playbooks.effects import Effect, FilesSeen

Answer = tuple[Session, tuple["Effect", ...]]
_OF_THE_END = "load."
"""How a load ended is what an experiment or a fix is judged by, and no reason of its failure."""


def begin(session: Session, context: Context) -> Answer:
    """Load the deployment as it is; where that was stopped before, from the beginning."""
    queue = tuple(launch.name for launch in session.deployment.models)
    session = replace(session, symptom=None, causes=(), fixes=(), checks=(), verdict=None, step=Step.SYMPTOM)
    session = with_progress(session, phase="observing", queue=queue, failed=None, failed_too=(), requests=(), asking=())
    return _load_next(with_progress(session, trials=(), is_diagnosed=False), context)


def served_by_another(session: Session, ready: Ready) -> str | None:
    """A reason when the server that answered on the load's port serves another model; None when it is ours."""
    if ready.model not in session.progress.open or not ready.served_models:
        return None
    launch = launch_named(session.deployment, ready.model or session.model)
    given = launch.args.get("served-model-name", launch.model)
    names = given if isinstance(given, tuple) else (str(given),)
    if any(name in ready.served_models for name in names):
        return None
    return f"another server answers on port {ready.port}: it serves {ready.served_models[0]}"


def _load_next(session: Session, context: Context) -> Answer:
    """Load the first launch of the queue, or all of it where the deployment starts its models in parallel."""
    queue = session.progress.queue
    names = queue if session.deployment.start == "parallel" else queue[:1]
    session = with_progress(session, queue=queue[len(names) :])
    for name in names:
        session = load_begins(session, name, context)
    session = replace(looking_at(session, names[0]), model=names[0])
    at_once = f"{len(names)} models at once: " if len(names) > 1 else ""
    session = replace(session, running=f"loading {at_once}{', '.join(names)} ({session.grade})")
    return session, tuple(Load(launch_named(session.deployment, name), session.grade) for name in names)


def on_event(session: Session, event: Event, context: Context) -> Answer:  # noqa: PLR0911 - one a kind
    """Of any of the loads; `event` has been taken in."""
    progress = session.progress
    if isinstance(event, Failed):
        return _on_failed(session, event), ()
    if isinstance(event, Ready) and not progress.stopping:
        if progress.failed is not None:
            return _when_settled(session), ()
        return _or_read(asking.begin(session, event.model or ""))
    if isinstance(event, RequestAnswered) and event.id == trial.id_of(next(iter(progress.trials), "")):
        return _on_tried(session, event)
    if isinstance(event, RequestAnswered):
        return _or_read(asking.on_answer(session, event))
    if isinstance(event, Ended):
        return _on_ended(session, event, context)
    return session, ()


def _on_tried(session: Session, answer: RequestAnswered) -> Answer:
    """The answer to what a model that serves was asked. Without one it is ended, and that is its failure."""
    if session.progress.stopping:
        return session, ()
    wrong = trial.is_dead(answer)
    if wrong is not None and answer.model in session.progress.open:
        return with_progress(session, trials=()), (StopLoad(answer.model or "", reason=wrong),)
    return _try(with_progress(session, trials=session.progress.trials[1:]))


def _try(session: Session) -> Answer:
    """Ask the next model that serves; when all have answered the deployment is well."""
    if session.progress.failed is not None:
        return session, ()
    if not session.progress.trials:
        return _healthy(session)
    model = session.progress.trials[0]
    session = replace(session, running=f"asking {model} whether it answers")
    return session, (SendRequest(model, trial.request_for(model, seen_of(session, model).ready)),)


def on_files_seen(session: Session, seen: FilesSeen) -> Answer:
    """What the files of the model that serves tell; then its answers."""
    progress = session.progress
    is_asked = progress.failed is None and not progress.stopping and progress.asking[:1] == (seen.model,)
    return _or_read(asking.on_files_seen(session, seen)) if is_asked else (session, ())


def _or_read(answer: Answer) -> Answer:
    """The answer; where nothing is left to be asked of the model, its log is read."""
    session, effects = answer
    return _ask(session, session.progress.asking[0]) if not effects and asking.is_over(session) else answer


def on_event_between(session: Session, event: Event) -> Answer:
    """Nothing is being tried. A model that serves may still end: of a deployment that was well, that is its failure."""
    if not isinstance(event, (Failed, Ended)):
        return session, ()
    if session.verdict == "healthy" and isinstance(event, Failed):
        session = with_progress(replace(session, verdict=None), phase="observing")
        return _on_failed(session, event), ()
    if isinstance(event, Failed):
        return _noted(session, f"{event.model} ended while it served: {event.reason}"), ()
    return session, ()


def _on_failed(session: Session, event: Failed) -> Session:
    """The first that fails is what the case is about; what the others did at that moment is told with it."""
    model = event.model or session.model
    if session.progress.stopping:
        return session
    if session.progress.failed is not None or session.progress.is_diagnosed:
        if session.progress.failed is not None:
            session = with_progress(session, failed_too=(*session.progress.failed_too, model))
        return _noted(session, f"{model} failed too: {event.reason}")
    session = replace(looking_at(session, model), model=model)
    told = facts_at_failure(
        model, still_loading(session), session.progress.up, seen_of_each(session), _order_with_last(session)
    )
    session = replace(session, facts={**session.facts, **told})
    session = replace(session, checks=())
    return with_progress(session, failed=model, queue=(), asking=(), requests=())


def _order_with_last(session: Session) -> tuple[str, ...]:
    """The deployment's order with the model that began last at its end; empty where all begin at once."""
    if session.deployment.start == "parallel":
        return ()
    names = [one.name for one in session.deployment.models]
    last = max(session.progress.loads, key=lambda name: session.progress.loads[name])
    return (*(name for name in names if name != last), last)


def seen_of_each(session: Session) -> dict[str, str]:
    """The stage that each load is in, or was in last."""
    found = {}
    for name in session.progress.loads:
        reached = [one.stage for one in seen_of(session, name).stages if one.state != "not reached"]
        found[name] = reached[-1] if reached else ""
    return found


def _on_ended(session: Session, event: Ended, context: Context) -> Answer:
    progress = session.progress
    if progress.stopping:
        return _stopped(session)
    if progress.is_diagnosed:
        return (session, ()) if progress.open else (_to_decide(session), ())
    if progress.failed is not None:
        return _ask(session, event.model or "") if event.model == progress.failed else (_when_settled(session), ())
    if seen_of(session, event.model or "").config_built:  # a dry load ends by itself
        if progress.queue:
            return _load_next(session, context)
        return (session, ()) if progress.open else _healthy(session)
    return session, ()


def _stopped(session: Session) -> Answer:
    if session.progress.open:
        return session, ()
    session = with_progress(session, phase="deciding", stopping=False)
    return replace(session, verdict="stopped", running=None), ()


def _ask(session: Session, model: str) -> Answer:
    """A load has failed and ended, or it serves: what its log says is asked for."""
    session = replace(looking_at(session, model), model=model)
    launch = launch_named(session.deployment, model)
    session = replace(session, running=f"reading what {model} printed")
    facts = {name: fact for name, fact in session.facts.items() if not name.startswith(_OF_THE_END)}
    session = replace(session, facts=facts)
    return session, (Diagnose(session.progress.loads[model], launch, session.deployment, facts, session.file_sources),)


def diagnosed(session: Session, diagnosis: Diagnosis | None, context: Context) -> Answer:
    """Name the symptom, the causes, and what can be tried. None: the log could not be read."""
    has_failed = session.progress.failure is not None
    if not has_failed and (diagnosis is None or not diagnosis.causes) and verifying.failed(session.checks) is None:
        return _go_on(session, context)
    if diagnosis is not None:
        session = with_diagnosis(session, diagnosis)
    session = replace(session, symptom=symptom_of(session, diagnosis), fixes=fixes_of(session, context))
    if diagnosis is None or diagnosis.is_unexplained or not session.causes:
        session = replace(session, verdict="unexplained")
    if has_failed:
        return _when_settled(session), ()
    session = with_progress(session, is_diagnosed=True, queue=(), asking=(), up_before=_up_beside(session))
    ending = tuple(StopLoad(name) for name in session.progress.open)
    return replace(session, running="ending what answers wrongly"), ending


def _go_on(session: Session, context: Context) -> Answer:
    """One more serves, and nothing is wrong with it."""
    session = with_progress(session, asking=session.progress.asking[1:])
    if session.progress.asking:
        return _or_read(asking.look(session))
    if session.progress.queue:
        return _load_next(session, context)
    waiting = still_loading(session)
    if not waiting:  # what came up first may have died since, and its server serves on for a while
        others = tuple(name for name in session.progress.up if name != session.progress.loading)
        return _try(with_progress(session, trials=others))
    session = replace(looking_at(session, waiting[0]), model=waiting[0])
    return replace(session, running=f"loading {', '.join(waiting)} ({session.grade})"), ()


def _healthy(session: Session) -> Answer:
    return replace(with_progress(session, phase="deciding"), verdict="healthy", running=None), ()


def _when_settled(session: Session) -> Session:
    """The failure is explained: decide, once no other load is on its way any more."""
    if session.symptom is None:
        return session
    waiting = still_loading(session)
    if not waiting:
        return _to_decide(with_progress(session, up_before=_up_beside(session)))
    return replace(session, running=f"waiting for {', '.join(waiting)}: a fix has to hold beside it")


def _up_beside(session: Session) -> tuple[str, ...]:
    return tuple(name for name in session.progress.up if name != session.model)


def _to_decide(session: Session) -> Session:
    observed = tuple(session.progress.loads)
    session = with_progress(session, phase="deciding", is_diagnosed=False, failed=None, observed=observed)
    session = replace(session, running=None)
    if not session.causes:
        return session
    if session.verdict is not None:  # what is less likely than that no playbook knows it can be looked at
        return replace(session, step=Step.HYPOTHESES)
    can_fix = any(fix.unavailable is None and fix.by_hand is None for fix in session.fixes)
    return replace(session, step=Step.FIX if can_fix else Step.HYPOTHESES)


def _noted(session: Session, words: str) -> Session:
    return replace(session, notes=(*session.notes, words))
