"""Step 4 as text: what was promised beside what was measured, and the result in one line."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from playbooks.proof import verdict_words
from playbooks.session import Outcome
from playbooks.way_back import is_changed
from tui.widgets.clean_text import clean
from tui.widgets.step_pane import Body
from tui.widgets.symptom import note_rows
from tui.widgets.words import cell, lines, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from playbooks.session import Check, Session
    from tui.themes.glyphs import Glyphs

_WIDE = 100
OUTCOME_STYLES = {
    Outcome.PENDING: "$quiet",
    Outcome.RUNNING: "$accent bold",
    Outcome.PASS: "$success",
    Outcome.FAIL: "$error bold",
    Outcome.ABSTAIN: "$warning",
}


RESULTS: dict[str | None, tuple[str, str]] = {
    "verified": ("Verified: the model loads and keeps what the fix promised.", "$success bold"),
    "not verified": ("Not verified: the fix did not keep what it promised.", "$error bold"),
    "unexplained": ("Unexplained: no playbook matches this failure.", "$warning bold"),
    "healthy": ("Healthy: the model loads and answers as it is. Nothing to mend.", "$success bold"),
    "cannot run": ("The engine cannot be run on this host.", "$error bold"),
    "stopped": ("Stopped before the case was decided.", "$warning bold"),
}


def result_words(session: Session) -> tuple[str, str]:
    """The verdict as a sentence, and its style; empty while there is none."""
    words, style = RESULTS.get(session.verdict, ("", ""))
    more = verdict_words(session).partition("; ")[2] if words else ""
    return (f"{words[:-1]}; {more}." if more else words), style


def checks_body(session: Session, width: int, glyphs: Glyphs) -> Body:
    rows: list[Content] = []
    if session.report_path:
        first, *more = wrapped(clean(session.report_path), width, 9)
        rows += [part("report   ", "$quiet") + part(first.plain.strip()), *more]
    applied = next((fix for fix in session.fixes if fix.id == session.applied_fix), None)
    if applied:
        first, *more = wrapped(clean(applied.title), width, 9, most=2)
        rows += [part("applied  ", "$quiet") + part(first.plain.strip()), *more]
        rows += [row for words in is_changed(session)[:1] for row in wrapped(clean(words), width, 9, "$quiet")]
    rows += [part("")] if rows else []
    rows += _table(session.checks, width, glyphs) if session.checks else [part("Nothing to verify yet.", "$quiet")]
    rows += [part(""), *note_rows(session, width)] if session.notes else []
    return Body(above=lines(rows))


def _table(checks: tuple[Check, ...], width: int, glyphs: Glyphs) -> list[Content]:
    if width < _WIDE:
        checks = tuple(replace(check, expected=check.brief or check.expected) for check in checks)
    title_width = min(max(len(check.title) for check in checks) + 2, (width - 2) // 3)
    expected_width = min(max([8, *(len(check.expected) for check in checks)]) + 2, (width - 2 - title_width) // 2)
    measured_width = width - 2 - title_width - expected_width
    head = cell("expected", expected_width) + cell("measured", measured_width).rstrip()
    rows = [part(cell("Check", title_width + 2), "bold") + part(head, "$quiet")]
    for check in checks:
        rows += _check_rows(check, (title_width, expected_width, measured_width), glyphs)
    return rows


def _column(text: str, width: int) -> list[str]:
    """`text` folded, so that no number is cut off; at most four lines."""
    return [row.plain for row in wrapped(text, width, most=4)] or [""]


def _check_rows(check: Check, widths: tuple[int, int, int], glyphs: Glyphs) -> list[Content]:
    glyph = {
        Outcome.PASS: glyphs.done,
        Outcome.FAIL: glyphs.failed,
        Outcome.RUNNING: glyphs.running,
        Outcome.ABSTAIN: glyphs.unknown,
    }.get(check.outcome, glyphs.rest)
    style = OUTCOME_STYLES[check.outcome]
    title_width, expected_width, measured_width = widths
    measured = check.measured or {
        Outcome.PENDING: "not yet",
        Outcome.RUNNING: "measuring",
        Outcome.ABSTAIN: "not measured",
    }.get(check.outcome, "")
    quiet = "$quiet" if check.outcome is Outcome.PENDING else ""
    titles = _column(check.title, title_width - 2)
    wanted = _column(check.expected, expected_width - 2)
    found = _column(clean(measured), measured_width)
    found_style = style if check.outcome is Outcome.FAIL else quiet
    rows = [
        part(f"{glyph} " if not number else "  ", style)
        + part(cell(one, title_width) + cell(two, expected_width), quiet)
        + part(three, found_style)
        for number, (one, two, three) in enumerate(zip_longest(titles, wanted, found, fillvalue=""))
    ]
    reason = check.reason or ("may fail without harm" if check.optional and check.outcome is Outcome.FAIL else None)
    if reason:
        rows += wrapped(clean(reason), sum(widths) + 2, 4, "$quiet", most=2)
    return rows
