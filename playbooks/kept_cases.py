"""The cases that are kept on disk: of a wizard, a replay or a diagnosis; found, read and written as a report again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError, in_words, nearest_word
from engine_probe.escapes import safe_deep
from engine_probe.redact import mask_deep
from playbooks.case import EVENTS
from playbooks.case_file import open_kept, read_kept, text_of
from playbooks.case_steps import object_of
from playbooks.case_summary import CaseSummary, of_diagnosis, of_session, read_summary, write_summary
from playbooks.diagnosis_page import page
from playbooks.diagnosis_report import headline, markdown
from playbooks.recorded import past_case
from playbooks.session_page import session_page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DIAGNOSIS, REPORT = "diagnosis.json", "report.md"
FORMATS = ("md", "json", "html")


@dataclass(frozen=True)
class KeptCase:
    """`diagnosis` None: the case is of a wizard or a replay, and its report stands as it was written."""

    folder: Path
    diagnosis: Mapping[str, Any] | None
    trouble: str = ""
    """Why its diagnosis cannot be read."""

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def summary(self) -> CaseSummary:
        """As it was written at the end; else from what the case recorded, which is slow and done once."""
        kept = read_summary(self.folder)
        if kept is not None or self.trouble:
            return kept or CaseSummary(end=self.trouble)
        if self.diagnosis is not None:
            return of_diagnosis(self.diagnosis, _written(self.folder / DIAGNOSIS))
        session = past_case(self.folder).session
        if session is None:
            return CaseSummary(end=_title(self.folder / REPORT))
        summary = of_session(session, _written(self.folder / EVENTS))
        if self.has_report:  # one that goes on, or can, has no last word yet
            with suppress(OSError):
                write_summary(self.folder, summary)
        return summary

    @property
    def title(self) -> str:
        """One line that tells it from the others."""
        return self.summary.title

    @property
    def kind(self) -> str:
        return "diagnosis" if self.diagnosis is not None else "session"

    @property
    def has_report(self) -> bool:
        """It came to its end."""
        return self.diagnosis is not None or (self.folder / REPORT).is_file()

    def report(self, form: str) -> str:
        """`form` one of FORMATS. Raises InputError where this case cannot be written so."""
        if self.diagnosis is not None:
            return report_of(self.diagnosis, form)
        if form != "md":
            return self._past_report(form)
        try:
            return text_of(self.folder / REPORT)
        except FileNotFoundError as error:
            more = f"`vllm-console wizard --resume {self.name}` goes on with one that was cut off"
            raise InputError(f"case {self.name} has no report yet: {more}") from error
        except OSError as error:
            raise InputError(f"case {self.name} has no report: {error.strerror or error}") from error

    def _past_report(self, form: str) -> str:
        """From the session as it was recorded."""
        past = past_case(self.folder)
        if past.session is None:
            why = past.trouble or "it had not begun"
            raise InputError(f"case {self.name} has its report as Markdown only: {why}", allowed=("md",))
        if form == "html":
            return session_page(past.session)
        steps = [object_of(one) for one in past.moments]
        told = {"case": self.name, "kind": self.kind, "trouble": past.trouble, "steps": steps}
        return json.dumps(mask_deep(safe_deep(told)), indent=1, ensure_ascii=False) + "\n"


def report_of(diagnosis: Mapping[str, Any], form: str) -> str:
    """The diagnosis in one of FORMATS. One that an older release kept may have control characters."""
    diagnosis = safe_deep(diagnosis)
    if form == "html":
        return page(diagnosis)
    if form == "json":
        return json.dumps(diagnosis, indent=1, ensure_ascii=False) + "\n"
    return markdown(diagnosis)


def form_of(path: Path) -> str:
    """The format that a file's name asks for. Raises InputError."""
    form = path.suffix.lstrip(".").lower()
    form = {"markdown": "md", "htm": "html"}.get(form, form)
    if form not in FORMATS:
        raise InputError(f"{path}: a report's name ends in one of these", allowed=tuple(f".{one}" for one in FORMATS))
    return form


def kept_cases(state: Path) -> list[KeptCase]:
    """All of them, the newest last. Folders that hold neither report nor diagnosis are cases that go on."""
    cases = [_read(path) for path in _folders(state)]
    for one in cases:
        one.summary  # noqa: B018 - read here once, where it may take its time
    return cases


def _folders(state: Path) -> list[Path]:
    folder = state / "cases"
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def find_case(state: Path, name: str) -> KeptCase:
    """By its name, such as 2026-11-29-0007. Raises InputError with the nearest one."""
    folder = state / "cases" / name
    if "/" in name or name in ("", ".", "..") or not folder.is_dir():
        names = [path.name for path in _folders(state)]
        newest = tuple(reversed(names))
        raise InputError(f"there is no case {name!r}", allowed=newest, nearest=nearest_word(name, newest))
    return _read(folder)


def _read(folder: Path) -> KeptCase:
    try:
        diagnosis = json.loads(read_kept(folder / DIAGNOSIS))
        headline(diagnosis)
        return KeptCase(folder, diagnosis)
    except FileNotFoundError:
        return KeptCase(folder, None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return KeptCase(folder, None, f"{DIAGNOSIS} cannot be read: {in_words(error)}")


def _written(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _title(report: Path) -> str:
    try:
        with open_kept(report) as lines:
            return lines.readline().decode("utf-8", "replace").lstrip("# ").strip()
    except OSError:
        return "no report yet"
