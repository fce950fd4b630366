"""Where something is written, and how that place is shown to a person."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine_probe.redact import mask

_WIDTH = 140


class Place(NamedTuple):
    """Where something is written: line from 1, column from 0, width in characters."""

    line: int
    column: int
    width: int = 1


def snippet(text: str, place: Place) -> str | None:
    """The line of `place` with carets below, secrets masked and unprintable characters written out."""
    lines = re.split(r"\r\n|\r|\n", text)
    if not 0 < place.line <= len(lines):
        return None
    line = lines[place.line - 1]
    left = max(0, place.column - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = line[left : left + _WIDTH].replace("\t", " ")
    printable = "".join(char if char.isprintable() else "?" for char in shown)
    number = f"{place.line:>5} | "
    masked = mask(printable)
    if masked != printable and masked[: place.column] != printable[: place.column]:
        return number + masked
    width = max(1, min(place.width, len(printable) - (place.column - left)))
    return f"{number}{masked}\n{' ' * (len(number) - 2)}| {' ' * (place.column - left)}{'^' * width}"
