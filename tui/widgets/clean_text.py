"""Log text made safe to draw: it is data, so escapes are removed or shown, and no line is endless."""

from __future__ import annotations

import re

from engine_probe.escapes import with_visible_controls, without_escapes

MOST_CHARACTERS = 4_000
_LINE_ENDS = re.compile(r"[ \t]*\r?\n[ \t]*")
"""Of a message of several lines, such as pydantic's: they are read as one."""


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    """One line without ANSI, with control and direction characters made visible, of at most `most` characters."""
    rest = len(text) - most
    head = text[: most * 2] if rest > 0 else text
    head = _LINE_ENDS.sub(" ", without_escapes(head).rstrip("\r\n")).expandtabs(8)
    head = with_visible_controls(head)[:most]
    return head + f" … {rest:,} more characters" if rest > 0 else head
