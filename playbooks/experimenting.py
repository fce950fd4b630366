"""Experiments under way: load with one change, and judge the hypothesis by what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.deployment import change
from engine_probe.errors import InputError
from engine_probe.events import Ended, Hung, Ready
from engine_probe.facts import Known
from playbooks import experiments
from playbooks.context import launch_named, lookup_of, with_progress
from playbooks.effects import Load, StopLoad
from playbooks.fixing import fixes_of
from playbooks.hypotheses import judge
from playbooks.observe import load_begins
from playbooks.patterns import to_value
from playbooks.session import Hypothesis, Session, Step, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.events import Event
    from engine_probe.launch import Launch
    from playbooks.context import Context
    from playbooks.decisions import RunExperiment
    from playbooks.effects import Effect
    from playbooks.schema import Experiment, HypothesisSpec

Answer = tuple[Session, tuple["Effect", ...]]


def run_experiment(session: Session, decision: RunExperiment, context: Context) -> Answer:
    """Begin the experiment of one hypothesis; what needs no load is judged at once."""
    spec = _spec(context, decision.cause, decision.hypothesis)
    if spec is None or _hypothesis(session, decision.cause, decision.hypothesis) is None:
        return session, ()
    session = with_progress(session, experiment=(decision.cause, decision.hypothesis))
    if spec.experiment.run is None:
        return _judged(session, context), ()
    named = experiments.named(spec.experiment.run)
    if named.grade is None:
        return _inconclusive(session, named.missing), ()
    try:
        launch = _changed(session, spec.experiment)
    except InputError as error:
        return _inconclusive(session, str(error)), ()
    session = _with_hypothesis(session, lambda one: replace(one, verdict=Verdict.RUNNING, because=()))
    session = with_progress(session, phase="experimenting")
    session = load_begins(session, launch.name, context)
    return replace(session, running=f"trying: {named.meaning}"), (Load(launch, named.grade),)


def on_event(session: Session, event: Event, context: Context) -> Answer:
    """The experiment's load goes on; its end decides."""
    if isinstance(event, Hung):
        return session, (StopLoad(session.model, reason=f"nothing moved for {event.silent_seconds:.0f} s"),)
    if isinstance(event, Ready):
        return session, (StopLoad(session.model),)
    if not isinstance(event, Ended) or event.model != session.progress.loading:
        return session, ()
    if session.progress.stopping:
        session = with_progress(session, phase="deciding", stopping=False)
        return replace(_inconclusive(session, "it was stopped"), running=None), ()
    accepted = session.progress.config_built or session.progress.ready is not None
    origin = "the experiment's load"
    facts = {**session.progress.facts_before, "engine.config_accepted": Known(accepted, "measured", origin)}
    if not session.progress.config_built:
        facts["load.is_serving"] = Known(session.progress.ready is not None, "measured", origin)
    session = replace(with_progress(session, phase="deciding"), facts=facts, running=None)
    return _judged(session, context), ()


def _judged(session: Session, context: Context) -> Session:
    assert session.progress.experiment is not None
    cause_id, hypothesis_id = session.progress.experiment
    spec = _spec(context, cause_id, hypothesis_id)
    cause = next(one for one in session.causes if one.id == cause_id)
    assert spec is not None
    lookup = lookup_of(session, cause)
    session = _with_hypothesis(session, lambda one: judge(one, spec, lookup))
    session = replace(session, fixes=fixes_of(session, context))
    can_fix = any(fix.unavailable is None and fix.by_hand is None for fix in session.fixes)
    return replace(with_progress(session, experiment=None), step=Step.FIX if can_fix else Step.HYPOTHESES)


def _inconclusive(session: Session, why: str) -> Session:
    session = _with_hypothesis(session, lambda one: replace(one, verdict=Verdict.INCONCLUSIVE, because=(why,)))
    return with_progress(session, experiment=None)


def _changed(session: Session, experiment: Experiment) -> Launch:
    deployment = session.deployment
    for key, value in experiment.with_.items():
        deployment = change(deployment, session.model, key, to_value(str(value)))
    return launch_named(deployment, session.model)


def _spec(context: Context, cause: str, hypothesis: str) -> HypothesisSpec | None:
    loaded = next((one.spec for one in context.library if one.id == cause), None)
    specs = loaded.hypotheses if loaded is not None else []
    return next((one for one in specs if one.id == hypothesis), None)


def _hypothesis(session: Session, cause: str, hypothesis: str) -> Hypothesis | None:
    causes = (one for one in session.causes if one.id == cause)
    return next((one for found in causes for one in found.hypotheses if one.id == hypothesis), None)


def _with_hypothesis(session: Session, update: Callable[[Hypothesis], Hypothesis]) -> Session:
    assert session.progress.experiment is not None
    cause_id, hypothesis_id = session.progress.experiment
    causes = tuple(
        replace(cause, hypotheses=tuple(update(one) if one.id == hypothesis_id else one for one in cause.hypotheses))
        if cause.id == cause_id
        else cause
        for cause in session.causes
    )
    return replace(session, causes=causes)
