"""The models of a plan, one a row: what was asked for, what it takes of each GPU, how much it serves, its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import right
from tui.widgets.plan_columns import LEAST_NAME, LEAST_VERDICT, columns_for, field_at
from tui.widgets.plan_stacks import LETTERS, colour_of
from tui.widgets.row_pane import MARK_CELLS, PaneContent, Piece, Row, RowPane, cells_of, fit
from tui.widgets.words import cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.geometry import Offset

    from playbooks.placement import PlacedModel, Plan
    from tui.plan_values import Field
    from tui.themes.glyphs import Glyphs
    from tui.widgets.plan_columns import Column

_MOST_NAME = 28


@dataclass(frozen=True)
class Look:
    """How the table is drawn: `changed` values of each model differ from the file, as may the start order.

    `focus` is what keys change of the marked model.
    """

    changed: Mapping[str, tuple[Field, ...]]
    focus: Field
    marked: str
    has_other_order: bool
    glyphs: Glyphs


def draw_plan_models(plan: Plan, look: Look, width: int) -> PaneContent:
    """`width` without the mark."""
    columns = columns_for(width)
    left = width - MARK_CELLS - sum(column.cells for column in columns)
    longest = max([len(model.launch.name) for model in plan.models] + [LEAST_NAME])
    name = max(LEAST_NAME, min(longest + 2, _MOST_NAME, left - LEAST_VERDICT))
    rows = tuple(fit(_row(place, model, columns, look, name, width), width) for place, model in enumerate(plan.models))
    title = "Models order*" if look.has_other_order else "Models"
    heading = [(cell(title, name + MARK_CELLS + 2), "$accent bold" if look.has_other_order else "bold")]
    for column in columns:
        is_focus = column.field == look.focus
        label = f"{look.glyphs.running}{column.label}" if is_focus else column.label
        heading.append((right(label, column.cells - 1) + " ", "$accent bold" if is_focus else "$quiet"))
    heading.append((" verdict", "$quiet"))
    return PaneContent(tuple(heading), rows, tuple(model.launch.name for model in plan.models))


def _row(place: int, model: PlacedModel, columns: Sequence[Column], look: Look, name: int, width: int) -> Row:
    letter = LETTERS[place % len(LETTERS)]
    pieces: list[Piece] = [(f"{letter} {cell(clean(model.launch.name), name)}", f"{colour_of(place)} bold")]
    changed = look.changed.get(model.launch.name, ())
    for column in columns:
        is_changed = column.field in changed
        style = "$accent bold" if is_changed else ""
        if column.field == look.focus and model.launch.name == look.marked:
            style = f"{style} underline".strip()
        text = right(column.text(model) + ("*" if is_changed else " "), column.cells - 1)
        lead = len(text) - len(text.lstrip())
        pieces += [(text[:lead], ""), (text[lead:].rstrip(), style), (" " if is_changed else "  ", "")]
    pieces.append((" ", ""))
    return (*pieces, *verdict(model, width - cells_of(tuple(pieces)), look.glyphs))


def verdict(model: PlacedModel, width: int, glyphs: Glyphs) -> Row:
    """The name of what fails first, where it has room whole."""
    if model.why_not is None:
        return ((f"{glyphs.done} fits", "$success"),)
    words = model.why_not.id if len(model.why_not.id) + 2 <= width else "does not fit"
    return ((f"{glyphs.failed} {words}", "$error bold"),)


class PlanModels(RowPane):
    """Rows are keyed by the launch's name. The mark stays while the keys are in another pane."""

    @dataclass
    class ValueChosen(Message):
        """A value was clicked, or its column's name."""

        field: Field

    @property
    def shows_mark(self) -> bool:
        return True

    def clicked(self, offset: Offset, chain: int) -> None:
        super().clicked(offset, chain)
        field = field_at(offset.x, cells_of(self.content.heading[:1]), self.text_width)
        if field is not None and offset.y < len(self.content.keys) + 1:
            self.post_message(self.ValueChosen(field))
