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

from engine_probe.logs.follow import Break
from tui.themes.palette import LAYER_LETTERS
from tui.widgets.log_view_rows import ShownRow, row_of_break, row_of_line, row_of_text

if TYPE_CHECKING:
    from tui.opened_log import OpenedLog
    from tui.themes.glyphs import Glyphs

_TAG_CELLS, _WIDE_TAG_CELLS = 4, 16
_WIDE = 110
_MOST_KEPT = 2000


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
        self._kept: dict[int, ShownRow] = {}
        self._kept_of: object = None
        self._tail: list[ShownRow] = []
        self._generation = log.generation
        self._rows_kept = 0
        self._seen: object = None
        self._widest = 0
        self.following = True
        self.raw = False
        self.marked: int | None = None

    # What is shown

    @property
    def shows_tail(self) -> bool:
        """The last lines of a file that is not read to its end yet."""
        return self.following and not self._log.has_been_read and not self._log.is_filtered

    def take(self) -> None:
        """What the log holds now."""
        self._forget_stale()
        height = max(1, self.scrollable_content_region.height)
        self._tail = [row_of_text(text) for text in self._log.index.tail(height)] if self.shows_tail else []
        rows = len(self._tail) or self._log.row_count
        self.virtual_size = Size(self._widest, rows)
        if self.following:
            self._to_end()
        if self.show_vertical_scrollbar:  # it may have been shown only after the scrolling
            self.vertical_scrollbar.position = self.scroll_y
        self._draw_if_changed()

    def _draw_if_changed(self) -> None:
        """A slow connection is sent nothing while what is seen stays the same."""
        seen = (self.scroll_offset, self.size, self.visible_rows(), self.marked, self.raw, self._log.pattern)
        if seen != self._seen:
            self._seen = seen
            self.refresh()

    def _forget_stale(self) -> None:
        """Rows keep their place while lines are only added; the last line may have been unfinished."""
        state = (self._log.generation, self._log.wanted, self.shows_tail, len(self._log.breaks), self.raw)
        if self._generation != self._log.generation:
            self._generation, self.marked = self._log.generation, None
        if state != self._kept_of or len(self._kept) > _MOST_KEPT:
            self._kept.clear()
            self._kept_of = state
        for row in [row for row in self._kept if row >= self._rows_kept - 1]:
            del self._kept[row]
        self._rows_kept = self._log.row_count

    def visible_rows(self) -> list[ShownRow]:
        top = self.scroll_offset.y
        rows = (self._row(row) for row in range(top, top + self.scrollable_content_region.height))
        return [row for row in rows if row is not None]

    def _row(self, row: int) -> ShownRow | None:
        if self._tail:
            return self._tail[row] if row < len(self._tail) else None
        if row not in self._kept:
            height = self.scrollable_content_region.height
            for number, found in enumerate(self._log.rows(row, row + height)):
                shown = row_of_break(found) if isinstance(found, Break) else row_of_line(found)
                self._kept[row + number] = shown
                self._widest = max(self._widest, cell_len(shown.raw) + 2)
        return self._kept.get(row)

    # Where it is

    @property
    def place(self) -> int:
        """The line that next and before count from: the marked one while it is seen, else the first that is seen."""
        top = self.scroll_offset.y
        if self.marked is not None:
            row = self._log.row_of(self.marked)
            if top <= row < top + self.scrollable_content_region.height:
                return self.marked
        return self._log.line_at(top)

    def mark(self, line: int) -> None:
        """Show `line` with some lines before it."""
        self.marked = line
        self._set_following(False)
        self.virtual_size = Size(self._widest, self._log.row_count)
        height = self.scrollable_content_region.height
        row = self._log.row_of(line)
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height - 1:
            self.scroll_to(y=max(0, row - height // 3), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def keep_place(self, line: int) -> None:
        """After another filter: the same line, or what stands near it, is at the top."""
        self.take()
        if not self.following:
            self.scroll_to(y=self._log.row_of(line), animate=False, immediate=True)

    def follow(self, following: bool) -> None:
        self._set_following(following)
        self.take()

    def _set_following(self, following: bool) -> None:
        if following != self.following:
            was_tail = bool(self._tail)
            self.following = following
            if was_tail and not following:
                self._tail = []
                self.take()
                self._to_end()
            self.post_message(self.Moved())

    def _to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        self.take()

    # A person moved up, by wheel, scroll bar or key
    def on_mouse_scroll_up(self) -> None:
        self._pause()

    def on_scroll_to(self) -> None:
        self._pause()

    def action_scroll_up(self) -> None:
        self._pause()
        super().action_scroll_up()

    def action_page_up(self) -> None:
        self._pause()
        super().action_page_up()

    def action_scroll_home(self) -> None:
        self._pause()
        super().action_scroll_home()

    def action_scroll_end(self) -> None:
        self.follow(True)

    def _pause(self) -> None:
        if self._log.row_count > self.scrollable_content_region.height:
            self._set_following(False)

    # How a row looks

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width = self.scrollable_content_region.width
        row = self._row(top + y)
        if row is None:
            return Strip.blank(width, self.rich_style)
        if row.is_break:
            line = self._glyphs.line_open
            return Strip([Segment(self._glyphs.text(f"{line * 2} {row.raw} ".ljust(width, line)),
                                  self._styled("break"))]).crop_extend(0, width, self.rich_style)  # fmt: skip
        fixed = [] if self.raw else self._columns(row)
        text = row.raw if self.raw else row.text
        strip = Strip(self._with_matches(self._glyphs.text(text), self._styled(row.level)))
        taken = sum(cell_len(segment.text) for segment in fixed)
        shown = strip.crop_extend(left, left + max(width - taken, 0), self.rich_style)
        whole = Strip.join([Strip(fixed), shown]).crop_extend(0, width, self.rich_style)
        is_marked = row.number is not None and row.number == self.marked
        return Strip(Segment.apply_style(whole, post_style=self._marked_style()), width) if is_marked else whole

    def _with_matches(self, text: str, style: Style) -> list[Segment]:
        """What a search found stands out."""
        if self._log.pattern is None:
            return [Segment(text, style)]
        found, segments, at = style + self._styled("found"), [], 0
        for match in self._log.pattern.finditer(text):
            segments += [Segment(text[at : match.start()], style), Segment(match[0], found)]
            at = match.end()
        return [segment for segment in (*segments, Segment(text[at:], style)) if segment.text]

    def _columns(self, row: ShownRow) -> list[Segment]:
        letter = LAYER_LETTERS.get(row.layer, " ")
        if self.size.width >= _WIDE:
            tag = f"{letter} {row.process[: _WIDE_TAG_CELLS - 3]}".ljust(_WIDE_TAG_CELLS)
        else:
            tag = f"{letter}{row.rank}"[: _TAG_CELLS - 1].ljust(_TAG_CELLS)
        sign = {"error": self._glyphs.failed, "warn": "!"}.get(row.level, " ")
        return [
            Segment(f"{row.clock:8} ", self._styled("clock")),
            Segment(self._glyphs.text(tag), self._styled(row.layer)),
            Segment(f"{sign} ", self._styled(row.level)),
        ]

    def _styled(self, name: str) -> Style:
        return self.get_component_rich_style(f"log--{name}")

    def _marked_style(self) -> Style:
        """Only its background is taken: the colours of level and layer stay."""
        return Style(bgcolor=self._styled("marked").bgcolor, bold=True)
