"""A diagnosis as the one JSON object that scripts rely on; keys may be added, none is ever taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.escapes import safe_deep
from engine_probe.facts import Known
from engine_probe.redact import MASKED, mask_deep, names_a_secret
from playbooks.facts import OF_ONE_FILE, info_of
from playbooks.offers import offers_of

if TYPE_CHECKING:
    from engine_probe.logs.attempts import Attempt
    from playbooks.diagnosis import Diagnosis, FoundCause
    from playbooks.offers import Offer

SCHEMA = 1


def as_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """null: not known. Whatever an argument or a log held, no secret and no control character is in it."""
    found: dict[str, Any] = mask_deep(safe_deep(_as_object(diagnosis)))
    return found


def _as_object(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "outcome": diagnosis.outcome,
        "vllm_version": diagnosis.version,
        "symptom": diagnosis.symptom,
        "causes": [_cause(one) for one in diagnosis.causes],
        "missing": [
            {"evidence": one.evidence, "decides": list(one.decides), "supplied_by": one.supplied_by}
            for one in diagnosis.missing
        ],
        "attempts": [_attempt(one) for one in diagnosis.attempts],
        "notes": list(diagnosis.notes),
        "facts": [
            _fact(name, fact)
            for name, fact in diagnosis.facts.items()
            if isinstance(fact, Known) and not name.startswith(OF_ONE_FILE)
        ],
    }


def _fact(name: str, fact: Known) -> dict[str, Any]:
    info = info_of(name)
    is_secret = name.startswith("launch.") and names_a_secret(name) and isinstance(fact.value, (str, tuple))
    value = MASKED if is_secret else fact.value
    return {
        "name": name,
        "label": info.label,
        "value": value,
        "unit": info.unit,
        "source": fact.source,
        "origin": fact.origin,
    }


def _cause(found: FoundCause) -> dict[str, Any]:
    cause = found.cause
    return {
        "id": cause.id,
        "family": cause.family or None,
        "kind": cause.kind or None,
        "layer": cause.layer,
        "stage": cause.stage,
        "confidence": cause.confidence,
        "title": cause.title,
        "summary": cause.summary,
        "model": found.model,
        "evidence": [{"file": one.file, "line": one.line, "text": one.text} for one in cause.evidence],
        "hypotheses": [
            {
                "id": one.id,
                "claim": one.claim,
                "verdict": one.verdict.value,
                "because": list(one.because),
                "cost": one.cost,
            }
            for one in cause.hypotheses
        ],
        "fixes": [_fix(one, found) for one in offers_of(found)],
    }


def _fix(offer: Offer, found: FoundCause) -> dict[str, Any]:
    shape: dict[str, Any] = {"id": offer.id, "launch": found.launch_name}
    if offer.steps:
        shape["steps"] = [{"launch": one.launch, "set": one.set, "expect": list(one.expect)} for one in offer.steps]
    else:
        shape["set"] = dict(offer.set)
    shape |= {"why": offer.why, "expect": list(offer.expect), "risk": offer.risk, "you_lose": offer.you_lose}
    if offer.commands:
        outside = {"diff": offer.diff, "commands": offer.commands, "way_back": offer.way_back}
        shape |= {key: list(lines) for key, lines in outside.items()}
    return shape | {"by_hand": offer.by_hand, "unavailable": offer.unavailable}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    stages = [{"stage": stage, "seconds": seconds} for stage, seconds in attempt.seconds().items()]
    return {
        "model": attempt.model,
        "pid": attempt.pid,
        "outcome": attempt.outcome,
        "stage": attempt.stage,
        "first_line": attempt.first_line,
        "last_line": attempt.last_line,
        "stages": stages,
    }
