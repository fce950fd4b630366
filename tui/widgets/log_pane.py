"""The live log: a bounded ring of rows, drawn line by line, never wrapped, never read as markup."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.themes.palette import LAYER_LETTERS

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.style import Style
    from textual.events import Blur, Focus

    from tui.themes.glyphs import Glyphs
    from tui.widgets.log_lines import LogRow

MOST_ROWS = 20_000
REFRESH_SECONDS = 0.1
_LEVEL_CELLS = 6


class LogPane(ScrollView, can_focus=True):
    """Follows the end. Scrolling up pauses following; `end` or `space` follows again."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log--clock", "log--frontend", "log--engine", "log--worker", "log--model_runner", "log--outside",
        "log--probe", "log--debug", "log--info", "log--warn", "log--error",
    }  # fmt: skip
    DEFAULT_CSS = """
    LogPane { border-top: solid $rule; border-title-color: $quiet; padding: 0 1; scrollbar-size: 0 1; }
    LogPane:focus { border-top: solid $accent; border-title-color: $foreground; border-title-style: bold; }
    LogPane > .log--clock, LogPane > .log--debug, LogPane > .log--probe { color: $quiet; }
    LogPane > .log--info { color: $foreground; }
    LogPane > .log--warn { color: $warning; }
    LogPane > .log--error { color: $error; }
    LogPane > .log--frontend { color: $layer-frontend; text-style: bold; }
    LogPane > .log--engine { color: $layer-engine; text-style: bold; }
    LogPane > .log--worker { color: $layer-worker; text-style: bold; }
    LogPane > .log--model_runner { color: $layer-model-runner; text-style: bold; }
    LogPane > .log--outside { color: $layer-outside; text-style: bold; }
    """

    class FollowChanged(Message):
        """Following was paused or taken up again."""

    def __init__(self, glyphs: Glyphs, *, most_rows: int = MOST_ROWS, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows: deque[LogRow] = deque(maxlen=most_rows)
        self._fresh: deque[LogRow] = deque(maxlen=most_rows)
        self._fresh_count = 0
        self._widest = 0
        self.total_rows = 0
        self.following = True

    def on_mount(self) -> None:
        self.set_interval(REFRESH_SECONDS, self.take_fresh)
        self._retitle()

    def add(self, rows: Collection[LogRow], count: int | None = None) -> None:
        """Cheap: rows wait here until the next refresh, at most ten times a second. `count`: with those not kept."""
        self._fresh.extend(rows)
        self._fresh_count += len(rows) if count is None else count

    def take_fresh(self) -> None:
        if not self._fresh:
            return
        lost = max(0, len(self._rows) + self._fresh_count - (self._rows.maxlen or 0))
        self._rows.extend(self._fresh)
        self._widest = max(self._widest, *(cell_len(row.text) for row in self._fresh))
        self.total_rows += self._fresh_count
        self._fresh.clear()
        self._fresh_count = 0
        self.virtual_size = Size(self._widest + 24, len(self._rows))
        if self.following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        elif lost:
            self.scroll_to(y=max(0, self.scroll_offset.y - lost), animate=False, immediate=True)
        self._retitle()
        self.refresh()

    @property
    def rows(self) -> tuple[LogRow, ...]:
        return tuple(self._rows)

    def follow(self, following: bool) -> None:
        self._set_following(following)
        if following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def _set_following(self, following: bool) -> None:
        if following != self.following:
            self.following = following
            self.post_message(self.FollowChanged())
            self._retitle()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.following and new_value > old_value and new_value >= self.max_scroll_y:
            self._set_following(True)

    def on_resize(self) -> None:
        if self.following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    # A person scrolled up, by wheel, scroll bar or key
    def on_mouse_scroll_up(self) -> None:
        self._pause_if_scrollable()

    def on_scroll_to(self) -> None:
        self._pause_if_scrollable()

    def action_scroll_up(self) -> None:
        self._pause_if_scrollable()
        super().action_scroll_up()

    def action_page_up(self) -> None:
        self._pause_if_scrollable()
        super().action_page_up()

    def action_scroll_home(self) -> None:
        self._pause_if_scrollable()
        super().action_scroll_home()

    def _pause_if_scrollable(self) -> None:
        if self.max_scroll_y > 0:
            self.follow(False)

    def on_focus(self, _event: Focus) -> None:
        self._retitle()

    def on_blur(self, _event: Blur) -> None:
        self._retitle()

    def _retitle(self) -> None:
        kept = len(self._rows)
        count = f"{self.total_rows:,} line" + ("s" if self.total_rows != 1 else "")
        count += f", last {kept:,} kept" if kept < self.total_rows else ""
        state = "following" if self.following else "paused, space follows"
        mark = self._glyphs.running + " " if self.has_focus else ""
        self.border_title = self._glyphs.text(f"{mark}Log · {count} · {state}")

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width = self.scrollable_content_region.width
        index = top + y
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[index]
        fixed = [
            Segment(f"{row.clock:8} ", self._styled("clock")),
            Segment(LAYER_LETTERS.get(row.layer or "", " ") + " ", self._styled(row.layer or "probe")),
        ]
        if self.size.width >= 90:
            fixed.append(Segment(row.level.ljust(_LEVEL_CELLS), self._styled(row.level)))
        else:
            mark = {"error": self._glyphs.failed, "warn": "!"}.get(row.level, " ")
            fixed.append(Segment(mark + " ", self._styled(row.level)))
        text = Strip([Segment(self._glyphs.text(row.text), self._styled(self._text_style(row)))])
        taken = sum(cell_len(segment.text) for segment in fixed)
        shown = text.crop_extend(left, left + max(width - taken, 0), self.rich_style)
        return Strip.join([Strip(fixed), shown]).crop_extend(0, width, self.rich_style)

    @staticmethod
    def _text_style(row: LogRow) -> str:
        return "probe" if row.layer is None and row.level == "info" else row.level

    def _styled(self, name: str) -> Style:
        return self.get_component_rich_style(f"log--{name}")
