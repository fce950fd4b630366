"""Two questions: yes or no beside what it is about, and one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import Input

from tui.widgets.words import Words, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.events import Click, Key
    from textual.screen import Screen

    from tui.themes.glyphs import Glyphs


def answer_keys(*pairs: tuple[str, str, str]) -> Content:
    """(key, label, action) in a row, each a link."""
    return Content("   ").join(
        [
            (part(key, "$accent bold") + part(f" {label}")).stylize(Style.from_meta({"does": action}))
            for key, label, action in pairs
        ]
    )


_LOW_ROWS, _LOWEST_ROWS = 14, 6
"""Fewer rows than these: without frame and gaps; then without what is not needed for an answer."""


def fit_dialog(screen: Screen[Any]) -> None:
    screen.set_class(screen.size.height < _LOW_ROWS, "-low")
    screen.set_class(screen.size.height < _LOWEST_ROWS, "-lowest")


class Confirm(ModalScreen[bool]):
    """Shows what will happen, then asks."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", "yes"),
        Binding("escape,n", "answer(False)", "no"),
        Binding("q,ctrl+c", "interrupt", "no, or yes to leaving"),
    ]

    def __init__(
        self, glyphs: Glyphs, question: str, about: Content, yes: str, no: str = "no", *, leaves: bool = False
    ) -> None:
        """`leaves`: yes is the way out, so a second q or ctrl+c says it too."""
        super().__init__()
        self.leaves = leaves
        self._glyphs, self._question, self._about, self._yes, self._no = glyphs, question, about, yes, no

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words(self._glyphs, id="question")
            with VerticalScroll(id="about-scroll"):
                yield Words(self._glyphs, id="about")
            yield Words(self._glyphs, id="answers")

    def on_mount(self) -> None:
        self.query_one("#question", Words).show(part(self._question, "bold"))
        self.query_one("#about", Words).show(self._about)
        keys = answer_keys(("enter", self._yes, "yes"), ("esc", self._no, "no"))
        self.query_one("#answers", Words).show(keys)
        self.query_one("#about-scroll").focus()

    def on_resize(self) -> None:
        fit_dialog(self)

    def on_click(self, event: Click) -> None:
        does = event.style.meta.get("does")
        if does:
            self.action_answer(does == "yes")

    def action_interrupt(self) -> None:
        """A second q or ctrl+c leaves; any other question they answer with no."""
        self.dismiss(self.leaves)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Line(Input):
    """Handles its keys in the order in which they came.

    Textual inserts a letter at once but lets a bound key, such as backspace, go up to the app first: of keys that a
    slow connection delivers together, the letters would come first.
    """

    async def _on_key(self, event: Key) -> None:
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            event.stop()
            event.prevent_default()
            await self.run_action(binding.action)


class AskText(ModalScreen[str | None]):
    """One line of text; `trouble_with` says in words what is wrong with it, or None."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel"),
        Binding("ctrl+c", "leave", "cancel", priority=True),
    ]

    def __init__(
        self,
        glyphs: Glyphs,
        question: str,
        hint: str,
        value: str = "",
        trouble_with: Callable[[str], str | None] = lambda _text: None,
    ) -> None:
        super().__init__()
        self._glyphs, self._question, self._hint = glyphs, question, hint
        self._value, self._trouble_with = value, trouble_with

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Words(self._glyphs, id="question")
            yield Line(self._value, id="value", select_on_focus=False)
            yield Words(self._glyphs, id="about")
            yield Words(self._glyphs, id="answers")

    def on_mount(self) -> None:
        self.query_one("#question", Words).show(part(self._question, "bold"))
        self.query_one("#about", Words).show(part(self._hint, "$quiet"))
        keys = answer_keys(("enter", "use it", "take"), ("esc", "cancel", "leave"))
        self.query_one("#answers", Words).show(keys)
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        fit_dialog(self)

    def on_input_changed(self) -> None:
        self.query_one("#about", Words).show(part(self._hint, "$quiet"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._take(event.value)

    def on_click(self, event: Click) -> None:
        does = event.style.meta.get("does")
        if does == "take":
            self._take(self.query_one(Input).value)
        elif does == "leave":
            self.action_leave()

    def _take(self, text: str) -> None:
        text = text.strip()
        trouble = self._trouble_with(text)
        if trouble:
            self.query_one("#about", Words).show(part(trouble, "$warning"))
        else:
            self.dismiss(text)

    def action_leave(self) -> None:
        self.dismiss(None)
