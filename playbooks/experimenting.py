"""Experiments under way: a load with one change, or an examination; the hypothesis is judged by what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.deployment import change
from engine_probe.errors import InputError
from engine_probe.events import Ended, Hung, Ready
from engine_probe.facts import Known, Unknown
from playbooks import experiments, wording
from playbooks.context import launch_named, lookup_of, with_progress
from playbooks.effects import Examine, Load, StopExamine, StopLoad
from playbooks.filling import fill, needed
from playbooks.fixing import fixes_of
from playbooks.hypotheses import change_of, judge
from playbooks.observe import load_begins
from playbooks.patterns import to_value
from playbooks.session import Hypothesis, Session, Step, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.events import Event
    from engine_probe.facts import Fact
    from engine_probe.launch import Launch
    from playbooks.context import Context
    from playbooks.decisions import RunExperiment
    from playbooks.effects import Effect, Examined
    from playbooks.experiments import NamedExperiment
    from playbooks.schema import Experiment, HypothesisSpec

Answer = tuple[Session, tuple["Effect", ...]]
_STOPPED = "it was stopped"


def run_experiment(session: Session, decision: RunExperiment, context: Context) -> Answer:
    """Begin the experiment of one hypothesis; what only reads facts is judged at once."""
    spec = _spec(context, decision.cause, decision.hypothesis)
    if spec is None or not _is_there(session, decision.cause, decision.hypothesis):
        return session, ()
    session = with_progress(session, experiment=(decision.cause, decision.hypothesis))
    if spec.experiment.run is None:
        return _judged(session, context), ()
    named = experiments.named(spec.experiment.run)
    try:
        launch = _changed(session, spec.experiment)
    except InputError as error:
        return _judged(session, context, str(error)), ()
    session = _with_verdict(session, Verdict.RUNNING)
    session = replace(with_progress(session, phase="experimenting", stopping=False), running=f"trying: {named.meaning}")
    if named.kind == "examine":
        facts = {name: fact for name, fact in session.facts.items() if isinstance(fact, Known)}
        return session, (Examine(named.name, launch, session.deployment, facts),)
    others = session.progress.open if named.is_alone else ()
    if others:
        return with_progress(session, restarting=others), tuple(map(StopLoad, others))
    return _load(session, launch, named, context)


def _load(session: Session, launch: Launch, named: NamedExperiment, context: Context) -> Answer:
    running, grade = session.running, session.grade if named.grade == "session" else named.grade
    session = replace(load_begins(session, launch.name, context), running=running)
    return session, (Load(launch, grade, named.watches_gpus),)


def _on_other_ended(session: Session, model: str, spec: HypothesisSpec, context: Context) -> Answer:
    """One of those that must not run beside the experiment has ended."""
    left = tuple(name for name in session.progress.restarting if name != model)
    session = with_progress(session, restarting=left)
    if session.progress.stopping:
        return (session, ()) if left else (_judged(session, context, _STOPPED), ())
    if left:
        return session, ()
    return _load(session, _changed(session, spec.experiment), experiments.named(spec.experiment.run or ""), context)


def stop(session: Session) -> tuple[Effect, ...]:
    """What ends the experiment under way, beside its loads."""
    is_examining = session.progress.phase == "experimenting" and not session.progress.open
    return (StopExamine(),) if is_examining else ()


def on_event(session: Session, event: Event, context: Context) -> Answer:
    """The experiment's load goes on; its end decides."""
    spec = _spec_under_way(session, context)
    if spec is None or _examines(spec.experiment):
        return session, ()
    if isinstance(event, Ended) and event.model in session.progress.restarting:
        return _on_other_ended(session, event.model or "", spec, context)
    if isinstance(event, Hung):
        return session, (StopLoad(session.model, reason=f"nothing moved for {event.silent_seconds:.0f} s"),)
    if isinstance(event, Ready) and event.model == session.model:
        return session, (StopLoad(session.model),)
    if not isinstance(event, Ended) or event.model != session.progress.loading:
        return session, ()
    return _on_ended(session, experiments.named(spec.experiment.run or ""), context), ()


def _on_ended(session: Session, named: NamedExperiment, context: Context) -> Session:
    """Its facts are those of the failure, and what this load was for: its other numbers are of a changed launch."""
    watched = {name: session.facts[name] for name in named.facts if named.watches_gpus and name in session.facts}
    before = {**session.progress.facts_before, **watched}
    if session.progress.stopping:
        return _judged(replace(session, facts=dict(session.progress.facts_before)), context, _STOPPED)
    return _judged(replace(session, facts={**before, **_told_by_load(session, named)}), context)


def _told_by_load(session: Session, named: NamedExperiment) -> dict[str, Fact]:
    """A load that failed says nothing of the configuration, and one without weights nothing of serving."""
    is_serving, origin = session.progress.ready is not None, "the experiment's load"
    if named.grade == "dry":
        return {"engine.config_accepted": Known(session.progress.config_built, "measured", origin)}
    facts: dict[str, Fact] = {"load.is_serving": Known(is_serving, "measured", origin)}
    if is_serving:
        facts["engine.config_accepted"] = Known(value=True, source="measured", origin=origin)
    if named.is_alone:
        facts["load.serves_alone"] = Known(is_serving, "measured", "a load without the other models")
    return facts


def on_examined(session: Session, done: Examined, context: Context) -> Answer:
    """What was measured is a fact from now on. Beside a load it waits for the load's end."""
    if session.progress.phase != "experimenting":
        return session, ()
    facts = dict(done.facts)
    if done.why_not is not None:
        facts = {**dict.fromkeys(experiments.named(done.name).facts, Unknown(done.why_not)), **facts}
    before = _merged(session.progress.facts_before, done.facts)
    session = with_progress(replace(session, facts=_merged(session.facts, facts)), facts_before=before)
    if experiments.named(done.name).kind == "load":
        return session, ()
    why_not = _STOPPED if session.progress.stopping else done.why_not
    return _judged(session, context, why_not), ()


def _merged(known: Mapping[str, Fact], new: Mapping[str, Fact]) -> dict[str, Fact]:
    """A reason takes no value away."""
    told = {name: fact for name, fact in new.items() if isinstance(fact, Known) or not _is_known(known, name)}
    return {**known, **told}


def _is_known(facts: Mapping[str, Fact], name: str) -> bool:
    return isinstance(facts.get(name), Known)


def _judged(session: Session, context: Context, why_not: str | None = None) -> Session:
    """With the verdict of what was tried, and of all that asks for the same or only for facts. `why_not`: it told
    nothing."""
    under_way = _spec_under_way(session, context)
    tried = under_way.experiment if under_way is not None else None
    causes = []
    for cause in session.causes:
        lookup = lookup_of(session, cause)
        specs = {one.id: one for one in _specs(context, cause.id)}
        judged = []
        for one in cause.hypotheses:
            spec = specs.get(one.id)
            is_meant = (cause.id, one.id) == session.progress.experiment
            if spec is None or tried is None or not (is_meant or _is_open_to(one, spec, tried)):
                judged.append(one)
                continue
            verdict = judge(one, spec, lookup)
            is_untold = why_not is not None and verdict.verdict is Verdict.INCONCLUSIVE
            judged.append(replace(verdict, because=(why_not,)) if is_untold and why_not else verdict)
        causes.append(replace(cause, hypotheses=tuple(judged)))
    session = replace(session, causes=tuple(causes))
    stages = session.progress.stages_before or session.stages  # those of the failure, not of the experiment's load
    session = replace(session, fixes=fixes_of(session, context), running=None, stages=stages)
    can_fix = any(fix.unavailable is None and fix.by_hand is None for fix in session.fixes)
    session = with_progress(session, experiment=None, phase="deciding", stopping=False)
    return replace(session, step=Step.FIX if can_fix else Step.HYPOTHESES)


def _is_open_to(one: Hypothesis, spec: HypothesisSpec, tried: Experiment) -> bool:
    """The same experiment decides it too, or the facts that it reads may be known now."""
    if one.verdict not in (Verdict.UNTESTED, Verdict.INCONCLUSIVE):
        return False
    is_same = tried.run is not None and (spec.experiment.run, spec.experiment.with_) == (tried.run, tried.with_)
    return is_same or (spec.experiment.run is None and bool(tried.run) and _examines(tried))


def _examines(tried: Experiment) -> bool:
    return experiments.named(tried.run or "").kind == "examine"


def _changed(session: Session, experiment: Experiment) -> Launch:
    """The launch with the experiment's one change. Raises InputError where it cannot be made."""
    assert session.progress.experiment is not None
    deployment = session.deployment
    cause = next(one for one in session.causes if one.id == session.progress.experiment[0])
    lookup = lookup_of(session, cause)
    for key, value in change_of(experiment).items():
        for name in needed(value):
            answer = lookup(name)
            if not isinstance(answer, Known):
                reason = answer.reason if isinstance(answer, Unknown) else "it is not set"
                raise InputError(f"{wording.label_of(name)}: unknown, because {wording.with_labels(reason)}")
        deployment = change(deployment, session.model, key, to_value(fill(value, lookup)))
    return launch_named(deployment, session.model)


def _specs(context: Context, cause: str) -> list[HypothesisSpec]:
    loaded = next((one.spec for one in context.library if one.id == cause), None)
    return loaded.hypotheses if loaded is not None else []


def _spec(context: Context, cause: str, hypothesis: str) -> HypothesisSpec | None:
    return next((one for one in _specs(context, cause) if one.id == hypothesis), None)


def _spec_under_way(session: Session, context: Context) -> HypothesisSpec | None:
    return _spec(context, *session.progress.experiment) if session.progress.experiment is not None else None


def _is_there(session: Session, cause: str, hypothesis: str) -> bool:
    causes = (one for one in session.causes if one.id == cause)
    return any(one.id == hypothesis for found in causes for one in found.hypotheses)


def _with_verdict(session: Session, verdict: Verdict) -> Session:
    """Of the hypothesis under way."""
    assert session.progress.experiment is not None
    cause_id, hypothesis_id = session.progress.experiment
    causes = tuple(
        replace(
            cause,
            hypotheses=tuple(
                replace(one, verdict=verdict, because=()) if one.id == hypothesis_id else one
                for one in cause.hypotheses
            ),
        )
        if cause.id == cause_id
        else cause
        for cause in session.causes
    )
    return replace(session, causes=causes)
