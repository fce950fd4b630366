"""Log text made safe to draw: it is data, so escapes are removed or shown, and no line is endless."""

from __future__ import annotations

from engine_probe.escapes import with_visible_controls, without_escapes

MOST_CHARACTERS = 4_000


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    """One line without ANSI, with control and direction characters made visible, of at most `most` characters."""
    rest = len(text) - most
    head = text[: most * 2] if rest > 0 else text
    head = without_escapes(head).expandtabs(8)
    head = with_visible_controls(head.rstrip("\r\n"))[:most]
    return head + f" … {rest:,} more characters" if rest > 0 else head
