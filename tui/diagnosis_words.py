"""A diagnosis in words, for the terminal and for the screen: what failed, where the log stops, what would tell more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks import wording
from playbooks.diagnosis import ABOVE_THE_CUT
from playbooks.looks_like import looks_like

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playbooks.claims import Hypothesis
    from playbooks.diagnosis import Diagnosis
    from playbooks.missing import Missing
    from playbooks.offers import Offer
    from playbooks.schema import Scalar

_SYMPTOMS = {
    "does-not-start": "does not start",
    "crashes-while-running": "crashes while running",
    "answers-are-wrong": "gives wrong answers",
}
_WHERE = {
    ABOVE_THE_CUT: "the log above its first line (it begins in the middle of a load: look for the first error)",
}
VERDICTS = {"confirmed": "confirmed", "refuted": "refuted", "inconclusive": "open", "untested": "to be tested"}


def headline(diagnosis: Diagnosis) -> str:
    """One line: the release, the model and what is wrong with it; or that nothing is, or where the log stops."""
    release = f"vLLM {diagnosis.version}" if diagnosis.version else "vLLM of unknown release"
    if diagnosis.outcome == "healthy" and not diagnosis.causes:
        return f"{release}: nothing is wrong in this log"
    if not diagnosis.causes:
        stop = where_it_stops(diagnosis)
        return f"{release}: {stop}" if stop.startswith("the load") else stop
    model = next((one.model for one in diagnosis.causes if one.model), None)
    what = _SYMPTOMS.get(diagnosis.symptom or "", "failed")
    if diagnosis.outcome == "incomplete" and diagnosis.symptom != "crashes-while-running":
        what = "has not come up"  # it may do so yet
    stage = diagnosis.causes[0].cause.stage if diagnosis.causes else None
    return f"{release}: {model or 'the model'} {what}" + (f", at {stage}" if stage else "")


def where_it_stops(diagnosis: Diagnosis) -> str:
    """Of a log that neither fails nor serves: it may be cut, or the load hangs there."""
    last = max(diagnosis.attempts, key=lambda one: one.last_line, default=None)
    if last is None or not any(one.format or one.chains for one in last.records):
        kind = looks_like(diagnosis.attempts)
        looks = f" It looks like {kind}." if kind else ""
        return f"no line of this log is vLLM's or tells of an error: is it the right one?{looks}"
    words = " ".join(last.records[-1].message.split())[:120]
    stage = f" in stage {last.stage}" if last.stage else ""
    return f"the load neither failed nor served{stage}; this log ends at line {last.last_line}: {words}"


def would_tell(missing: Missing) -> str:
    """`config.json (--model-dir DIR …): decides about A, B`."""
    decides = ", ".join(missing.decides) or "the cause"
    by = f" ({missing.supplied_by})" if missing.supplied_by else ""
    return f"{_WHERE.get(missing.evidence, missing.evidence)}{by}: decides about {decides}"


def judged(claim: Hypothesis) -> str:
    """A verdict and by which values, before the claim: `refuted (weights 5 GiB ≥ 4 GiB): They fit.`"""
    verdict = VERDICTS.get(claim.verdict.value, claim.verdict.value)
    because = "; ".join(claim.because)
    if not because:
        return f"{verdict}: {claim.claim}"
    if claim.verdict.value in ("confirmed", "refuted"):
        return f"{verdict} ({because}): {claim.claim}"
    return f"{verdict}: {claim.claim} ({because})"


def change_of(offer: Offer) -> str:
    """`args.max-model-len = 1408`, its steps, or what to do by hand."""
    if offer.by_hand:
        return offer.by_hand
    if offer.steps:
        return ", then ".join((f"{step.launch}: " if step.launch else "") + _pairs(step.set) for step in offer.steps)
    return _pairs(offer.set)


def _pairs(change: Mapping[str, Scalar | None]) -> str:
    return ", ".join(wording.change(key, value) for key, value in change.items())
