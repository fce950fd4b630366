"""A case that begins from logs of before: symptom, causes and fixes as a diagnosis gives them; nothing was loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from engine_probe.redact import mask
from engine_probe.stage_names import STAGES
from playbooks.causes import with_diagnosis
from playbooks.context import launch_named, with_progress
from playbooks.effects import DiagnoseLogs
from playbooks.exceptions import make_evidence
from playbooks.fixing import fixes_of
from playbooks.offers import offers_of
from playbooks.session import FixOption, Session, StageTime, Step, Symptom
from playbooks.symptom_sources import sources_from_log
from playbooks.symptom_words import codes_of, key_words_of

if TYPE_CHECKING:
    from engine_probe.logs.attempts import Attempt
    from playbooks.context import Context
    from playbooks.decisions import BeginFromLog
    from playbooks.diagnosis import Diagnosis, FoundCause
    from playbooks.effects import Effect, LogsDiagnosed
    from playbooks.offers import Offer
    from playbooks.session import Evidence

Answer = tuple[Session, tuple["Effect", ...]]
_LOAD_NOTHING = "there is no deployment file: what the log printed of the launch can be written as one"
_IN_WORDS = 300


def begin(session: Session, decision: BeginFromLog) -> Answer:
    """Have the logs read."""
    session = replace(session, log_sources=decision.sources, running=f"reading {', '.join(decision.sources)}")
    given = session.deployment if session.deployment.path is not None else None
    return with_progress(session, phase="observing"), (DiagnoseLogs(decision.sources, given, session.facts),)


def named(session: Session, done: LogsDiagnosed, context: Context) -> Session:
    """The session at the point where a person decides: what is wrong, why, and what mends it."""
    diagnosis = done.diagnosis
    session = replace(session, deployment=done.deployment, running=None, notes=(*session.notes, *diagnosis.notes))
    session = with_progress(session, phase="deciding")
    if done.deployment.path is None:
        session = replace(session, no_loads=session.no_loads or _LOAD_NOTHING)
    session = replace(session, model=done.deployment.models[0].name)
    if diagnosis.outcome == "healthy" and not diagnosis.causes:
        return replace(session, verdict="healthy", stages=_stages(diagnosis.attempts[-1:]))
    first = diagnosis.causes[0] if diagnosis.causes else None
    session = replace(session, model=_model(session, first))
    attempt = _attempt(diagnosis, first)
    session = with_diagnosis(replace(session, stages=_stages(() if attempt is None else (attempt,))), diagnosis)
    session = replace(session, symptom=_symptom(session, done, attempt))
    session = replace(session, fixes=_fixes(session, done, context))
    if diagnosis.is_unexplained or not session.causes:
        return replace(session, verdict="unexplained", step=Step.HYPOTHESES)
    return replace(session, step=Step.FIX if session.fixes else Step.HYPOTHESES)


def _model(session: Session, first: FoundCause | None) -> str:
    """The launch that the likeliest cause is of."""
    names = [launch.name for launch in session.deployment.models]
    if first is None or first.launch_name in names:
        return (first.launch_name if first is not None else None) or session.model
    short = (first.model or "").rstrip("/").rpartition("/")[2]
    return short if short in names else session.model


def _attempt(diagnosis: Diagnosis, first: FoundCause | None) -> Attempt | None:
    """The last try of the likeliest cause's model."""
    tries = [one for one in diagnosis.attempts if first is None or one.model == first.model]
    failed = [one for one in tries if one.outcome == diagnosis.outcome]
    return (failed or tries or [*diagnosis.attempts] or [None])[-1]  # type: ignore[list-item]


def _stages(attempts: tuple[Attempt, ...]) -> tuple[StageTime, ...]:
    """The strip of the load that the log tells of."""
    if not attempts:
        return ()
    attempt = attempts[0]
    seconds = attempt.seconds()
    is_over = attempt.outcome == "failed"
    found = []
    for stage in STAGES:
        if is_over and stage == attempt.stage:
            found.append(StageTime(stage, "failed", seconds.get(stage)))
        elif stage in seconds:
            found.append(StageTime(stage, "done", seconds[stage]))
        else:
            found.append(StageTime(stage, "not reached"))
    return tuple(found)


def _symptom(session: Session, done: LogsDiagnosed, attempt: Attempt | None) -> Symptom:
    diagnosis = done.diagnosis
    evidence = _root(session, attempt) or (diagnosis.causes[0].cause.evidence[:1] if diagnosis.causes else ())
    cut = "the log ends before the load did" if diagnosis.outcome == "incomplete" else "nothing in the log says why"
    headline = evidence[0].text if evidence else cut
    layer = attempt.root_record.layer if attempt is not None and attempt.root_record is not None else None
    texts = [headline, *(one.text for found in diagnosis.causes[:1] for one in found.cause.evidence)]
    return Symptom(
        kind=diagnosis.symptom or "does-not-start",
        model=session.model,
        stage=attempt.stage if attempt is not None else None,
        layer=layer or (diagnosis.causes[0].cause.layer if diagnosis.causes else None),
        headline=headline,
        evidence=evidence,
        sources=sources_from_log(session, done, _model_folder_facts(session)),
        codes=codes_of(texts),
        key_words=key_words_of(texts),
    )


def _model_folder_facts(session: Session) -> bool:
    return isinstance(session.facts.get("model.type", session.facts.get("weights.on_disk_gib")), Known)


def _root(session: Session, attempt: Attempt | None) -> tuple[Evidence, ...]:
    if attempt is None or attempt.root_record is None:
        return ()
    record, root = attempt.root_record, attempt.root
    text = root.text if root is not None else record.message
    line = record.first_line + (root.at if root is not None else 0)
    causes = [one.file for cause in session.causes for one in cause.evidence]
    file = causes[0] if causes else session.log_sources[0]
    return (make_evidence(file, line, text),)


def _fixes(session: Session, done: LogsDiagnosed, context: Context) -> tuple[FixOption, ...]:
    """With what was launched known, as of any case; else each as a change of a launch that nobody has told."""
    if done.deployment.path is not None:
        return fixes_of(session, context)
    known = {one.id: one for one in fixes_of(session, context)} if done.is_launch_printed else {}
    found: dict[str, FixOption] = {}
    for cause in done.diagnosis.causes:
        for offer in offers_of(cause):
            option = known.get(offer.id)
            is_told = option is not None and option.key.startswith("args.")  # a log prints no environment
            found.setdefault(offer.id, option if option is not None and is_told else _option(offer, session))
    return tuple(found.values())


def _option(offer: Offer, session: Session) -> FixOption:
    key, value = next(iter(offer.set.items())) if offer.set else ("steps", "")
    is_by_hand = offer.by_hand is not None
    title = f"by hand: {offer.id.replace('-', ' ')}" if is_by_hand else _change_in_words(offer)
    lines = [f"+  {name}: {value if value is not None else '?'}" for name, value in offer.set.items()]
    lines += [f"+  {name}: {value}" for step in offer.steps for name, value in step.set.items()]
    return FixOption(
        id=offer.id,
        launch=session.model,
        key=key,
        old_value=None,
        new_value="" if value is None else str(value),
        title=mask(title)[:_IN_WORDS],
        diff=() if is_by_hand else tuple(mask(one) for one in lines),
        why=offer.why,
        expect=offer.expect,
        you_lose=offer.you_lose,
        risk=offer.risk,
        unavailable=offer.unavailable,
        by_hand=offer.by_hand,
    )


def _change_in_words(offer: Offer) -> str:
    changes = [*offer.set.items(), *(pair for step in offer.steps for pair in step.set.items())]
    return ", then ".join(
        f"{name.partition('.')[2] or name} → {'?' if value is None else value}" for name, value in changes
    )


def command_with(session: Session, fix: FixOption) -> str | None:
    """The command that starts the model with the fix, for whoever has no deployment file; None: it is no command."""
    from engine_probe.deployment import change  # noqa: PLC0415 -- only a person without a file asks
    from engine_probe.errors import InputError  # noqa: PLC0415 -- as above
    from playbooks.patterns import to_value  # noqa: PLC0415 -- as above

    if fix.by_hand or fix.unavailable or not fix.new_value or not fix.key.startswith(("args.", "env.", "gpus")):
        return None
    try:
        after = change(session.deployment, session.model, fix.key, to_value(fix.new_value))
    except InputError:
        return None
    return launch_named(after, session.model).command(masked=True)
