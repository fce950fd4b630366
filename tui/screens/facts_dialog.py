"""Text over the screen that scrolls and closes; keys under it may do something about what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen

from tui.screens.dialogs import answer_keys, fit_dialog
from tui.widgets.clean_text import clean
from tui.widgets.words import Words, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult
    from textual.content import Content
    from textual.events import Click, Key

    from tui.themes.glyphs import Glyphs

_FRAME_CELLS, _FRAME_ROWS, _MOST_CELLS = 8, 8, 120


class FactsDialog(ModalScreen[str | None]):
    """Dismissed with the id of the key that was pressed, or None."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,ctrl+c", "leave", "close"),
    ]

    def __init__(
        self,
        glyphs: Glyphs,
        title: str,
        draw: Callable[[int], Content],
        keys: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """`draw` makes the text for a width. `keys`: what a key means, and the id it is answered with."""
        super().__init__()
        self._glyphs, self._title, self._draw, self._keys = glyphs, title, draw, dict(keys or {})

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words(self._glyphs, id="question")
            with VerticalScroll(id="about-scroll"):
                yield Words(self._glyphs, id="about")
            yield Words(self._glyphs, id="answers")

    def on_mount(self) -> None:
        self.query_one(".dialog").styles.width = _MOST_CELLS
        self.query_one("#question", Words).show(part(clean(self._title), "bold"))
        own = [(key, label, answer) for key, (label, answer) in self._keys.items()]
        self.query_one("#answers", Words).show(answer_keys(*own, ("esc", "close", "")))
        self.query_one("#about-scroll").focus()

    def on_resize(self) -> None:
        fit_dialog(self)
        width = max(min(self.size.width * 94 // 100, _MOST_CELLS) - _FRAME_CELLS, 20)
        self.query_one("#about-scroll").styles.max_height = max(self.size.height * 92 // 100 - _FRAME_ROWS, 1)
        about = self.query_one("#about", Words)
        about.show(self._draw(width))
        # A size that changes while sizes are given out does not count.
        self.call_after_refresh(about.refresh, layout=True)

    def on_key(self, event: Key) -> None:
        if event.key in self._keys:
            event.stop()
            self.dismiss(self._keys[event.key][1])

    def on_click(self, event: Click) -> None:
        does = event.style.meta.get("does")
        if does is not None:
            self.dismiss(does or None)

    def action_leave(self) -> None:
        self.dismiss(None)
