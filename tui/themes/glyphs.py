"""The one table of glyphs, in Unicode and in ASCII, and the way any text is made to fit a terminal without Unicode."""

from __future__ import annotations

import codecs
import locale
from dataclasses import dataclass, replace

from rich.cells import cell_len
from textual.content import Content, Span

from tui.plain_text import SIGNS, asks_for_ascii


@dataclass(frozen=True)
class Glyphs:
    """Each glyph stands beside a word that says the same."""

    ascii_only: bool = False
    done: str = "✓"
    failed: str = "✗"
    running: str = "▸"
    opened: str = "▾"
    rest: str = "–"
    unknown: str = "?"
    used: str = "█"
    other: str = "▒"
    free: str = "·"
    pool: str = "▓"
    """KV pool; `used` are weights, `other` CUDA graphs and the rest."""
    unsplit: str = "░"
    """A model's memory of which nobody says what it is for."""
    others: str = "╳"
    """Other processes."""
    levels: str = "▁▂▃▄▅▆▇█"
    """Of a history line, from nothing to all."""
    line_done: str = "━"
    line_open: str = "─"
    between: str = "·"
    border: str = "solid"

    def text(self, text: str) -> str:
        """`text` as this terminal can show it."""
        if not self.ascii_only or text.isascii():
            return text
        return "".join(_ascii(character) for character in text)

    def fit(self, content: Content) -> Content:
        """`content` as this terminal can show it, with its styles."""
        plain = content.plain
        if not self.ascii_only or plain.isascii():
            return content
        offsets, parts = [0], _ascii_parts(plain)
        for written in parts:
            offsets.append(offsets[-1] + len(written))
        spans = [
            Span(offsets[min(s.start, len(plain))], offsets[min(s.end, len(plain))], s.style) for s in content.spans
        ]
        return Content("".join(parts), spans=spans)


UNICODE = Glyphs()
ASCII = replace(
    UNICODE,
    ascii_only=True,
    done="+",
    failed="X",
    running=">",
    opened="v",
    rest="-",
    used="#",
    other="-",
    free=".",
    pool="=",
    unsplit="+",
    others="x",
    levels="_.:-=+*#",
    line_done="=",
    line_open="-",
    between="-",
    border="ascii",
)

_PLAIN = {**SIGNS, "…": "~"}
"""Where a text is cropped, one cell is all that there is."""


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    return _PLAIN.get(character) or "?" * max(cell_len(character), 0)


def _ascii_parts(plain: str) -> list[str]:
    """Each character as written in ASCII. What a longer one takes, the next padding gives back: columns stay."""
    parts: list[str] = []
    too_many = 0
    for character, following in zip(plain, plain[1:] + "\n", strict=True):
        written = _ascii(character)
        if character == "\n":
            too_many = 0
        elif character == " " and too_many and following in " \n":
            written, too_many = "", too_many - 1
        too_many += max(0, len(written) - cell_len(character)) if not character.isascii() else 0
        parts.append(written)
    return parts


def choose(ascii_only: bool | None = None, encoding: str | None = None) -> Glyphs:
    """ASCII when asked for, or when the locale is C or its encoding cannot write Unicode."""
    if ascii_only is None and encoding is None and asks_for_ascii():
        return ASCII
    if ascii_only is None:
        name = encoding or locale.getpreferredencoding(False) or "ascii"
        try:
            ascii_only = not codecs.lookup(name).name.startswith("utf")
        except LookupError:
            ascii_only = True
    return ASCII if ascii_only else UNICODE
