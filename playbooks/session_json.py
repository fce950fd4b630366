"""Parts of a session as JSON objects: what `replay --json` and `cases show --json` print of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playbooks.session import Cause, Check, Evidence, FixOption, Hypothesis, Symptom

    Object = dict[str, Any]


def symptom_object(symptom: Symptom) -> Object:
    return {
        "kind": symptom.kind,
        "model": symptom.model,
        "stage": symptom.stage,
        "layer": symptom.layer,
        "headline": symptom.headline,
        "codes": list(symptom.codes),
        "evidence": [_evidence(one) for one in symptom.evidence],
        "sources": [{"name": one.name, "found": one.found, "missing": one.missing} for one in symptom.sources],
    }


def cause_object(cause: Cause) -> Object:
    return {
        "id": cause.id,
        "title": cause.title,
        "confidence": cause.confidence,
        "family": cause.family,
        "kind": cause.kind,
        "layer": cause.layer,
        "stage": cause.stage,
        "evidence": [_evidence(one) for one in cause.evidence],
        "hypotheses": [hypothesis_object(one) for one in cause.hypotheses],
    }


def hypothesis_object(one: Hypothesis) -> Object:
    return {
        "id": one.id,
        "claim": one.claim,
        "experiment": one.experiment,
        "cost": one.cost,
        "verdict": one.verdict.value,
        "because": list(one.because),
    }


def fix_object(fix: FixOption) -> Object:
    return {
        "id": fix.id,
        "launch": fix.launch,
        "key": fix.key,
        "old_value": fix.old_value,
        "new_value": fix.new_value,
        "title": fix.title,
        "diff": list(fix.diff),
        "steps": [
            {"launch": one.launch, "key": one.key, "old_value": one.old_value, "new_value": one.new_value}
            for one in fix.steps
        ],
        "commands": list(fix.commands),
        "way_back": list(fix.way_back),
        "expect": list(fix.expect),
        "you_lose": fix.you_lose,
        "risk": fix.risk if fix.proposed is None else None,
    }


def check_object(check: Check) -> Object:
    return {
        "id": check.id,
        "expected": check.expected,
        "measured": check.measured,
        "outcome": check.outcome.value,
        "reason": check.reason,
        "conditions": list(check.conditions),
    }


def _evidence(one: Evidence) -> Object:
    return {"file": one.file, "line": one.line, "text": one.text}
