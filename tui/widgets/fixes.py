"""Step 3 as text: changes of one variable each, with what each costs, and the difference before it is made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from playbooks.fix_values import shown_value
from playbooks.fix_words import risk_of
from playbooks.fixing import cause_of, takes_a_source
from playbooks.from_log import command_with
from tui.widgets.choice_list import Choice
from tui.widgets.clean_text import clean
from tui.widgets.step_pane import Body
from tui.widgets.words import cell, lines, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from playbooks.session import FixOption, Session
    from tui.themes.glyphs import Glyphs

_WIDE = 100
_LABEL = 11
_RISK = 16
_FOLDED_FROM = 2
_UNDONE = "undone"
"""One that is not possible takes no more rows than the line that stands for it."""


def find_fix(session: Session | None, marked: str | None) -> FixOption | None:
    return next((fix for fix in session.fixes if fix.id == marked), None) if session else None


def first_fix(session: Session, skipped: frozenset[str] = frozenset()) -> str | None:
    """The first that can be applied, was not tried and is not left out; else the first that can be tried; else any."""
    usable = [fix for fix in session.fixes if fix.unavailable is None and fix.outcome == "not tried"]
    wanted = [fix for fix in usable if fix.id not in skipped]
    chosen = (wanted or usable or list(session.fixes))[:1]
    return chosen[0].id if chosen else None


def value_to_apply(session: Session, fix: FixOption) -> str | None:
    """What the decision has to carry, so that what is shown is what is applied; None: `session` has just that value.

    After a value that failed, the case goes on with that one: the playbook's own has to be said again.
    """
    own = find_fix(session, fix.id)
    is_the_cases = own is not None and own.new_value == fix.new_value and fix.proposed is None
    return None if fix.steps or is_the_cases else fix.new_value


def diff_rows(diff: tuple[str, ...], width: int) -> list[Content]:
    """- and + lines coloured; the signs say the same without colour."""
    rows = []
    for line in diff:
        style = {"-": "$error", "+": "$success", "@": "$quiet"}.get(line[:1], "$quiet")
        rows.append(part(cell("  " + clean(line), width).rstrip(), style))
    return rows


def fixes_body(
    session: Session,
    marked: str | None,
    width: int,
    glyphs: Glyphs,
    skipped: frozenset[str] = frozenset(),
    *,
    shows_all: bool = True,
) -> Body:
    """`skipped`: what a person leaves out. What is not possible is folded into one line unless `shows_all`."""
    if not session.fixes:
        words = "No fix yet: fixes follow from a confirmed claim." if session.verdict is None else "No fix was found."
        return Body(above=part(words, "$quiet"))
    columns = _columns(session, width)
    choices = [Choice(None, (_heading(width, columns),))]
    folded = () if shows_all else folded_fixes(session, marked)
    whose = _causes_of_twins(session)
    for one in _in_order(session):
        if one not in folded:
            rows = _option_rows(one, width, columns, glyphs, is_skipped=one.id in skipped)
            rows += tuple(wrapped(whose[one.id], width - 4, 2, "$quiet", most=1)) if one.id in whose else ()
            choices.append(Choice(one.id, rows))
    if folded:
        words = "1 more is" if len(folded) == 1 else f"{len(folded)} more are"
        choices.append(Choice(None, (part(f"  {words} not possible here: a shows why", "$quiet"),)))
    fix = find_fix(session, marked)
    below = [part(""), *_why_not_here(session, width), *fix_detail(fix, width)] if fix else []
    below += _as_command(session, fix, width) if fix and session.no_loads else []
    return Body(above=lines(_undone_rows(session, width)), choices=tuple(choices), marked=marked, below=lines(below))


def _in_order(session: Session) -> list[FixOption]:
    """By priority; what is not possible comes last. What is left out keeps its place: the same key takes it in."""
    return sorted(session.fixes, key=lambda fix: fix.unavailable is not None)


def folded_fixes(session: Session, marked: str | None) -> tuple[FixOption, ...]:
    """What is not possible, where something else is: it stands between a person and what the marked fix does.

    What a person's value would make possible is none of them.
    """
    if all(fix.unavailable is not None for fix in session.fixes):
        return ()
    greyed = [fix for fix in session.fixes if fix.unavailable is not None and not takes_a_source(fix, session)]
    impossible = [fix for fix in greyed if fix.id != marked]
    return tuple(impossible) if len(impossible) >= _FOLDED_FROM else ()


def _causes_of_twins(session: Session) -> dict[str, str]:
    """Fixes that read the same, each with the cause that it is of."""
    counts = Counter(fix.title for fix in session.fixes)
    return {
        fix.id: f"for: {clean(cause.title)}"
        for fix in session.fixes
        if counts[fix.title] > 1 and (cause := cause_of(fix, session)) is not None
    }


def _why_not_here(session: Session, width: int) -> list[Content]:
    if session.no_loads is None:
        return []
    return [*wrapped(f"Nothing is applied here: {clean(session.no_loads)}.", width, style="$warning"), part("")]


def _as_command(session: Session, fix: FixOption, width: int) -> list[Content]:
    command = command_with(session, fix) if session.log_sources else None
    return [] if command is None else [part(""), *_labelled("start with", command, width, "$accent")]


def copied_of(session: Session, fix: FixOption) -> str | None:
    """What a person types to make this change by hand: commands, or the launch with it; None where it is ours to do."""
    if fix.by_hand:
        return fix.by_hand
    if fix.commands:
        return "\n".join(fix.commands)
    return command_with(session, fix) if session.no_loads and session.log_sources else None


def undone_notes(session: Session) -> tuple[str, ...]:
    """What was tried and is undone, and why, newest last. Empty while a fix is applied."""
    return () if session.applied_fix is not None else tuple(note for note in session.notes if _tells_of_before(note))


def has_undone(session: Session) -> bool:
    """A fix was tried here and is undone; not so in a case that was merely cut off and goes on."""
    return any(_UNDONE in note for note in undone_notes(session))


def _tells_of_before(note: str) -> bool:
    """A fix that was tried and is undone, or a case that was cut off and goes on."""
    return _UNDONE in note or "was cut off" in note


def _undone_rows(session: Session, width: int) -> list[Content]:
    """A person who finds the fixes again has to know what became of the last ones."""
    rows = [row for note in undone_notes(session)[-2:] for row in wrapped(clean(note), width, style="$warning", most=3)]
    return [*rows, part("")] if rows else []


def _columns(session: Session, width: int) -> tuple[int, int]:
    """Cells for what it expects, whole, and for risk or outcome. The price takes a sentence: it stands below."""
    possible = [fix for fix in session.fixes if fix.unavailable is None] or list(session.fixes)
    longest = max((len(fix.promises[0]) for fix in possible if fix.promises), default=0) + 2
    return (longest, _RISK) if width >= _WIDE and longest <= width * 4 // 10 else (0, _RISK)


def _heading(width: int, columns: tuple[int, int]) -> Content:
    expect, risk = columns
    return part(cell("Fixes, one change each", width - expect - risk), "bold") + part(
        cell("expects", expect) + cell("risk", risk), "$quiet"
    )


def _option_rows(
    fix: FixOption, width: int, columns: tuple[int, int], glyphs: Glyphs, *, is_skipped: bool
) -> tuple[Content, ...]:
    expect, risk = columns
    title_width = width - 2 - expect - risk
    style = "$quiet" if fix.unavailable or is_skipped else ""
    first, *more = [line.plain for line in wrapped(clean(fix.title), title_width - 4, most=2)]
    row = part(cell(first, title_width - 2) + "  ", style)
    if expect:
        promise = fix.promises[0] if fix.promises and not fix.unavailable else ""
        row += part(cell(promise, expect - 2) + "  ", style)
    outcome = {"verified": f"{glyphs.done} verified", "did not hold": f"{glyphs.failed} did not hold"}.get(fix.outcome)
    if outcome:
        row += part(cell(outcome, risk), "$success" if fix.outcome == "verified" else "$error")
    elif fix.unavailable:
        row += part(cell(f"{glyphs.rest} not possible", risk), "$warning")
    elif is_skipped:
        row += part(cell(f"{glyphs.rest} skipped", risk), "$quiet")
    else:
        row += part(cell(fix.risk if fix.proposed is None else "not judged", risk).rstrip(), "$quiet")
    folded = [part("  " + line, style) for line in more]
    if fix.unavailable and width >= _WIDE:  # one line: all of it stands below once it is marked
        folded += wrapped(clean(fix.unavailable), width - 4, 2, "$warning", most=1)
    return (row, *folded)


def fix_detail(fix: FixOption, width: int) -> list[Content]:
    """The difference and what stands behind it; also what the question before applying shows."""
    rows = _step_rows(fix, width) or diff_rows(fix.diff, width)
    rows += [part("")] if rows else []
    if fix.unavailable:
        rows += _labelled("impossible", fix.unavailable, width, "$warning")
    if fix.by_hand:
        rows += _labelled("by hand", f"{fix.by_hand}   (y copies it)", width, "$warning")
    rows += _outside_rows(fix, width)
    if fix.proposed is not None:
        # Why and price were worked out for the proposal; they are not claimed for another value.
        rows += _labelled(
            "your value", f"{shown_value(fix, fix.new_value)} instead of {shown_value(fix, fix.proposed)}", width
        )
    rows += _labelled("why" if fix.proposed is None else "why that", fix.why, width)
    for number, expected in enumerate(fix.promises):
        rows += _labelled("expects" if not number else "", expected, width)
    lose = fix.you_lose or "nothing"
    unknown = f"not worked out for this value; with {shown_value(fix, fix.proposed or '')}: {lose}"
    rows += _labelled("you lose", lose if fix.proposed is None else unknown, width)
    rows += _labelled("risk", risk_of(fix), width)
    return rows


def _outside_rows(fix: FixOption, width: int) -> list[Content]:
    """What is done outside the deployment's file, exactly, and how it is taken back."""
    rows: list[Content] = []
    for label, words in (("does", fix.commands), ("way back", fix.way_back)):
        for number, command in enumerate(words):
            rows += _labelled(label if not number else "", command, width, "$accent" if label == "does" else "$quiet")
    return rows


def _step_rows(fix: FixOption, width: int) -> list[Content]:
    """Each step with its difference and what it must show before the next."""
    rows: list[Content] = []
    for number, step in enumerate(fix.steps, 1):
        head = f"{number} of {len(fix.steps)}"
        rows += _labelled(head, step.title, width)
        rows += [row for row in diff_rows(step.diff, width) if row.plain.strip()]
        rows += [row for command in step.commands for row in _labelled("does", command, width, "$accent")]
        rows += _labelled("then" if number < len(fix.steps) else "", _shown_by(fix, number), width, "$quiet")
    return rows


def _shown_by(fix: FixOption, number: int) -> str:
    step = fix.steps[number - 1]
    if number == len(fix.steps):
        return ""
    return "; ".join(step.promises) if step.promises else "the next step, without a load between them"


def _labelled(label: str, text: str, width: int, style: str = "") -> list[Content]:
    if not text:
        return []
    folded = wrapped(clean(text), width, _LABEL + 2, style)
    first = folded[0].plain[_LABEL + 2 :]
    return [part("  " + cell(label, _LABEL), "$quiet") + part(first, style), *folded[1:]]
