"""The cases that are kept on disk: of a wizard, a replay or a diagnosis; found, read and written as a report again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError, nearest_word
from engine_probe.escapes import safe_deep
from playbooks.diagnosis_page import page
from playbooks.diagnosis_report import headline, markdown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DIAGNOSIS, REPORT = "diagnosis.json", "report.md"
FORMATS = ("md", "json", "html")


@dataclass(frozen=True)
class KeptCase:
    """`diagnosis` None: the case is of a wizard or a replay, and its report stands as it was written."""

    folder: Path
    title: str
    diagnosis: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        return self.folder.name

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
            raise InputError(f"case {self.name} has its report as Markdown only", allowed=("md",))
        try:
            return (self.folder / REPORT).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"case {self.name} has no report: {error.strerror or error}") from error


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
    folder = state / "cases"
    found = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [_read(path) for path in found]


def find_case(state: Path, name: str) -> KeptCase:
    """By its name, such as 2026-11-29-0007. Raises InputError with the nearest one."""
    folder = state / "cases" / name
    if "/" in name or name in ("", ".", "..") or not folder.is_dir():
        names = [case.name for case in kept_cases(state)]
        raise InputError(f"there is no case {name!r}", allowed=tuple(names[-5:]), nearest=nearest_word(name, names))
    return _read(folder)


def _read(folder: Path) -> KeptCase:
    try:
        diagnosis = json.loads((folder / DIAGNOSIS).read_bytes())
        return KeptCase(folder, headline(diagnosis), diagnosis)
    except FileNotFoundError:
        return KeptCase(folder, _title(folder / REPORT), None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return KeptCase(folder, f"{DIAGNOSIS} cannot be read: {error}", None)


def _title(report: Path) -> str:
    try:
        with report.open(encoding="utf-8", errors="replace") as lines:
            return lines.readline().lstrip("# ").strip()
    except OSError:
        return "no report yet"
