"""Words by which a server that came up ends: asked to, by the death of a process, by hanging. The wordings are data."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.literals import plain
from engine_probe.logs.checked import DATA, Pattern, literals_of_checked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KINDS = ("asked", "death", "place", "hang")


class EndingWords(NamedTuple):
    """(kind, pattern) in the order of the table."""

    patterns: tuple[tuple[str, Pattern], ...]

    def says(self, kind: str, text: str) -> bool:
        """Whether a message or an exception is of `kind`."""
        known = plain(text)
        return any(one.is_in(text, known) for its_kind, one in self.patterns if its_kind == kind)


@lru_cache(maxsize=1)
def ending_words() -> EndingWords:
    """Those of data/endings.tsv."""
    return read_ending_words()


def read_ending_words(path: Path | None = None, *, recheck: bool = False) -> EndingWords:
    """Those of `path` (the package's own by default). Raises InputError where a row is wrong or a sample not matched.

    Nothing is tried of a table that is known to be good (checked.py), without `recheck`.
    """
    path = path or DATA / "endings.tsv"
    content = path.read_bytes()
    literals = None if recheck else literals_of_checked(path.name, content)
    found: list[tuple[str, Pattern]] = []
    for number, row in enumerate(content.decode("utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        kind, _, text = row.partition("\t")
        if kind:
            found.append((kind, Pattern(text, () if literals is None else literals[len(found)])))
        if literals is None:
            _check(kind, text, found, path, number)
    return EndingWords(tuple(found))


def _check(kind: str, text: str, found: Sequence[tuple[str, Pattern]], path: Path, number: int) -> None:
    """A row that is a pattern of `kind`, or, without one, a sample of the last one."""
    if kind and kind not in KINDS:
        raise InputError(f"no such kind: {kind}", file=str(path), line=number, allowed=KINDS)
    try:
        is_good = bool(found) and (found[-1][1].compiled.search(text) is not None or bool(kind))
    except re.error as error:
        raise InputError(f"the pattern does not compile: {error}", file=str(path), line=number) from None
    if not is_good:
        raise InputError("this sample does not match", file=str(path), line=number)
