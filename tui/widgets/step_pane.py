"""The main pane: words above, choices, words below. What stands in it is a frozen `Body`, made by pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content

from tui.widgets.choice_list import Choice, ChoiceList
from tui.widgets.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from tui.themes.glyphs import Glyphs

EMPTY = Content("")


@dataclass(frozen=True)
class Body:
    """One step as drawn for one width."""

    above: Content = EMPTY
    choices: tuple[Choice, ...] = ()
    marked: str | None = None
    below: Content = EMPTY

    @property
    def plain(self) -> str:
        """As text, for copy and export."""
        rows = [row.plain for choice in self.choices for row in choice.rows]
        parts = [self.above.plain, "\n".join(rows), self.below.plain]
        return "\n".join(line.rstrip() for text in parts if text for line in text.split("\n")) + "\n"


class StepPane(VerticalScroll, can_focus=False):
    """Scrolls as a whole."""

    DEFAULT_CSS = """
    StepPane { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    StepPane > Words { height: auto; }
    StepPane > .empty { display: none; }
    """

    def __init__(self, glyphs: Glyphs, on_marked: Callable[[str], None], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs, self._on_marked = glyphs, on_marked
        self.body = Body()

    def compose(self) -> ComposeResult:
        yield Words(self._glyphs, id="above")
        yield ChoiceList(self._glyphs, on_marked=self._on_marked, id="choices")
        yield Words(self._glyphs, id="below")

    def set_body(self, body: Body) -> None:
        self.body = body
        self.query_one("#above", Words).show(body.above)
        self.query_one("#below", Words).show(body.below)
        choices = self.query_one("#choices", ChoiceList)
        choices.set_choices(body.choices, body.marked)
        choices.set_class(not body.choices, "empty")
        self.query_one("#above").set_class(not body.above.plain, "empty")
        self.can_focus = not body.choices

    @property
    def text_width(self) -> int:
        """Wider lines are harder to read, and their columns fall apart."""
        return max(min(self.scrollable_content_region.width, 140), 20)
