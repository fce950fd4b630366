"""How a diagnosis reads: what failed, the likeliest causes with their proof, what to change, what would tell more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.diagnosis import ABOVE_THE_CUT
from playbooks.offers import offers_of
from tui.output import printable

if TYPE_CHECKING:
    from playbooks.diagnosis import Diagnosis, FoundCause
    from playbooks.offers import Offer
    from tui.output import Output

_MOST_CAUSES = 3
_LONGEST_EVIDENCE = 400
_SYMPTOMS = {
    "does-not-start": "does not start",
    "crashes-while-running": "crashes while running",
    "answers-are-wrong": "gives wrong answers",
}
_WHERE = {
    ABOVE_THE_CUT: "the log above its first line (it begins in the middle of a load: look for the first error)",
}
_VERDICTS = {"confirmed": "confirmed", "refuted": "refuted", "inconclusive": "open", "untested": "to be tested"}


def print_diagnosis(output: Output, diagnosis: Diagnosis) -> None:
    """Best cause first, in full; the next two in short."""
    output.folded(_headline(diagnosis), "")
    for note in diagnosis.notes:
        output.folded(f"note: {note}", "")
    for number, found in enumerate(diagnosis.causes[:_MOST_CAUSES]):
        output.text()
        _print_cause(output, found, in_full=number == 0)
    rest = len(diagnosis.causes) - _MOST_CAUSES
    if rest > 0:
        output.text(f"\nand {rest} less likely")
    if diagnosis.missing:
        output.text("\nWhat would tell more", "bold")
        for one in diagnosis.missing:
            output.folded(
                f"{_WHERE.get(one.evidence, one.evidence)}: decides about {', '.join(one.decides) or 'the cause'}"
            )


def _headline(diagnosis: Diagnosis) -> str:
    release = f"vLLM {diagnosis.version}" if diagnosis.version else "vLLM of unknown release"
    if diagnosis.outcome == "healthy" and not diagnosis.causes:
        return f"{release}: nothing is wrong in this log"
    if not diagnosis.causes:
        return _where_it_stops(diagnosis, release)
    model = next((one.model for one in diagnosis.causes if one.model), None)
    what = _SYMPTOMS.get(diagnosis.symptom or "", "does not go on" if diagnosis.outcome == "incomplete" else "failed")
    stage = diagnosis.causes[0].cause.stage if diagnosis.causes else None
    return f"{release}: {model or 'the model'} {what}" + (f", at {stage}" if stage else "")


def _where_it_stops(diagnosis: Diagnosis, release: str) -> str:
    """A log that neither fails nor serves, and no playbook knows a hang like it."""
    last = max(diagnosis.attempts, key=lambda one: one.last_line, default=None)
    if last is None or not any(one.format or one.chains for one in last.records):
        return "no line of this log is vLLM's or tells of an error: is it the right one?"
    words = printable(" ".join(last.records[-1].message.split()))[:120]
    stage = f" in stage {last.stage}" if last.stage else ""
    return f"{release}: the load neither failed nor served{stage}; this log ends at line {last.last_line}: {words}"


def _print_cause(output: Output, found: FoundCause, *, in_full: bool) -> None:
    cause = found.cause
    output.text(f"{cause.confidence:4.0%}  {cause.id}", "bold")
    kind = f"{cause.kind}, " if cause.kind else ""
    output.folded(
        f"{cause.title}  ({kind}{cause.layer or 'layer unknown'}, {cause.stage or 'stage unknown'})", "      "
    )
    for line in cause.evidence if in_full else cause.evidence[:1]:
        place = line.file if line.line is None else f"{line.file}:{line.line}"
        output.text(f"      {place}")
        output.text(f"      │ {printable(' '.join(line.text.split()))[:_LONGEST_EVIDENCE]}")
    if not in_full:
        return
    output.folded(cause.summary, "      ")
    if cause.hypotheses:
        output.text("\n      Hypotheses", "bold")
    for one in cause.hypotheses:
        output.folded(
            f"{_VERDICTS.get(one.verdict.value, one.verdict.value)}: {one.claim} {'; '.join(one.because)}", "      "
        )
    _print_fixes(output, offers_of(found))


def _print_fixes(output: Output, offers: tuple[Offer, ...]) -> None:
    if offers:
        output.text("\n      Fixes, one at a time", "bold")
    for offer in offers:
        output.folded(f"{offer.id}: {_change(offer)} (risk: {offer.risk})", "      ")
        if offer.unavailable:
            output.folded(f"not now: {offer.unavailable}", "        ")
            continue
        output.folded(offer.why, "        ")
        output.folded(f"price: {offer.you_lose}", "        ")


def _change(offer: Offer) -> str:
    if offer.by_hand:
        return offer.by_hand
    if offer.steps:
        return ", then ".join((f"{step.launch}: " if step.launch else "") + _pairs(step.set) for step in offer.steps)
    return _pairs(offer.set)


def _pairs(change: object) -> str:
    assert isinstance(change, dict)
    return ", ".join(f"{key} = {'?' if value is None else value}" for key, value in change.items())
