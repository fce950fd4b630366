"""What is said before a case is left, and on the terminal after the console is gone: where things stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playbooks.session import Step
from playbooks.way_back import is_changed, lies_outside, way_on
from tui.widgets.checks import result_words
from tui.widgets.clean_text import clean

if TYPE_CHECKING:
    from playbooks.session import Session

_SO_FAR = {
    Step.SYMPTOM: "no failure was seen so far",
    Step.HYPOTHESES: "the failure is named, no cause was tested",
    Step.FIX: "fixes were found, none is applied",
    Step.VERIFY: "a fix is applied",
}


def short_path(path: str) -> str:
    """`~/…` for a path below the home folder."""
    try:
        return f"~/{Path(path).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return path


def leave_lines(session: Session, *, temporary: bool) -> list[str]:
    """What leaving does to what runs, to the applied fix and to the report. `temporary`: the files go with the case."""
    rows = []
    if session.running is not None or session.progress.open:
        what = session.running or f"{', '.join(session.progress.up or session.progress.open)} is up"
        rows.append(f"Now: {what}. It is ended; its processes and memory are cleaned up before the console leaves.")
    rows += _fix_lines(session, temporary=temporary, undo=" Undo it with u before you leave.")
    if session.case_folder is not None:
        rows.append(f"The report of what was found is written to {short_path(session.case_folder)}/report.md")
    return rows


def farewell(session: Session, *, temporary: bool) -> list[str]:
    """The lines left on the terminal: the verdict or how far it came, the report, the fix that stays."""
    words = result_words(session)[0] or f"Left early: {_SO_FAR[session.step]}."
    if session.verdict == "stopped":
        words = f"Stopped: {_SO_FAR[session.step]}."
    rows = [f"case {session.case}, {session.model}: {words}" if session.case else words]
    if session.report_path:
        rows.append(f"report: {session.report_path}")
    elif session.case_folder:
        rows.append(f"logs and events: {session.case_folder}")
    if not temporary and (way := way_on(session)) is not None:
        rows.append(f"to go on: {way}")
    return [clean(row) for row in [*rows, *_fix_lines(session, temporary=temporary, undo="")]]


def _fix_lines(session: Session, *, temporary: bool, undo: str) -> list[str]:
    fix = next((one for one in session.fixes if one.id == session.applied_fix), None)
    if fix is None:
        return []
    if temporary:
        return [f"The fix was made in the lab's own files, which go with the case: {fix.title}"]
    path = session.deployment.path
    where = f" in {path}" if path is not None and not lies_outside(fix) else ""
    return [f"The fix stays{where}: {fix.title}.{undo}", *is_changed(session)]
