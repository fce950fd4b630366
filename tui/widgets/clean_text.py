"""Log text made safe to draw: it is data, so escapes are removed or shown, and no line is endless."""

from __future__ import annotations

import re

MOST_CHARACTERS = 4_000

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    """One line without ANSI, with control and direction characters made visible, of at most `most` characters."""
    rest = len(text) - most
    head = text[: most * 2] if rest > 0 else text
    head = _ESCAPES.sub("", head).expandtabs(8)
    head = _CONTROL.sub(_visible, head.rstrip("\r\n"))[:most]
    return head + f" … {rest:,} more characters" if rest > 0 else head


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"<U+{code:04X}>"
