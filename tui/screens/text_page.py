"""A page of text over another screen: read, copied, exported, left with esc."""

from __future__ import annotations

from abc import abstractmethod
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


MOST_COLUMNS = 120


class Page(ConsoleScreen):
    """One text that is as wide as the screen allows."""

    @abstractmethod
    def about(self) -> tuple[str, str]:
        """What the top line says of it."""

    @abstractmethod
    def text(self, width: int) -> Content:
        """For lines of `width` cells."""

    def compose(self) -> ComposeResult:
        yield TopBar(self.console.glyphs, self.console.backend.clock)
        with VerticalScroll(id="page"):
            yield Words(self.console.glyphs, id="text")
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.query_one(TopBar).set_about(*self.about(), "")
        self.query_one("#page").focus()

    def on_resize(self) -> None:
        self.query_one("#text", Words).show(self.text(max(self.size.width - 6, 30)))
        self.refresh_keys()


class TextPage(Page):
    """`rows` gives the text for a width."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("report")]

    def __init__(self, name: str, title: str, rows: Callable[[int], Sequence[Content]]) -> None:
        super().__init__()
        self._about = (name, title)
        self._rows = rows

    def about(self) -> tuple[str, str]:
        return self._about

    def text(self, width: int) -> Content:
        return lines(self._rows(min(width, MOST_COLUMNS)))

    def plain_text(self) -> str:
        return "\n".join(row.plain.rstrip() for row in self._rows(MOST_COLUMNS)) + "\n"

    def moment(self) -> Moment:
        return Moment(place="report")
