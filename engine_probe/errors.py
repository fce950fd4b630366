"""The error for what a person wrote wrongly: where it is, what is allowed there and what was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ALLOWED_SHOWN = 12
_SHORTEST_BEGINNING = 4
_ALIKE_BEGINNING = 0.8
"""A word that was not typed to its end is held against the beginnings only, and more strictly."""


class InputError(Exception):
    """Input that cannot be used. `more` holds further errors of the same input; a command ends with exit code 2."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        snippet: str | None = None,
        allowed: tuple[str, ...] = (),
        nearest: str | None = None,
        more: tuple[InputError, ...] = (),
        key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.snippet = snippet
        self.allowed = allowed
        self.nearest = nearest
        self.more = more
        self.key = key
        """What of a launch is meant, such as `args.max-model-len`, where the file is not known yet."""

    def __str__(self) -> str:
        from engine_probe.redact import mask  # noqa: PLC0415 -- only when there is an error

        return mask("\n".join([self._block(), *(str(error) for error in self.more)]))

    def _block(self) -> str:
        place = "" if self.file is None else self.file if self.line is None else f"{self.file}:{self.line}"
        lines = [f"{place}: {self.message}" if place else self.message]
        if self.snippet:
            lines.append(self.snippet)
        hints = [hint for hint in (self._allowed_hint(), self._nearest_hint()) if hint]
        if hints:
            lines.append(" ; ".join(hints))
        return "\n".join(lines)

    def _allowed_hint(self) -> str | None:
        if not self.allowed:
            return None
        shown = ", ".join(self.allowed[:MAX_ALLOWED_SHOWN])
        rest = len(self.allowed) - MAX_ALLOWED_SHOWN
        return f"allowed: {shown}" + (f" and {rest} more" if rest > 0 else "")

    def _nearest_hint(self) -> str | None:
        return None if self.nearest is None else f'did you mean "{self.nearest}"?'


def in_words(error: Exception) -> str:
    """What an error says, without Python's numbers: of the system's errors the file and the reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    names = [str(one) for one in (error.filename, error.filename2) if one is not None]
    return ": ".join((" and ".join(names), error.strerror)) if names else error.strerror


def nearest_word(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that looks most like `word`, or else begins most like it; None when none is near."""
    by_folded: dict[str, str] = {}
    for candidate in allowed:
        by_folded.setdefault(_folded(candidate), candidate)
    if not by_folded:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - only when a word is wrong

    asked = _folded(word[:200])
    whole = sorted((full for full in by_folded if full.startswith(asked)), key=len)
    if whole and len(asked) >= _SHORTEST_BEGINNING:
        return by_folded[whole[0]]
    found = get_close_matches(asked, list(by_folded), n=1, cutoff=0.6)
    if found:
        return by_folded[found[0]]
    if len(asked) < _SHORTEST_BEGINNING:
        return None
    beginnings = {full[: len(asked)]: full for full in sorted(by_folded, key=len, reverse=True)}
    begun = get_close_matches(asked, list(beginnings), n=1, cutoff=_ALIKE_BEGINNING)
    return by_folded[beginnings[begun[0]]] if begun else None


def _folded(word: str) -> str:
    return word.lower().replace("_", "-")
