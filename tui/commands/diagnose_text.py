"""How a diagnosis reads: what failed, the likeliest causes with their proof, what to change, what would tell more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.exceptions import cut_between_words
from playbooks.offers import offers_of
from tui.diagnosis_words import change_of, headline, judged, would_tell
from tui.output import printable

if TYPE_CHECKING:
    from playbooks.diagnosis import Diagnosis, FoundCause
    from playbooks.offers import Offer
    from tui.output import Output

_MOST_CAUSES = 3
_LONGEST_EVIDENCE = 400


def print_diagnosis(output: Output, diagnosis: Diagnosis) -> None:
    """Best cause first, in full; the next two in short."""
    output.folded(headline(diagnosis), "")
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
            output.folded(would_tell(one))


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
        output.text(f"      │ {cut_between_words(printable(' '.join(line.text.split())), _LONGEST_EVIDENCE)}")
    if not in_full:
        return
    output.folded(cause.summary, "      ", is_own=found.playbook is not None)
    if cause.hypotheses:
        output.text("\n      Hypotheses", "bold")
    for one in cause.hypotheses:
        output.folded(judged(one), "      ")
    _print_fixes(output, offers_of(found))


def _print_fixes(output: Output, offers: tuple[Offer, ...]) -> None:
    if offers:
        output.text("\n      Fixes, one at a time", "bold")
    for offer in offers:
        if offer.unavailable:
            output.folded(f"{offer.id}: not now: {offer.unavailable}", "      ", is_own=True)
            continue
        output.folded(f"{offer.id}: {change_of(offer)} (risk: {offer.risk})", "      ", is_own=True)
        output.folded(offer.why, "        ", is_own=True)
        for line in (*offer.diff, *(f"does: {one}" for one in offer.commands)):
            output.folded(line, "        ")
        for line in offer.way_back:
            output.folded(f"way back: {line}", "        ")
        output.folded(f"price: {offer.you_lose}", "        ", is_own=True)
