"""A page of text over a list: read, copied, exported, left with esc."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll

from tui import actions
from tui.actions import Moment
from tui.screens.base import ConsoleScreen
from tui.widgets.key_bar import KeyBar
from tui.widgets.top_bar import TopBar
from tui.widgets.words import Words, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content


class TextPage(ConsoleScreen):
    """`rows` gives the text for a width."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("report")]

    def __init__(self, name: str, title: str, rows: Callable[[int], Sequence[Content]]) -> None:
        super().__init__()
        self._about = (name, title)
        self._rows = rows

    def compose(self) -> ComposeResult:
        yield TopBar(self.console.glyphs, self.console.backend.clock)
        with VerticalScroll(id="page"):
            yield Words(self.console.glyphs, id="text")
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.query_one(TopBar).set_about(*self._about, "")
        self.query_one("#page").focus()

    def on_resize(self) -> None:
        self.query_one("#text", Words).show(lines(self._rows(min(max(self.size.width - 6, 30), 120))))
        self.refresh_keys()

    def plain_text(self) -> str:
        return "\n".join(row.plain.rstrip() for row in self._rows(120)) + "\n"

    def moment(self) -> Moment:
        return Moment(place="report")
