"""The report of a case as text: read, copied or exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll

from tui import actions
from tui.actions import Moment
from tui.screens.base import ConsoleScreen
from tui.widgets.clean_text import clean
from tui.widgets.key_bar import KeyBar
from tui.widgets.top_bar import TopBar
from tui.widgets.words import Words, lines, part, wrapped

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

_MOST_BYTES = 2_000_000


def read_report(path: Path) -> str:
    """The report's text, or a sentence that says why it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"The report cannot be read: {path}: {error.strerror}"


def draw_report(text: str, width: int) -> Content:
    rows: list[Content] = []
    for line in text.split("\n"):
        plain = clean(line)
        style = "bold" if plain.startswith("#") else {"+": "$success", "-": "$error"}.get(_diff_sign(plain), "")
        rows += wrapped(plain, width, style=style) if plain else [part("")]
    return lines(rows)


def _diff_sign(line: str) -> str:
    return line[0] if (line[:1] in ("+", "-") and line[1:2] not in ("", " ", "-")) or line[:3] in ("+  ", "-  ") else ""


class ReportScreen(ConsoleScreen):
    """Shows the file; `y` and `e` take the text as it is written there."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("report")]

    def __init__(self, case: str, path: Path) -> None:
        super().__init__()
        self._case, self._path = case, path
        self._text = read_report(path)

    def compose(self) -> ComposeResult:
        yield TopBar(self.console.glyphs, self.console.backend.clock)
        with VerticalScroll(id="page"):
            yield Words(self.console.glyphs, id="text")
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.query_one(TopBar).set_about(f"report of case {self._case}", str(self._path), "")
        self.query_one("#page").focus()

    def on_resize(self) -> None:
        self.query_one("#text", Words).show(draw_report(self._text, min(max(self.size.width - 4, 30), 120)))
        self.refresh_keys()

    def plain_text(self) -> str:
        return self._text

    def moment(self) -> Moment:
        return Moment(place="report")
