"""Which case is meant by one that was cut off: the newest, or the one of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from playbooks.kept_cases import find_case
from playbooks.recorded import past_case
from playbooks.resuming import Unfinished, is_undecided, unfinished

if TYPE_CHECKING:
    from pathlib import Path


def cut_off(state: Path, name: str) -> Unfinished:
    """`name` empty: the newest case that was cut off. One that is named may also have been left undecided.

    Raises InputError where it goes on, ended well, or a newer one came after.
    """
    if not name:
        found = unfinished(state)
        if found is None:
            raise InputError("no case was cut off: the newest one has ended, or its console still runs")
        return found
    case = find_case(state, name)
    if case.has_report and not is_undecided(case.folder):
        raise InputError(f"case {name} was not cut off: its report is written")
    session = past_case(case.folder).session
    file = session.deployment.path if session is not None else None
    if file is None:
        raise InputError(f"case {name} cannot go on: it has no deployment file")
    found = unfinished(state, file, undecided=True)
    if found is None or found.case.name != name:
        raise InputError(f"case {name} cannot go on: its console still runs, or a newer case on {file} came after it")
    return found
