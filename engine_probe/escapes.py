"""Escape sequences and control characters in text that came from outside: taken away, or made visible."""

from __future__ import annotations

import re
from typing import Any

_ESCAPES = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def without_escapes(text: str) -> str:
    return _ESCAPES.sub("", text)


def with_visible_controls(text: str) -> str:
    """Control and direction characters, tabs excepted, as signs that do nothing."""
    return _CONTROL.sub(_visible, text)


def safe_lines(text: str) -> str:
    """What may go to a terminal: each line without escape sequences, with visible controls; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "\n".join(with_visible_controls(without_escapes(line)) for line in text.split("\n"))


def safe_deep(value: Any) -> Any:
    """The same for every string in lists and dictionaries."""
    if isinstance(value, str):
        return safe_lines(value)
    if isinstance(value, dict):
        return {key: safe_deep(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [safe_deep(item) for item in value]
    return value


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"<U+{code:04X}>"
