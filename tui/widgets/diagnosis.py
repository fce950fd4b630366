"""A diagnosis as rows: what is wrong, ranked causes with the lines that prove them, fixes, and what would tell more.

A line that proves something can be marked; the cause that it belongs to is shown in full, the others in short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from playbooks.report import in_words
from playbooks.session import Verdict
from tui.diagnosis_words import VERDICTS, change_of, headline, where_it_stops, would_tell
from tui.themes.palette import layer_style
from tui.widgets.choice_list import Choice
from tui.widgets.clean_text import clean
from tui.widgets.hypotheses import VERDICT_STYLES
from tui.widgets.step_pane import Body
from tui.widgets.words import cell, lines, part, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual.content import Content

    from playbooks.claims import Cause, Evidence
    from playbooks.diagnosis import FoundCause
    from playbooks.offers import Offer
    from tui.log_diagnosis import DiagnosedCause, DiagnosedLog
    from tui.themes.glyphs import Glyphs

_MOST_LINES = 3
_ORDER = (Verdict.CONFIRMED, Verdict.INCONCLUSIVE, Verdict.RUNNING, Verdict.UNTESTED, Verdict.REFUTED)
_LABEL = 10
_INDENT = 7


class Proof(NamedTuple):
    """A line that proves a cause: `source` is the number of its log, `line` counts from 1."""

    source: int
    line: int


def proofs(logs: Sequence[DiagnosedLog]) -> dict[str, Proof]:
    """By the ids of the rows that can be marked, in their order."""
    return {
        _id_of(log, number, at): Proof(log.source, evidence.line)
        for log in logs
        for number, one in enumerate(log.causes)
        for at, evidence in enumerate(one.found.cause.evidence)
        if evidence.line is not None
    }


def likeliest(logs: Sequence[DiagnosedLog]) -> tuple[Proof, ...]:
    """Of each log the first line of its likeliest cause."""
    evidence = ((log.source, one) for log in logs for cause in log.causes[:1] for one in cause.found.cause.evidence[:1])
    return tuple(Proof(source, one.line) for source, one in evidence if one.line is not None)


def _id_of(log: DiagnosedLog, cause: int, evidence: int) -> str:
    return f"{log.source}/{cause}/{evidence}"


def diagnosis_body(logs: Sequence[DiagnosedLog], marked: str | None, width: int, glyphs: Glyphs) -> Body:
    """`marked`: the id of a line; the first one where nothing is marked."""
    marked = marked or next(iter(proofs(logs)), None)
    choices: list[Choice] = []
    for log in logs:
        choices += _log_rows(log, marked, width, glyphs, is_one_of_several=len(logs) > 1)
    if any(choice.id is not None for choice in choices):
        return Body(choices=tuple(choices), marked=marked)
    return Body(above=lines([row for choice in choices for row in choice.rows]))  # scrolled, not marked


def _log_rows(
    log: DiagnosedLog, marked: str | None, width: int, glyphs: Glyphs, *, is_one_of_several: bool
) -> Iterator[Choice]:
    rows = [part(clean(log.name), "$accent bold")] if is_one_of_several else []
    if log.diagnosis is None:
        yield Choice(None, (*rows, *wrapped(clean(log.trouble), width, style="$error"), part("")))
        return
    rows += wrapped(clean(headline(log.diagnosis)), width, style=_style_of(log))
    if log.diagnosis.outcome == "incomplete" and log.causes:
        rows += wrapped(clean(where_it_stops(log.diagnosis)), width, style="$quiet")
    rows += [row for note in log.diagnosis.notes for row in wrapped(f"note: {clean(note)}", width, style="$warning")]
    yield Choice(None, (*rows, part("")))
    in_full = _cause_of(marked, log)
    for number in range(len(log.causes)):
        yield from _cause_rows(log, number, width, glyphs, in_full=number == in_full)
    if log.diagnosis.missing:
        told = [row for one in log.diagnosis.missing for row in wrapped(clean(would_tell(one)), width, 2)]
        yield Choice(None, (part("What would tell more", "bold"), *told, part("")))


def _style_of(log: DiagnosedLog) -> str:
    return "bold" if log.causes or log.diagnosis is None or log.diagnosis.outcome != "healthy" else "$success bold"


def _cause_of(marked: str | None, log: DiagnosedLog) -> int:
    """The number of the cause whose line is marked; of other logs the first."""
    source, _, rest = (marked or "").partition("/")
    return int(rest.partition("/")[0]) if source == str(log.source) and rest else 0


def _cause_rows(log: DiagnosedLog, number: int, width: int, glyphs: Glyphs, *, in_full: bool) -> Iterator[Choice]:
    one = log.causes[number]
    cause = one.found.cause
    yield Choice(None, tuple(_heading(one.found, width)))
    for at, evidence in enumerate(cause.evidence):
        rows = _evidence_rows(evidence, width - 2, _MOST_LINES if in_full else 1)
        yield Choice(_id_of(log, number, at) if evidence.line is not None else None, tuple(rows))
    below = _detail(one, width, glyphs) if in_full else []
    yield Choice(None, (*below, part("")))


def _heading(found: FoundCause, width: int) -> Iterator[Content]:
    cause = found.cause
    first, *more = wrapped(clean(cause.title), width - 7)
    yield part(f"{cause.confidence:>5.0%}  ", "$accent bold") + part(first.plain, "bold")
    yield from (part(" " * 7) + part(row.plain, "bold") for row in more)
    about = [cause.id, cause.kind, f"{in_words(cause.layer)} layer", in_words(cause.stage)]
    words = wrapped(clean(", ".join(word for word in about if word)), width, 7, layer_style(cause.layer))
    yield from words


def _evidence_rows(evidence: Evidence, width: int, most: int) -> list[Content]:
    """Each log has a heading of its own, so its name is not repeated."""
    place = "no line" if evidence.line is None else f"line {evidence.line:,}"
    head = " " * (_INDENT - 2) + place + "  "
    first, *more = wrapped(clean(" ".join(evidence.text.split())), width, len(head), most=most)
    return [part(head, "$quiet") + part(first.plain.strip()), *more]


def _detail(one: DiagnosedCause, width: int, glyphs: Glyphs) -> list[Content]:
    """What to do about it comes before why it is believed."""
    cause = one.found.cause
    rows = [part(""), *wrapped(clean(cause.summary), width, _INDENT, "$quiet")] if one.found.playbook else []
    if one.offers:
        rows += [part(""), part(" " * _INDENT + "Fixes, one at a time", "bold")]
    possible_first = sorted(one.offers, key=lambda offer: offer.unavailable is not None)
    for number, offer in enumerate(possible_first, 1):
        rows += _offer_rows(offer, glyphs.rest if offer.unavailable else str(number), width)
    return rows + _hypotheses(cause, width)


def _hypotheses(cause: Cause, width: int) -> list[Content]:
    rows: list[Content] = []
    for one in sorted(cause.hypotheses, key=lambda one: _ORDER.index(one.verdict)):
        verdict = VERDICTS.get(one.verdict.value, one.verdict.value)
        because = f" ({'; '.join(one.because)})" if one.because else ""
        folded = wrapped(clean(one.claim + because), width, _INDENT + 14)
        first = folded[0].plain.strip()
        rows.append(part(" " * _INDENT + cell(verdict, 14), VERDICT_STYLES[one.verdict]) + part(first))
        rows += folded[1:]
    return [part(""), part(" " * _INDENT + "Hypotheses", "bold"), *rows] if rows else []


def _offer_rows(offer: Offer, sign: str, width: int) -> list[Content]:
    style = "$quiet" if offer.unavailable else ""
    first, *more = wrapped(clean(change_of(offer)), width, _INDENT + 3, style)
    head = part(" " * _INDENT + cell(sign, 3), "$warning" if offer.unavailable else "$accent")
    rows = [head + part(first.plain.strip(), style), *more]
    rows += _labelled("id", offer.id, width)
    if offer.unavailable:
        return rows + _labelled("not now", offer.unavailable, width, "$warning")
    rows += _labelled("why", offer.why, width)
    return rows + _labelled("you lose", f"{offer.you_lose or 'nothing'} (risk: {offer.risk})", width)


def _labelled(label: str, text: str, width: int, style: str = "$quiet") -> list[Content]:
    indent = _INDENT + 3
    folded = wrapped(clean(text), width, indent + _LABEL, style)
    return [part(" " * indent + cell(label, _LABEL), "$quiet") + part(folded[0].plain.strip(), style), *folded[1:]]
