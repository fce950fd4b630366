"""From what is marked in the wizard to the line of the log that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.sources import parse_source, path_of, short_names
from playbooks.session import Step
from tui.opened_log import OpenedLog
from tui.screens.own_log import OwnLogViewer
from tui.widgets.hypotheses import find_hypothesis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.launch import Deployment
    from playbooks.session import Evidence, Session


class LinePlace(NamedTuple):
    """A line, from 1, of a log that is kept."""

    path: Path
    line: int
    name: str


def line_shown(session: Session, shown: Step, marked: Mapping[Step, str | None]) -> LinePlace | None:
    """The first line that proves what is marked in this step; None where it has none, or its log is not kept."""
    return next((place for one in _evidence(session, shown, marked) if (place := _place(session, one))), None)


def _evidence(session: Session, shown: Step, marked: Mapping[Step, str | None]) -> tuple[Evidence, ...]:
    told = session.symptom.evidence if session.symptom is not None else ()
    if shown is Step.SYMPTOM:
        return told
    if shown is Step.HYPOTHESES:
        found = find_hypothesis(session, marked.get(shown))
        return found[0].evidence if found is not None else told
    if shown is Step.FIX:
        fix = marked.get(shown)
        leading = [one for one in session.causes if any(fix in claim.fixes for claim in one.hypotheses)]
        return leading[0].evidence if leading else ()
    return ()


def _place(session: Session, evidence: Evidence) -> LinePlace | None:
    if evidence.line is None:
        return None
    path = _of_sources(session, evidence.file)
    if path is None and session.case_folder is not None:
        path = Path(session.case_folder) / evidence.file
    return LinePlace(path, evidence.line, evidence.file) if path is not None and path.is_file() else None


def _of_sources(session: Session, name: str) -> Path | None:
    """The file that the session began from and calls by that name; what a program printed is not there any more."""
    sources = [parse_source(word) for word in session.log_sources]
    for source, short in zip(sources, short_names(sources), strict=True):
        if short == name and source.kind == "file":
            return path_of(source)
    return None


def is_log_given(session: Session) -> bool:
    """The case is of logs, and nothing was loaded: there is no log of its own to follow."""
    return bool(session.log_sources) and not session.progress.load_number


def given_log(session: Session) -> OpenedLog:
    """The logs that the case is of. Raises InputError."""
    return OpenedLog.of_sources([parse_source(word) for word in session.log_sources])


class LogAtLine(OwnLogViewer):
    """A log that is opened at one line, as soon as that was read."""

    def __init__(self, log: OpenedLog, line: int, deployment: Deployment) -> None:
        """`line` counts from 1."""
        super().__init__(log, is_inner=True, deployment=deployment)
        self._wanted_line: int | None = line - 1

    def _go_on_jumping(self) -> None:
        line = self._wanted_line
        if line is not None and (self._log.index.line_count > line or self._log.has_been_read):
            self._wanted_line = None
            is_there = self._log.index.line_count > line
            self._go(line if is_there else None, "the log is shorter than it was", opens=True, what="evidence")
        super()._go_on_jumping()
