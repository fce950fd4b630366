"""From a load that failed to its symptom, and to the causes that playbooks know, best first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks import wording
from playbooks.conditions import evaluate, parse
from playbooks.context import launch_named, lookup_of
from playbooks.facts import info_of, lookup_for
from playbooks.hypotheses import hypothesis_of
from playbooks.match import evidence_of, exception_line, first_words, layer_of_exception, matched
from playbooks.observe import log_file
from playbooks.ranking import worth
from playbooks.releases import release_fits
from playbooks.session import Cause, Session, Source, Symptom

if TYPE_CHECKING:
    from typing import Literal

    from playbooks.context import Context
    from playbooks.match import Sighting
    from playbooks.schema import Playbook
    from playbooks.session import Evidence

_CLEAR = 1.0
_CLEAR_BUT_NOT_ROOT = 0.74
_ANOTHER_RELEASE = 0.3


def symptom_of(session: Session) -> Symptom:
    """What is wrong, before anything is said about why."""
    progress = session.progress
    failed = next((one.stage for one in session.stages if one.state == "failed"), None)
    running = next((one.stage for one in session.stages if one.state == "running"), None)
    kind: Literal["does-not-start", "crashes-while-running"] = (
        "does-not-start" if progress.ready is None else "crashes-while-running"
    )
    reason = progress.failure.reason if progress.failure is not None else "the load ended"
    headline = exception_line(progress.root) if progress.root is not None else reason
    layer = layer_of_exception(progress.root) if progress.root is not None else None
    return Symptom(kind, session.model, failed or running, layer, headline, _evidence(session), _sources(session))


def _evidence(session: Session) -> tuple[Evidence, ...]:
    """The root exception, with the line of the text that shows it."""
    progress = session.progress
    if progress.root_evidence is None or progress.root is None:
        return ()
    line = progress.exceptions_at.get(first_words(str(progress.root.get("message", ""))))
    return (replace(progress.root_evidence, line=line),)


def _sources(session: Session) -> tuple[Source, ...]:
    progress = session.progress
    launch = launch_named(session.deployment, session.model)
    log = Source("log", f"{progress.lines:,} lines, {log_file(session)}")
    return (
        log if progress.lines else Source("log", missing="the load printed nothing"),
        _source(session, "GPUs", ("gpu.free_before_launch_gib", "gpu.used_by_others_gib", "gpu.total_gib")),
        _source(session, "host", ("host.available_gib", "host.total_gib")),
        _source(session, "model files", ("weights.on_disk_gib", "model.max_position_embeddings")),
        Source("launch arguments", wording.arguments(launch)),
    )


def _source(session: Session, name: str, names: tuple[str, ...]) -> Source:
    """What is known of `names`, in words; missing only when none of them is known."""
    found: list[str] = []
    reasons: list[str] = []
    for one in names:
        fact = session.facts.get(one, Unknown("it was not looked for"))
        if isinstance(fact, Known):
            info = info_of(one)
            found.append(f"{info.label} {wording.quantity(fact.value, info.unit)}")
        else:
            reasons.append(fact.reason)
    return Source(name, "; ".join(found), None if found else reasons[0])


def causes_of(session: Session, context: Context) -> tuple[Cause, ...]:
    """Every playbook that matched and that no condition of its wordings rules out, ranked by confidence."""
    found = []
    for name, group in matched(session.progress.sightings).items():
        possible = [one for one in group if _unknown_conditions(one, session) is not None]
        if possible:
            found.append(_cause(context.playbook(name), possible, session))
    return tuple(sorted(found, key=lambda cause: -cause.confidence))


def _unknown_conditions(one: Sighting, session: Session) -> int | None:
    """How many conditions of its wording are not known to hold; None: one is known not to."""
    captured = {name: Known(value, "parsed", one.evidence.file) for name, value in one.facts.items()}
    lookup = lookup_for(launch_named(session.deployment, session.model), {**session.facts, **captured})
    results = [evaluate(parse(text), lookup).holds for text in one.when]
    return None if False in results else results.count(None)


def _cause(playbook: Playbook, group: list[Sighting], session: Session) -> Cause:
    cause = Cause(
        id=playbook.playbook,
        title=playbook.title,
        summary=" ".join(playbook.summary.split()),
        family=playbook.family,
        kind=playbook.kind,
        layer=playbook.layer,
        stage=playbook.stage,
        confidence=_confidence(playbook, group, session),
        evidence=evidence_of(group),
    )
    return with_hypotheses(cause, playbook, session)


def with_hypotheses(cause: Cause, playbook: Playbook, session: Session) -> Cause:
    """The cause with its hypotheses judged by what is known now."""
    lookup = lookup_of(session, cause)
    return replace(cause, hypotheses=tuple(hypothesis_of(spec, lookup) for spec in playbook.hypotheses))


def _confidence(playbook: Playbook, group: list[Sighting], session: Session) -> float:
    root = session.progress.root
    certainty = max(_certainty(one, playbook, session) for one in group)
    if root is None or any(str(root.get("message", ""))[:200] in one.evidence.text for one in group):
        return _CLEAR * certainty
    return _CLEAR_BUT_NOT_ROOT * certainty


def _certainty(one: Sighting, playbook: Playbook, session: Session) -> float:
    version = session.facts.get("engine.vllm_version")
    ranges = [text for text in (playbook.applies_to.vllm, one.vllm) if text]
    if isinstance(version, Known) and not all(release_fits(str(version.value), text) for text in ranges):
        return _ANOTHER_RELEASE
    return worth(one.certainty, one.if_unknown, _unknown_conditions(one, session) or 0)
