"""Where a source says something: for errors, and for notes on what is not understood."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.redact import mask

if TYPE_CHECKING:
    from engine_probe.errors import InputError
    from engine_probe.yaml_nodes import Lines, YamlPath

_LONGEST = 120


class At(NamedTuple):
    """A place in a YAML file."""

    lines: Lines
    path: YamlPath

    def __str__(self) -> str:
        return place_words(self.lines.file, self.lines.line_of(self.path))

    def child(self, *steps: str | int) -> At:
        return At(self.lines, (*self.path, *steps))

    def error(self, message: str, *, allowed: tuple[str, ...] = (), nearest: str | None = None) -> InputError:
        return self.lines.error(message, self.path, allowed=allowed, nearest=nearest)


def place_words(file: str, line: int | None) -> str:
    """Such as "compose.yaml:12"."""
    name = Path(file).name
    return name if line is None else f"{name}:{line}"


def shown(text: str) -> str:
    """One line of it, without secrets and without signs that a terminal would take for an order."""
    printable = "".join(char if char.isprintable() else " " for char in mask(text[: 2 * _LONGEST]))
    words = " ".join(printable.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
