"""Step 2 as text: ranked causes, the claims that could be false, and what the experiments said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.report import in_words
from playbooks.session import Verdict
from tui.themes.palette import layer_style
from tui.widgets.choice_list import Choice
from tui.widgets.clean_text import clean
from tui.widgets.step_pane import Body
from tui.widgets.symptom import evidence_rows, place_of
from tui.widgets.words import apart, cell, cut, lines, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from playbooks.session import Cause, Hypothesis, Session
    from tui.themes.glyphs import Glyphs

VERDICT_STYLES = {
    Verdict.UNTESTED: "$quiet",
    Verdict.RUNNING: "$accent bold",
    Verdict.CONFIRMED: "$success bold",
    Verdict.REFUTED: "$quiet",
    Verdict.INCONCLUSIVE: "$warning",
}
_WIDE = 100


def choice_id(cause: Cause, hypothesis: Hypothesis) -> str:
    return f"{cause.id}/{hypothesis.id}"


def find_hypothesis(session: Session | None, marked: str | None) -> tuple[Cause, Hypothesis] | None:
    for cause in session.causes if session else ():
        for hypothesis in cause.hypotheses:
            if choice_id(cause, hypothesis) == marked:
                return cause, hypothesis
    return None


def first_hypothesis(session: Session) -> str | None:
    """The likeliest claim that a person may want to look at: one confirmed, else the first."""
    pairs = [(cause, hypothesis) for cause in session.causes for hypothesis in cause.hypotheses]
    pairs.sort(key=lambda pair: pair[1].verdict is not Verdict.CONFIRMED)
    return choice_id(*pairs[0]) if pairs else None


def hypotheses_body(session: Session, marked: str | None, width: int, glyphs: Glyphs) -> Body:
    if not session.causes:
        return Body(above=lines(_no_cause(session, width)))
    found = find_hypothesis(session, marked)
    columns = _columns(session, width)
    choices = [Choice(None, (_heading(session, width, columns),))]
    for cause in session.causes:
        choices.append(Choice(None, _cause_rows(cause, width)))
        choices += [Choice(choice_id(cause, h), _claim_rows(h, width, columns, glyphs)) for h in cause.hypotheses]
    cause = found[0] if found else session.causes[0]
    below = [part(""), *(_claim_detail(found[1], width) if found else ())]
    below += [_where(cause)] if width < _WIDE else []
    below += evidence_rows(cause.evidence, width)
    below += wrapped(cause.summary, width, style="$quiet")
    return Body(choices=tuple(choices), marked=marked, below=lines(below))


_Columns = tuple[int, int, int]


def _columns(session: Session, width: int) -> _Columns:
    """Cells for experiment, cost and verdict; the claim takes the rest.

    Where not all of them fit whole, the experiment stands below, for the marked claim only.
    """
    every = [one for cause in session.causes for one in cause.hypotheses]
    claim, experiment, cost = (
        max([0, *(len(text) for text in texts)]) + 2
        for texts in ([h.claim for h in every], [h.experiment for h in every], [h.cost for h in every])
    )
    return (experiment, cost, 15) if 2 + claim + experiment + cost + 15 <= width else (0, 0, 15)


def _claim_width(width: int, columns: _Columns) -> int:
    return width - 4 - sum(columns)


def _heading(session: Session, width: int, columns: _Columns) -> Content:
    experiment, cost, verdict = columns
    model = session.symptom.model if session.symptom is not None else session.model
    title = f"Likeliest causes for {model}, with confidence"
    head = part(cell(title, width - experiment - cost - verdict), "bold")
    return head + part(cell("experiment", experiment) + cell("cost", cost) + cell("verdict", verdict), "$quiet")


def _cause_rows(cause: Cause, width: int) -> tuple[Content, ...]:
    """The title with where it is at fault, and its first evidence line: the two things that convince."""
    share = f"{cause.confidence * 100:3.0f} %  "
    title = part(share, "$accent bold") + part(cut(cause.title, width - len(share)), "bold")
    where = _where(cause)
    if title.cell_length + where.cell_length + 3 <= width:
        title = apart(title, where, width)
    return (title, _evidence_row(cause, width))


def _where(cause: Cause) -> Content:
    layer = f"{in_words(cause.layer)} layer" if cause.layer else "layer unknown"
    return part(f"{cause.kind} · {in_words(cause.stage)} · ", "$quiet") + part(layer, layer_style(cause.layer))


def _evidence_row(cause: Cause, width: int) -> Content:
    if not cause.evidence:
        return part("       no evidence line", "$quiet")
    first = cause.evidence[0]
    place = place_of(first)
    return part(f"       {place}  ", "$quiet") + part(cut(clean(first.text), max(width - 9 - len(place), 8)))


def _claim_rows(hypothesis: Hypothesis, width: int, columns: _Columns, glyphs: Glyphs) -> tuple[Content, ...]:
    experiment, cost, verdict = columns
    style = "$quiet" if hypothesis.verdict is Verdict.REFUTED else ""
    space = _claim_width(width, columns)
    first, *more = [line.plain for line in wrapped(hypothesis.claim, space, most=2)]
    row = part(cell(first, space) + "  ", style)
    if experiment:
        row += part(cell(hypothesis.experiment, experiment) + cell(hypothesis.cost, cost), "$quiet")
    mark = {
        Verdict.CONFIRMED: glyphs.done,
        Verdict.REFUTED: glyphs.failed,
        Verdict.RUNNING: glyphs.running,
        Verdict.INCONCLUSIVE: glyphs.unknown,
    }.get(hypothesis.verdict, glyphs.rest)
    words = f"{mark} {hypothesis.verdict.value}"
    row += part(cell(words, verdict - 1), VERDICT_STYLES[hypothesis.verdict])
    return (row, *(part(line, style) for line in more))


def _claim_detail(hypothesis: Hypothesis, width: int) -> list[Content]:
    """What speaks for the verdict, then how that was found out."""
    rows: list[Content] = []
    style = VERDICT_STYLES[hypothesis.verdict]
    if hypothesis.because:
        rows.append(part(f"  {hypothesis.verdict.value}, because", style))
        for reason in hypothesis.because:
            rows += wrapped(clean(reason), width, 4)
    rows += wrapped(f"experiment: {hypothesis.experiment} ({hypothesis.cost})", width, 2, "$quiet")
    return [*rows, part("")]


def _no_cause(session: Session, width: int) -> list[Content]:
    if session.verdict == "unexplained":
        return [
            part("No playbook explains this failure.", "$warning bold"),
            *wrapped("The root exception, its stage and its layer stand under Symptom. No cause is guessed.", width),
            part(""),
            *evidence_rows(session.symptom.evidence if session.symptom else (), width),
        ]
    return [part("No causes yet: they are named when the load has failed.", "$quiet")]
