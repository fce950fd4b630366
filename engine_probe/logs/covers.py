"""Cover messages: exceptions and records that only say that something else went wrong. The wordings are data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.literals import plain
from engine_probe.logs.checked import DATA, literals_of_checked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Cover:
    """One pattern. `literals`: see literals.py; empty also where they were not looked for."""

    source: str
    literals: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first wanted. Raises re.error."""
        return re.compile(self.source)


@dataclass(frozen=True)
class Wrappers:
    """Cover messages such as `Engine core initialization failed. See root cause above.`"""

    known: tuple[Cover, ...]

    def covers(self, message: str) -> bool:
        """Whether `message` only says that something else went wrong."""
        text = plain(message)
        return any(
            one.pattern.search(message)
            for one in self.known
            if not one.literals or any(map(text.__contains__, one.literals))
        )


def read_wrappers(path: Path | None = None, *, recheck: bool = False) -> Wrappers:
    """The cover messages of `path` (the package's own by default). Raises InputError when a sample does not match.

    Nothing is tried of a table that is known to be good (checked.py), without `recheck`.
    """
    path = path or DATA / "wrappers.tsv"
    content = path.read_bytes()
    literals = None if recheck else literals_of_checked(path.name, content)
    found: list[Cover] = []
    for number, row in enumerate(content.decode("utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        if not row.startswith("\t"):
            found.append(Cover(row, () if literals is None else literals[len(found)]))
        if literals is None:
            _check(row, found, path, number)
    return Wrappers(tuple(found))


def _check(row: str, found: Sequence[Cover], path: Path, number: int) -> None:
    """A row that is a pattern, or a sample of the last one."""
    try:
        is_good = bool(found) and (not row.startswith("\t") or found[-1].pattern.search(row[1:]) is not None)
    except re.error as error:
        raise InputError(f"the pattern does not compile: {error}", file=str(path), line=number) from None
    if not is_good:
        raise InputError("this sample does not match", file=str(path), line=number)
