"""Cover messages: exceptions and records that only say that something else went wrong. The wordings are data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.literals import plain
from engine_probe.logs.checked import DATA, Pattern, literals_of_checked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Wrappers(NamedTuple):
    """Cover messages such as `Engine core initialization failed. See root cause above.`"""

    known: tuple[Pattern, ...]

    def covers(self, message: str) -> bool:
        """Whether `message` only says that something else went wrong."""
        text = plain(message)
        return any(one.is_in(message, text) for one in self.known)


def read_wrappers(path: Path | None = None, *, recheck: bool = False) -> Wrappers:
    """The cover messages of `path` (the package's own by default). Raises InputError when a sample does not match.

    Nothing is tried of a table that is known to be good (checked.py), without `recheck`.
    """
    path = path or DATA / "wrappers.tsv"
    content = path.read_bytes()
    literals = None if recheck else literals_of_checked(path.name, content)
    found: list[Pattern] = []
    for number, row in enumerate(content.decode("utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        if not row.startswith("\t"):
            found.append(Pattern(row, () if literals is None else literals[len(found)]))
        if literals is None:
            _check(row, found, path, number)
    return Wrappers(tuple(found))


def _check(row: str, found: Sequence[Pattern], path: Path, number: int) -> None:
    """A row that is a pattern, or a sample of the last one."""
    try:
        is_good = bool(found) and (not row.startswith("\t") or found[-1].compiled.search(row[1:]) is not None)
    except re.error as error:
        raise InputError(f"the pattern does not compile: {error}", file=str(path), line=number) from None
    if not is_good:
        raise InputError("this sample does not match", file=str(path), line=number)
