"""Rows of styled text of which only those that changed are drawn again. One may be marked, and they scroll.

A row is a tuple of (text, style) and is compared as such: what stays the same costs nothing, on the line too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style as RichStyle
    from textual.events import Click, MouseScrollDown, MouseScrollUp
    from textual.geometry import Offset

    from tui.themes.glyphs import Glyphs

Piece = tuple[str, str]
"""Text, and its style as Textual writes it, such as "$quiet" or "$error bold"."""
Row = tuple[Piece, ...]

MARK_CELLS = 2
"""Before every row of a pane: the mark, seen without colours too."""
_WHEEL_ROWS = 3
_NO_ROW: Row = ()


@dataclass(frozen=True)
class PaneContent:
    """`keys` names each row, so that the mark stays on it when rows come and go."""

    heading: Row
    rows: tuple[Row, ...] = ()
    keys: tuple[str, ...] = ()


def plain_of(row: Row) -> str:
    return "".join(text for text, _ in row)


def cells_of(row: Row) -> int:
    return sum([len(text) if text.isascii() else cell_len(text) for text, _ in row])


def fit(row: Row, width: int) -> Row:
    """`row` in at most `width` cells; where it is cut, an ellipsis says so."""
    if cells_of(row) <= width:
        return row
    kept: list[Piece] = []
    left = width - 1
    for text, style in row:
        cells = cell_len(text)
        if cells > left:
            kept.append((set_cell_size(text, max(left, 0)) + "…", style))
            break
        kept.append((text, style))
        left -= cells
    return tuple(kept)


def merged(row: Row) -> list[Piece]:
    """Neighbours of one style as one piece: each costs time to draw and bytes on the line."""
    pieces: list[Piece] = []
    for text, style in row:
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + text, style)
        elif text:
            pieces.append((text, style))
    return pieces


def apart(left: Row, right: Row, width: int) -> Row:
    """Both ends of a line; the right one yields where both do not fit."""
    gap = width - cells_of(left) - cells_of(right)
    return (*left, (" " * gap, ""), *right) if gap >= 1 else fit(left, width)


def changed_cells(old: Row, new: Row, width: int) -> tuple[int, int]:
    """From where to where two rows differ, in cells: a slow line is sent no more."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    start, stop = cells_of(new[:same]), width
    if cells_of(old) == cells_of(new):
        behind = 0
        while behind < min(len(old), len(new)) - same and old[-1 - behind] == new[-1 - behind]:
            behind += 1
        stop = cells_of(new) - cells_of(new[len(new) - behind :])
    return start, stop


class RowPane(Widget, can_focus=True):
    """A heading and rows. With one row of height it is folded: then the heading says it all."""

    DEFAULT_CSS = "RowPane { padding: 0 1; height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "move(-100000)", "first", show=False),
        Binding("end", "move(100000)", "last", show=False),
    ]

    @dataclass
    class Moved(Message):
        """Another row is marked."""

        pane: RowPane

    @dataclass
    class Taken(Message):
        """The marked row was clicked twice, or a folded pane once."""

        pane: RowPane

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self.content = PaneContent(())
        self.marked: str | None = None
        self._top = 0
        self._room = Size(0, 0)
        """Kept, because asking for it adds up all borders and paddings each time."""
        self._lines: tuple[tuple[Row, bool], ...] = ()
        """What is seen: each row, and whether it is the marked one."""
        self._styles: dict[tuple[str, bool], RichStyle] = {}

    @property
    def text_width(self) -> int:
        """Cells of a row, without the mark."""
        return max(self._room.width - MARK_CELLS, 1)

    @property
    def plain(self) -> str:
        """All rows, also those that are scrolled away."""
        rows = [self.content.heading, *(self.content.rows if self.is_open else ())]
        return "\n".join(self.glyphs.text(plain_of(row)).rstrip() for row in rows)

    @property
    def is_open(self) -> bool:
        return self._room.height > 1

    @property
    def shows_mark(self) -> bool:
        return self.has_focus

    @property
    def page_rows(self) -> int:
        return max(self._room.height - 1, 0)

    def set_content(self, content: PaneContent) -> None:
        """Rows may have come and gone; the mark stays on its row, or goes to the one that took its place."""
        if content.keys != self.content.keys:
            self._keep_mark(content.keys)
        self.content = content
        self._draw()

    def _keep_mark(self, keys: Sequence[str]) -> None:
        before = self.content.keys
        if self.marked not in keys:
            at = before.index(self.marked) if self.marked in before else 0
            self.marked = keys[min(at, len(keys) - 1)] if keys else None

    # Drawing

    def _draw(self) -> None:
        self._top = max(0, min(self._top, len(self.content.rows) - self.page_rows))
        lines = self._seen()
        if lines == self._lines:
            return
        width, before = self._room.width, self._lines
        self._lines = lines
        blank: tuple[Row, bool] = (_NO_ROW, False)
        changed = []
        for y in range(max(len(lines), len(before))):
            new, old = (one[y] if y < len(one) else blank for one in (lines, before))
            if new != old:
                start, stop = changed_cells(old[0], new[0], width) if new[1] == old[1] else (0, width)
                indent = MARK_CELLS if y and start else 0
                changed.append(Region(start + indent, y, min(stop + MARK_CELLS, width) - start - indent, 1))
        if changed:
            self.refresh(*changed)

    def _seen(self) -> tuple[tuple[Row, bool], ...]:
        rows = self.content.rows[self._top : self._top + self.page_rows]
        marked = self.content.keys.index(self.marked) - self._top if self.marked in self.content.keys else -1
        heading = (self.heading(), False)
        return (heading, *((row, self.shows_mark and y == marked) for y, row in enumerate(rows)))

    def heading(self) -> Row:
        """With what of the rows is seen, where that is not all."""
        rows, seen = len(self.content.rows), self.page_rows
        words = f"{self._top + 1}–{min(self._top + seen, rows)} of {rows}" if 0 < seen < rows else ""
        row = self.content.heading
        if self.has_focus and row:
            row = ((row[0][0], "$accent bold"), *row[1:])
        width = self._room.width
        return apart(fit(row, width - len(words) - 2), ((words, "$quiet"),), width) if words else row

    def render_line(self, y: int) -> Strip:
        width = self._room.width
        row, is_marked = self._lines[y] if y < len(self._lines) else (_NO_ROW, False)
        if y:
            row = ((f"{self.glyphs.running} " if is_marked else "  ", "$accent bold"), *row)
        text = self.glyphs.text
        segments = [Segment(text(words), self._style(style, is_marked)) for words, style in merged(fit(row, width))]
        return Strip(segments).adjust_cell_length(width, self._style("", is_marked))

    def _style(self, name: str, is_marked: bool) -> RichStyle:
        known = self._styles.get((name, is_marked))
        if known is None:
            style = self.visual_style
            for words in (name, "on $chosen" if is_marked else ""):
                style += Style.parse(words, self.app.theme_variables) if words else Style()
            known = self._styles[name, is_marked] = style.rich_style
        return known

    def notify_style_update(self) -> None:
        """Another theme."""
        self._styles = {}
        super().notify_style_update()

    def on_resize(self) -> None:
        self._room = self.content_region.size
        self._lines = ()
        self._show_mark()
        self._draw()
        self.refresh()

    def on_focus(self) -> None:
        self._draw()
        self.post_message(self.Moved(self))

    def on_blur(self) -> None:
        self._draw()

    # Marking and scrolling

    def mark(self, key: str) -> None:
        if key in self.content.keys and key != self.marked:
            self.marked = key
            self._show_mark()
            self._draw()
            self.post_message(self.Moved(self))

    def action_move(self, by: int) -> None:
        keys = self.content.keys
        if keys and self.is_open:
            at = keys.index(self.marked) if self.marked in keys else 0
            self.mark(keys[max(0, min(len(keys) - 1, at + by))])

    def action_page(self, by: int) -> None:
        self.action_move(by * max(self.page_rows - 1, 1))

    def _show_mark(self) -> None:
        """Scroll so far that the marked row is seen."""
        if self.marked in self.content.keys and self.page_rows:
            at = self.content.keys.index(self.marked)
            self._top = max(min(self._top, at), at - self.page_rows + 1)

    def _scroll(self, by: int) -> None:
        self._top += by
        self._draw()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self._scroll(_WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self._scroll(-_WHEEL_ROWS)

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None:
            self.clicked(offset, event.chain)

    def clicked(self, offset: Offset, chain: int) -> None:
        """`chain`: the how many-th click at this place."""
        at = self._top + offset.y - 1
        if not self.is_open:
            self.post_message(self.Taken(self))
        elif offset.y and at < len(self.content.keys):
            self.mark(self.content.keys[at])
            if chain == 2:
                self.post_message(self.Taken(self))
