"""Writes a playbook that is drafted from a case into a person's own folder; the wizard and the command do it alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.locations import writable
from playbooks.draft import Library, draft_of, explained_by, held_fix
from playbooks.library import library_files, load_library, own_folder
from playbooks.load import check_file
from tui.new_file import write_new

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from playbooks.session import Session

_MOST_LINES = 200
_MOST_WORDS = 6


def suggested_name(session: Session) -> str:
    """From the error's own words."""
    symptom = session.symptom
    words = re.findall(r"[a-z]{3,}", symptom.headline.partition(":")[2].lower() if symptom is not None else "")
    fix = held_fix(session)
    return "-".join(words[:_MOST_WORDS]) or (fix.id if fix is not None else "my-playbook")


def known_already(session: Session) -> str | None:
    """That a playbook explains the case, in words; None where a new one is of use."""
    cause = explained_by(session, [path.stem for path in library_files()])
    if cause is None:
        return None
    return f"the playbook {cause.id} explains this failure already ({cause.confidence:.0%})"


def write_draft(session: Session, name: str, today: date, family: str | None = None) -> Path:
    """The new file, which passes `playbooks check`. Raises InputError."""
    library = load_library()
    known = Library(tuple(one.id for one in library), {one.id: one.spec for one in library})
    family, text = draft_of(session, name, known, today, _lines_of(session), family)
    path = writable(own_folder() / family) / f"{name}.yaml"
    write_new(path, text)
    check_file(path)
    return path


def _lines_of(session: Session) -> Iterator[str]:
    """The first lines of the case's first log."""
    paths = [Path(word).expanduser() for word in session.log_sources]
    paths += [Path(session.case_folder) / "load-1.log"] if session.case_folder is not None else []
    path = next((one for one in paths if one.is_file()), None)
    if path is None:
        return
    with path.open(encoding="utf-8", errors="replace") as log:
        for _, line in zip(range(_MOST_LINES), log, strict=False):
            yield line
