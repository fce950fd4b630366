"""The report of a case as text: read, copied or exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui import actions
from tui.actions import Moment
from tui.screens.text_page import MOST_COLUMNS, Page
from tui.widgets.clean_text import clean
from tui.widgets.words import lines, part, wrapped

if TYPE_CHECKING:
    from pathlib import Path

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


class ReportScreen(Page):
    """Shows the file; `y` and `e` take the text as it is written there."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("report")]

    def __init__(self, case: str, path: Path) -> None:
        super().__init__()
        self._case, self._path = case, path
        self._text = read_report(path)

    def about(self) -> tuple[str, str]:
        return f"report of case {self._case}", str(self._path)

    def text(self, width: int) -> Content:
        return draw_report(self._text, min(width + 2, MOST_COLUMNS))

    def plain_text(self) -> str:
        return self._text

    def moment(self) -> Moment:
        return Moment(place="report")
