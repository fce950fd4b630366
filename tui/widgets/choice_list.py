"""Rows of which one is marked; moved with the arrow keys or a click. Other rows may stand between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.content import Content
from textual.geometry import Region
from textual.message import Message

from tui.widgets.words import Words, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.events import Click

    from tui.themes.glyphs import Glyphs


@dataclass(frozen=True)
class Choice:
    """`id` None: a heading, which cannot be marked. `rows` are its lines, without the mark."""

    id: str | None
    rows: tuple[Content, ...]


class ChoiceList(Words, can_focus=True):
    """Keeps the marked choice by its id, so a list that grows does not move the mark."""

    DEFAULT_CSS = "ChoiceList { height: auto; } ChoiceList:focus { background-tint: $accent 4%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "scroll_around(-1)", "page up", show=False),
        Binding("pagedown", "scroll_around(1)", "page down", show=False),
    ]

    @dataclass
    class Taken(Message):
        """A choice was clicked twice."""

        choice: str

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        on_marked: Callable[[str], None] = lambda _choice: None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """`on_marked` is called at once, not by a message: the next key may be waiting, and acts on the new mark."""
        super().__init__(glyphs, id=id)
        self._on_marked = on_marked
        self._choices: tuple[Choice, ...] = ()
        self.marked: str | None = None

    def set_choices(self, choices: tuple[Choice, ...], marked: str | None) -> None:
        self._choices, self.marked = choices, marked
        self._draw()

    def action_move(self, by: int) -> None:
        ids = [choice.id for choice in self._choices if choice.id is not None]
        if not ids:
            return
        place = ids.index(self.marked) if self.marked in ids else -by
        following = ids[max(0, min(len(ids) - 1, place + by))]
        if following == self.marked and isinstance(self.parent, ScrollableContainer):
            self.parent.scroll_relative(y=by, animate=False)  # at the last one there may be more to read
        else:
            self._mark(following)

    def action_scroll_around(self, by: int) -> None:
        """The pane around scrolls, so what stands below the list can be read."""
        if isinstance(self.parent, ScrollableContainer):
            self.parent.scroll_relative(y=by * max(self.parent.size.height - 2, 1), animate=False)

    def on_click(self, event: Click) -> None:
        row = event.get_content_offset(self)
        chosen = self._choice_at(row.y) if row is not None else None
        if chosen is None:
            return
        self._mark(chosen)
        if event.chain == 2:
            self.post_message(self.Taken(chosen))

    def on_resize(self) -> None:
        self._draw()

    def _mark(self, choice: str) -> None:
        if choice != self.marked:
            self.marked = choice
            self._draw()
            self._on_marked(choice)
        self._scroll_to_mark()

    def _scroll_to_mark(self) -> None:
        top = 0
        for choice in self._choices:
            if choice.id == self.marked and isinstance(self.parent, ScrollableContainer):
                rows = Region(0, self.virtual_region.y + top, 1, len(choice.rows))
                self.parent.scroll_to_region(rows, animate=False, x_axis=False)
                return
            top += len(choice.rows)

    def _choice_at(self, y: int) -> str | None:
        for choice in self._choices:
            if y < len(choice.rows):
                return choice.id
            y -= len(choice.rows)
        return None

    def _draw(self) -> None:
        width = max(self.size.width, 1)
        rows: list[Content] = []
        for choice in self._choices:
            rows += self._marked_rows(choice, width) if choice.id == self.marked else self._plain_rows(choice)
        self.show(Content("\n").join(rows))

    def _marked_rows(self, choice: Choice, width: int) -> list[Content]:
        mark = self.glyphs.running + " "
        rows = [part(mark if i == 0 else "  ", "$accent bold") + row for i, row in enumerate(choice.rows)]
        return [row.pad_right(max(0, width - row.cell_length)).stylize_before("on $chosen") for row in rows]

    @staticmethod
    def _plain_rows(choice: Choice) -> list[Content]:
        return [(part("  ") if choice.id is not None else part("")) + row for row in choice.rows]
