"""Words by which a server that came up ends: asked to, by the death of a process, by hanging. The wordings are data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine_probe.errors import InputError

KINDS = ("asked", "death", "hang")


@dataclass(frozen=True)
class EndingWords:
    """Patterns by kind."""

    patterns: dict[str, tuple[re.Pattern[str], ...]]

    def says(self, kind: str, text: str) -> bool:
        """Whether a message or an exception is of `kind`."""
        return any(pattern.search(text) for pattern in self.patterns[kind])


@lru_cache(maxsize=1)
def ending_words() -> EndingWords:
    """Those of data/endings.tsv."""
    return read_ending_words(Path(__file__).parent / "data" / "endings.tsv")


def read_ending_words(path: Path) -> EndingWords:
    """Raises InputError, with the line, when a row is wrong or a sample does not match."""
    found: dict[str, list[re.Pattern[str]]] = {kind: [] for kind in KINDS}
    last: re.Pattern[str] | None = None
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        kind, _, text = row.partition("\t")
        if kind:
            last = _pattern_of(kind, text, path, number)
            found[kind].append(last)
        elif last is None or not last.search(text):
            raise InputError("this sample does not match", file=str(path), line=number)
    return EndingWords({kind: tuple(patterns) for kind, patterns in found.items()})


def _pattern_of(kind: str, text: str, path: Path, number: int) -> re.Pattern[str]:
    if kind not in KINDS:
        raise InputError(f"no such kind: {kind}", file=str(path), line=number, allowed=KINDS)
    try:
        return re.compile(text)
    except re.error as error:
        raise InputError(f"the pattern does not compile: {error}", file=str(path), line=number) from None
