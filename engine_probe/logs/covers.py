"""Cover messages: exceptions and records that only say that something else went wrong. The wordings are data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engine_probe.errors import InputError


@dataclass(frozen=True)
class Wrappers:
    """Cover messages such as `Engine core initialization failed. See root cause above.`"""

    patterns: tuple[re.Pattern[str], ...]

    def covers(self, message: str) -> bool:
        """Whether `message` only says that something else went wrong."""
        return any(pattern.search(message) for pattern in self.patterns)


def read_wrappers(path: Path | None = None) -> Wrappers:
    """The cover messages of `path` (the package's own by default). Raises InputError when a sample does not match."""
    path = path or Path(__file__).parent / "data" / "wrappers.tsv"
    patterns: list[re.Pattern[str]] = []
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        if not row.startswith("\t"):
            patterns.append(_pattern_of(row, path, number))
        elif not patterns or not patterns[-1].search(row[1:]):
            raise InputError("this sample does not match", file=str(path), line=number)
    return Wrappers(tuple(patterns))


def _pattern_of(row: str, path: Path, number: int) -> re.Pattern[str]:
    try:
        return re.compile(row)
    except re.error as error:
        raise InputError(f"the pattern does not compile: {error}", file=str(path), line=number) from None
