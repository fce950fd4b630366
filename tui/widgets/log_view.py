"""A log of any size on the screen: only the lines that are seen are read, and they are data, never markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.widgets.log_view_draw import draw_break, draw_columns, draw_piece, hidden_words
from tui.widgets.log_view_kept import KeptRows, Look
from tui.widgets.log_view_wrap import Spot, moved

if TYPE_CHECKING:
    from textual.events import Click, MouseScrollDown, MouseScrollUp

    from engine_probe.logs.folds import Fold
    from tui.opened_log import OpenedLog
    from tui.themes.glyphs import Glyphs
    from tui.widgets.log_view_rows import ShownRow

_WHEEL_ROWS = 3


class LogView(ScrollView, can_focus=True):
    """Follows the end. Moving up pauses following; `end` or `space` follows again."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log--clock", "log--frontend", "log--engine", "log--worker", "log--model_runner", "log--outside",
        "log--unknown", "log--debug", "log--info", "log--warn", "log--error", "log--break", "log--marked",
        "log--found",
    }  # fmt: skip
    DEFAULT_CSS = """
    LogView { height: 1fr; padding: 0 1; scrollbar-size: 0 1; border-top: solid $rule; }
    LogView > .log--clock, LogView > .log--debug, LogView > .log--unknown { color: $quiet; }
    LogView > .log--info { color: $foreground; }
    LogView > .log--warn { color: $warning; }
    LogView > .log--error { color: $error; }
    LogView > .log--break { color: $warning; text-style: bold; }
    LogView > .log--found { color: $accent; text-style: bold reverse; }
    LogView > .log--marked { background: $chosen; text-style: bold; }
    LogView > .log--frontend { color: $layer-frontend; text-style: bold; }
    LogView > .log--engine { color: $layer-engine; text-style: bold; }
    LogView > .log--worker { color: $layer-worker; text-style: bold; }
    LogView > .log--model_runner { color: $layer-model-runner; text-style: bold; }
    LogView > .log--outside { color: $layer-outside; text-style: bold; }
    """

    class Moved(Message):
        """Another part is shown, or following was paused or taken up again."""

    def __init__(self, log: OpenedLog, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._log, self._glyphs = log, glyphs
        self._rows = KeptRows(log, glyphs)
        self._generation = log.generation
        self._state_of_rows = log.state_of_rows
        self._top = 0
        """The line in the first row that is seen."""
        self._seen: object = None
        self._page_of: object = None
        self._known_page: list[Spot] = []
        self._skip = 0
        """Screen rows of the first row that are above what is seen; it may be wrapped."""
        self._end = Spot(0)
        """The first row when the end is seen."""
        self.following = True
        self.raw = self.bare = False
        self.wrap = False
        self.marked: int | None = None

    # What is shown

    @property
    def shows_tail(self) -> bool:
        """The last lines of a file that is not read to its end yet."""
        return self.following and not self._log.has_been_read and not self._log.is_filtered

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    def take(self) -> None:
        """What the log holds now."""
        was_moved = self._update()
        self._measure()
        if self.following:
            self._to(self._end)
        elif was_moved:
            self._to(Spot(self._log.row_of(self._top), self._skip))
        self._top = self._log.line_at(self.scroll_offset.y)
        if self.show_vertical_scrollbar:  # it may have been shown only after the scrolling
            self.vertical_scrollbar.position = self.scroll_y
        self._draw_if_changed()

    def _update(self) -> bool:
        """Whether lines may stand in other rows now."""
        log = self._log
        was_moved = log.state_of_rows != self._state_of_rows
        self._state_of_rows = log.state_of_rows
        if self._generation != log.generation:
            self._generation, self.marked = log.generation, None
        elif was_moved and self.marked is not None:
            self.marked = log.seen_as(self.marked)
        look = Look(self.is_as_printed, self.wrap, self.size.width, self.scrollable_content_region.width)
        self._rows.update(look, max(1, self._height) if self.shows_tail else 0)
        return was_moved

    def _measure(self) -> None:
        """How far can be scrolled. Only the last rows are looked at: where lines are wrapped, the bar is not exact."""
        rows, height = len(self._rows), self._height
        self._end = moved(Spot(rows), -height, rows, self._rows.height) if rows else Spot(0)
        wide = 0 if self.wrap else self._rows.widest
        self.virtual_size = Size(wide, self._end.row + height if rows > height or self.wrap else rows)

    def _draw_if_changed(self) -> None:
        """A slow connection is sent nothing while what is seen stays the same."""
        look = (self.marked, self.is_as_printed, self.wrap, self._log.pattern)
        seen = (self.scroll_offset, self._skip, self.size, self.visible_rows(), look)
        if seen != self._seen:
            self._seen = seen
            self.refresh()

    def visible_rows(self) -> list[ShownRow]:
        rows = (self._rows.row(row) for row in dict.fromkeys(row for row, _ in self._page()))
        return [row for row in rows if row is not None]

    def _page(self) -> list[Spot]:
        """What stands in each row of the screen."""
        row, skip, height = self.scroll_offset.y, self._skip, self._height
        state = (row, skip, height, len(self._rows), self._rows.version)
        if state != self._page_of:
            self._page_of, self._known_page = state, []
            while len(self._known_page) < height and row < len(self._rows):
                self._known_page += (Spot(row, piece) for piece in range(skip, self._rows.height(row)))
                row, skip = row + 1, 0
            del self._known_page[height:]
        return self._known_page

    # Where it is

    @property
    def place(self) -> int:
        """The line that next and before count from: the marked one while it is seen, else the first that is seen."""
        if self.marked is not None and self._is_marked_seen:
            return self.marked
        return self._log.line_at(self.scroll_offset.y)

    def _is_seen(self, row: int) -> bool:
        return Spot(row) in self._page()

    @property
    def _is_marked_seen(self) -> bool:
        return self.marked is not None and self._is_seen(self._log.row_of(self.marked))

    @property
    def fold(self) -> tuple[Fold, bool] | None:
        """The traceback of the marked line while it is seen, else the first that begins in what is seen; is it closed?

        None where there is none.
        """
        folding = self._log.folding
        if not folding.has_folds:
            return None
        fold = folding.fold_at(self.marked) if self._is_marked_seen and self.marked is not None else None
        fold = fold or next((row.fold for row in self.visible_rows() if row.fold is not None), None)
        return None if fold is None else (fold, folding.is_closed(fold))

    def mark(self, line: int) -> None:
        """Show `line` with some lines before it; where a closed traceback hides it, the traceback."""
        self.marked = line = self._log.seen_as(line)
        self._set_following(False)
        self._update()
        self._measure()
        row = self._log.row_of(line)
        if Spot(row) not in self._page()[:-1]:
            self._to(moved(Spot(row), -(self._height // 3), len(self._rows), self._rows.height))
        self.refresh()
        self.post_message(self.Moved())

    def mark_next(self, by: int) -> None:
        """The line that stands so many rows further; the first that is seen where none is marked there."""
        row = None if self.marked is None else self._log.row_of(self.marked)
        row = self.scroll_offset.y if row is None or not self._is_seen(row) else row + by
        while 0 <= row < len(self._rows):
            shown = self._rows.row(row)
            if shown is not None and shown.number is not None:
                self.mark(shown.number)
                return
            row += by

    def on_click(self, event: Click) -> None:
        """Marks a line; the marked one's traceback is opened or closed."""
        place, page = event.get_content_offset(self), self._page()
        row = None if place is None or place.y >= len(page) else self._rows.row(page[place.y].row)
        if row is None or row.number is None:
            return
        if row.number == self.marked and row.fold is not None:
            self._log.turn(row.fold)
        self.mark(row.number)

    def keep_place(self, line: int) -> None:
        """After another filter or look: the same line, or what stands near it, is at the top."""
        self.take()
        if not self.following:
            self._to(Spot(self._log.row_of(line)))

    @property
    def is_as_printed(self) -> bool:
        """Lines are whole, without columns, and no traceback is folded."""
        return self.raw or self.bare

    def look(self, *, raw: bool | None = None, wrap: bool | None = None, bare: bool | None = None) -> None:
        """Show lines as they were printed or in columns; wrap long ones or cut them; `bare`: nothing but their text."""
        line, was_seen = self._log.line_at(self.scroll_offset.y), self._is_marked_seen
        self.raw = self.raw if raw is None else raw
        self.wrap = self.wrap if wrap is None else wrap
        self.bare = self.bare if bare is None else bare
        self._log.fold_lines(not self.is_as_printed)
        self.keep_place(line)
        if was_seen and not self._is_marked_seen and self.marked is not None:
            self.mark(self.marked)

    def follow(self, following: bool) -> None:
        self._set_following(following)
        self.take()

    def _set_following(self, following: bool) -> None:
        if following != self.following:
            was_tail = bool(self._rows.tail)
            self.following = following
            if was_tail and not following:
                self.take()
                self._to(self._end)
            self.post_message(self.Moved())

    # Moving; rows of the screen, so that nothing is skipped where lines are wrapped

    def move(self, by: int) -> None:
        """Down by so many rows, or up where it is negative; up pauses following."""
        if by < 0 and self._end > Spot(0):
            self._set_following(False)
        self._to(moved(Spot(self.scroll_offset.y, self._skip), by, len(self._rows), self._rows.height))

    def move_page(self, pages: float) -> None:
        self.move(int(self._height * pages))

    def move_to_start(self) -> None:
        if self._end > Spot(0):
            self._set_following(False)
        self._to(Spot(0))

    def _to(self, spot: Spot) -> None:
        spot = min(spot, self._end)
        was = Spot(self.scroll_offset.y, self._skip)
        self.scroll_to(y=spot.row, animate=False, immediate=True, force=True)
        self._skip = spot.skip
        if spot.row == was.row and spot != was:
            self.refresh()
            self.post_message(self.Moved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._skip = self._end.skip if new_value >= self._end.row else 0
        self._top = self._log.line_at(self.scroll_offset.y)
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        self.take()

    def on_scroll_to(self) -> None:
        """The bar was dragged."""
        if self._end > Spot(0):
            self._set_following(False)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        if not (event.ctrl or event.shift):
            event.prevent_default()
            event.stop()
            self.move(-_WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        if not (event.ctrl or event.shift):
            event.prevent_default()
            event.stop()
            self.move(_WHEEL_ROWS)

    def action_scroll_up(self) -> None:
        self.move(-1)

    def action_scroll_down(self) -> None:
        self.move(1)

    def action_page_up(self) -> None:
        self.move_page(-1)

    def action_page_down(self) -> None:
        self.move_page(1)

    def action_scroll_home(self) -> None:
        self.move_to_start()

    def action_scroll_end(self) -> None:
        self.follow(True)

    # How a row looks

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        page = self._page()
        row = self._rows.row(page[y].row) if y < len(page) else None
        if row is None:
            return Strip.blank(width, self.rich_style)
        if row.is_break:
            return draw_break(row.raw, width, self._glyphs, self._styled("break")).crop_extend(
                0, width, self.rich_style
            )
        fixed = self._fixed(row, page[y])
        rest = [] if self.wrap or not row.hidden else [Segment(hidden_words(row), self._styled("clock"))]
        taken = sum(cell_len(segment.text) for segment in (*fixed, *rest))
        left = 0 if self.wrap else self.scroll_offset.x
        text = self._drawn_piece(row, page[y]).crop_extend(left, left + max(width - taken, 0), self.rich_style)
        whole = Strip.join([Strip(fixed), text, Strip(rest)]).crop_extend(0, width, self.rich_style)
        if not self._is_marked(row):
            return whole
        return Strip(Segment.apply_style(whole, post_style=self._marked_style()), width)

    def _fixed(self, row: ShownRow, spot: Spot) -> list[Segment]:
        """What stands before the text."""
        if self.is_as_printed:
            return []
        if spot.skip:
            return [Segment(" " * self._rows.columns_cells, self._styled(row.level))]
        rows, marked = self._rows, self._is_marked(row)
        day = rows.new_day(spot.row)
        return draw_columns(
            row, self.size.width, self._glyphs, self._styled, rows.source_cells, is_marked=marked, day=day
        )

    def _is_marked(self, row: ShownRow) -> bool:
        return row.number is not None and row.number == self.marked

    def _drawn_piece(self, row: ShownRow, spot: Spot) -> Strip:
        text, style = self._rows.text(spot.row), self._styled(row.style)
        matches = self._rows.matches(spot.row)
        piece = self._rows.pieces(spot.row)[spot.skip]
        return Strip(draw_piece(text, piece, matches, style, style + self._styled("found")))

    def _styled(self, name: str) -> Style:
        return self.get_component_rich_style(f"log--{name}")

    def _marked_style(self) -> Style:
        """Only its background is taken: the colours of level and layer stay. Without columns it has no sign."""
        return Style(bgcolor=self._styled("marked").bgcolor, bold=True, reverse=True if self.is_as_printed else None)
