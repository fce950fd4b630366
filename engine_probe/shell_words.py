"""Splits a text as a POSIX shell would, each word with its place; nothing is expanded, `$X` stays as it is."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine_probe.errors import InputError
from engine_probe.places import Place, snippet

_OPERATORS = ("&&", "||", ">>", ">&", "&>", ";", "&", "|", ">", "<")
_OPTION_NEXT = re.compile(r"\s*-")
_ESCAPED_IN_DOUBLE = '"\\$`'


class Word(NamedTuple):
    """A word without its quotes, or an operator such as `&&`; a newline that ends a command is the operator `;`."""

    text: str
    start: int
    end: int
    operator: bool = False


def place_at(text: str, start: int, end: int) -> Place:
    """Line, column and width of a span of `text`."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    last = min(end, len(text) if line_end < 0 else line_end)
    return Place(text.count("\n", 0, start) + 1, start - line_start, max(1, last - start))


def split(text: str, source: str) -> list[Word]:
    """The words of `text`. Error: InputError at a quote that is never closed."""
    words: list[Word] = []
    at = 0
    while at < len(text):
        if text.startswith(("\\\n", "\\\r\n"), at):
            at = text.index("\n", at) + 1
        elif text[at] == "\n":
            # A line that goes on with an option was pasted without its backslashes.
            if not _OPTION_NEXT.match(text, at):
                words.append(Word(";", at, at + 1, operator=True))
            at += 1
        elif text[at].isspace():
            at += 1
        elif text[at] == "#":
            at = _line_end(text, at)
        elif operator := next((one for one in _OPERATORS if text.startswith(one, at)), None):
            words.append(Word(operator, at, at + len(operator), operator=True))
            at += len(operator)
        else:
            words.append(_word(text, at, source))
            at = words[-1].end
    return words


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _word(text: str, start: int, source: str) -> Word:
    parts: list[str] = []
    at = start
    while at < len(text) and not text[at].isspace() and text[at] not in ";&|<>":
        char = text[at]
        if char in "'\"":
            part, at = _quoted(text, at, source)
        elif char == "\\":
            newline = 2 if text.startswith("\\\n", at) else 3 if text.startswith("\\\r\n", at) else 0
            part, at = ("", at + newline) if newline else (text[at + 1 : at + 2], at + 2)
        else:
            part, at = char, at + 1
        parts.append(part)
    return Word("".join(parts), start, min(at, len(text)))


def _quoted(text: str, start: int, source: str) -> tuple[str, int]:
    quote, at = text[start], start + 1
    parts: list[str] = []
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and text[at + 1 : at + 2] in (*_ESCAPED_IN_DOUBLE, "\n"):
            parts.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        else:
            parts.append(text[at])
            at += 1
    if at >= len(text):
        place = place_at(text, start, start + 1)
        kind = "single" if quote == "'" else "double"
        message = f"the {kind} quote at character {start + 1} is never closed"
        raise InputError(message, file=source, line=place.line, snippet=snippet(text, place))
    return "".join(parts), at + 1
