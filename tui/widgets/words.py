"""A widget that shows text and redraws only when it differs; helpers that put numbers beside their units."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.style import Style

    from tui.themes.glyphs import Glyphs

GIB = 1024**3
_LONG_WORD = re.compile(r"[^\s]{20,}")


class Words(Static):
    """Text without markup. `show` does nothing when nothing changed, so nothing moves."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__("", markup=False, id=id, classes=classes)
        self.glyphs = glyphs
        self.shown = Content("")

    def show(self, content: Content) -> None:
        fitted = self.glyphs.fit(content)
        if not fitted.is_same(self.shown):
            self.shown = fitted
            self.update(fitted)


def lines(rows: Sequence[Content]) -> Content:
    return Content("\n").join(rows)


def part(text: str, style: str | Style = "") -> Content:
    """Text that is data: brackets in it are brackets."""
    return Content.styled(text, style) if style else Content(text)


def cell(text: str, width: int) -> str:
    """`text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    return set_cell_size(text, width - 1) + "…"


def cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else cell(text, width)


def wrapped(text: str, width: int, indent: int = 0, style: str = "", most: int = 0) -> list[Content]:
    """`text` folded at words to `width`, each line indented; at most `most` lines, the last ending in an ellipsis."""
    space = max(width - indent, 8)
    rows = [Content(line) for line in _folded(text, space)]
    if most and len(rows) > most:
        rest = " ".join(row.plain.strip() for row in rows[most - 1 :])
        rows = [*rows[: most - 1], Content(cell(rest, space))]
    return [Content(" " * indent) + part(row.plain, style) for row in rows]


def _folded(text: str, space: int) -> list[str]:
    """Lines of at most `space` cells; a path that is too long for one breaks after a slash."""
    return [row.plain.rstrip() for row in Content(_LONG_WORD.sub(lambda one: _spread(one[0], space), text)).wrap(space)]


def _spread(word: str, space: int) -> str:
    if cell_len(word) <= space or "/" not in word.strip("/"):
        return word
    lines, line = [], ""
    for piece in re.findall(r"[^/]*/|[^/]+$", word):
        if line and cell_len(line + piece) > space:
            lines.append(line)
            line = ""
        line += piece
    return "\n".join([*lines, line])


def apart(left: Content, right: Content, width: int) -> Content:
    """`left` and `right` at the two ends of a line; the right one yields where both do not fit."""
    gap = width - left.cell_length - right.cell_length
    if gap < 1:
        return left.truncate(max(width, 1), ellipsis=True)
    return left + Content(" " * gap) + right


def gib(count: float) -> str:
    """A number of GiB, as precise as helps: 0.09, 3.2, 212."""
    return f"{count:.2f}" if count < 1 else f"{count:.1f}" if count < 100 else f"{count:,.0f}"


def gib_of_bytes(count: int) -> str:
    return gib(count / GIB)


def seconds(count: float) -> str:
    """A duration that a person reads at a glance: 0.3s, 12s, 4m05s, 1h02m, 2d03h."""
    if count < 9.95:
        return f"{count:.1f}s"
    if count < 99.5:
        return f"{count:.0f}s"
    minutes, rest = divmod(int(count), 60)
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days}d{hours % 24:02d}h"
    return f"{hours}h{minutes % 60:02d}m" if hours else f"{minutes}m{rest:02d}s"
