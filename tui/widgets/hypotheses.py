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
from tui.widgets.words import apart, cell, cut, lines, part, seconds, wrapped

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
_MOST_CAUSES, _MOST_CLAIMS, _LEAST_CLAIMS = 3, 3, 2


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


def hypotheses_body(
    session: Session,
    marked: str | None,
    width: int,
    glyphs: Glyphs,
    running_seconds: float = 0.0,
    *,
    shows_all: bool = False,
    folds: bool = True,
) -> Body:
    """The likeliest in front, the rest in one line unless `shows_all`; where the mark stands is always shown.

    `folds` false: all is shown, and nothing is said about it.
    """
    if not session.causes:
        return Body(above=lines(_no_cause(session, width)))
    found = find_hypothesis(session, marked)
    columns = _columns(session, width)
    choices = [Choice(None, (_heading(session, width, columns),))]
    shows_all = shows_all or not folds
    for cause in session.causes if shows_all else _in_front(session, found):
        choices.append(Choice(None, _cause_rows(cause, width)))
        claims = cause.hypotheses if shows_all else _claims_in_front(cause, found)
        choices += [
            Choice(choice_id(cause, h), _claim_rows(h, width, columns, glyphs, running_seconds)) for h in claims
        ]
    folded = _folded_words(session, found)
    if folded and folds:
        words = "a shows the likeliest alone" if shows_all else f"{folded}: a shows them"
        choices.append(Choice(None, (part(f"  {words}", "$quiet"),)))
    cause = found[0] if found else session.causes[0]
    below = [part(""), *(_claim_detail(found[1], width, running_seconds) if found else ())]
    if session.no_loads:
        below += wrapped(clean(f"no experiment can be run here: {session.no_loads}"), width, 2, "$warning")
    below += [_where(cause)] if width < _WIDE else []
    below += evidence_rows(cause.evidence, width)
    below += wrapped(cause.summary, width, style="$quiet")
    return Body(choices=tuple(choices), marked=marked, below=lines(below))


def _in_front(session: Session, found: tuple[Cause, Hypothesis] | None) -> list[Cause]:
    """Two, a third where it is not far behind; and the one that the mark stands in."""
    first = session.causes[0].confidence
    front = [
        cause
        for number, cause in enumerate(session.causes[:_MOST_CAUSES])
        if number < _MOST_CAUSES - 1 or cause.confidence >= first / 3
    ]
    return front if found is None or found[0] in front else [*front, found[0]]


def _claims_in_front(cause: Cause, found: tuple[Cause, Hypothesis] | None) -> list[Hypothesis]:
    """What is confirmed or open before what is refuted, in the playbook's order."""
    alive = [one for one in cause.hypotheses if one.verdict is not Verdict.REFUTED]
    chosen = sorted(alive, key=lambda one: one.verdict is not Verdict.CONFIRMED)[:_MOST_CLAIMS]
    if len(chosen) < _LEAST_CLAIMS:
        refuted = [one for one in cause.hypotheses if one.verdict is Verdict.REFUTED]
        chosen += refuted[: _LEAST_CLAIMS - len(chosen)]
    if found is not None and found[0] is cause and found[1] not in chosen:
        chosen.append(found[1])
    return [one for one in cause.hypotheses if one in chosen]


def _folded_words(session: Session, found: tuple[Cause, Hypothesis] | None) -> str:
    """`2 less likely causes and 3 claims`; empty where nothing is folded away."""
    front = _in_front(session, found)
    causes = len(session.causes) - len(front)
    claims = sum(len(cause.hypotheses) - len(_claims_in_front(cause, found)) for cause in front)
    words = [f"{causes} less likely cause{'s' if causes > 1 else ''}"] if causes else []
    words += [f"{claims} more claim{'s' if claims > 1 else ''}"] if claims else []
    return " and ".join(words)


def has_folded(session: Session, marked: str | None) -> bool:
    """Whether there is more than what is shown in front."""
    return bool(session.causes) and bool(_folded_words(session, find_hypothesis(session, marked)))


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
    space = width - experiment - cost - verdict - 2
    title = f"Likeliest causes for {clean(model)}"
    title += ", with confidence" if len(title) + 17 <= space else ""
    head = part(cell(title, space) + "  ", "bold")
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


def _claim_rows(
    hypothesis: Hypothesis, width: int, columns: _Columns, glyphs: Glyphs, running_seconds: float
) -> tuple[Content, ...]:
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
    if hypothesis.verdict is Verdict.RUNNING and running_seconds >= 1:
        words += f" {seconds(running_seconds)}"
    row += part(cell(words, verdict - 1), VERDICT_STYLES[hypothesis.verdict])
    return (row, *(part(line, style) for line in more))


def _claim_detail(hypothesis: Hypothesis, width: int, running_seconds: float) -> list[Content]:
    """What speaks for the verdict, then how that was found out."""
    rows: list[Content] = []
    style = VERDICT_STYLES[hypothesis.verdict]
    if hypothesis.because:
        rows.append(part(f"  {hypothesis.verdict.value}, because", style))
        for reason in hypothesis.because:
            rows += wrapped(clean(reason), width, 4)
    cost = f"cost: {hypothesis.cost}" if hypothesis.verdict is not Verdict.RUNNING else "running"
    if hypothesis.verdict is Verdict.RUNNING and running_seconds >= 1:
        cost += f" for {seconds(running_seconds)}, x stops it"
    rows += wrapped(f"experiment: {hypothesis.experiment} ({cost})", width, 2, "$quiet")
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
