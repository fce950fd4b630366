"""A screen of panes with a line of tabs above, and a line about what is marked and the keys below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from tui.screens.opens_logs import OpensLogs
from tui.widgets.key_bar import KeyBar
from tui.widgets.one_line import OneLine, TabLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult

    from tui.widgets.row_pane import RowPane

P = TypeVar("P", bound=str)


class PanedScreen(OpensLogs, Generic[P]):
    """Panes are drawn by name; whoever draws says how many rows each gets."""

    DEFAULT_CSS = """
    PanedScreen { layout: vertical; }
    #top { background: $panel; }
    .last-line { dock: bottom; margin-bottom: 1; }
    PanedScreen.-bare #top, PanedScreen.-bare #tabs, PanedScreen.-bare #keys { display: none; }
    PanedScreen.-bare .last-line { margin-bottom: 0; }
    """

    def __init__(self, panes: Mapping[P, type[RowPane]], last_line: str) -> None:
        """`last_line` is the id of the line above the keys."""
        super().__init__()
        glyphs = self.console.glyphs
        self._top, self._tabs = OneLine(glyphs, id="top"), TabLine(glyphs, id="tabs")
        self.panes: dict[P, RowPane] = {name: pane(glyphs, id=name) for name, pane in panes.items()}
        self._last = OneLine(glyphs, id=last_line)
        self._last.add_class("last-line")
        self._heights: dict[P, int] = {}

    def compose(self) -> ComposeResult:
        yield from (self._top, self._tabs, *self.panes.values(), self._last)
        yield KeyBar(self.console.glyphs)

    @property
    def room(self) -> int:
        """Rows between the lines above and below the panes."""
        return max(self.size.height - (1 if self.has_class("-bare") else 4), 0)

    def give(self, given: Mapping[P, int]) -> None:
        """Rows of each pane; a blank one above each where there is enough, one row is folded, none is hidden."""
        above = int(self.room - sum(given.values()) >= len(self.panes) and not self.has_class("-bare"))
        for name, rows in given.items():
            pane = self.panes[name]
            if pane.styles.margin.top != above:
                pane.styles.margin = (above, 0, 0, 0)
            if rows != self._heights.get(name):
                pane.styles.height = rows
                pane.display = rows > 0
                pane.can_focus = rows > 1
        self._heights = dict(given)
