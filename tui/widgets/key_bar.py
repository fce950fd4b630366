"""The footer: only the keys that work now, most useful first; a click does the same as the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.style import Style

from tui.widgets.words import Words, part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Click

    from tui.actions import Action
    from tui.themes.glyphs import Glyphs

SAID_SECONDS = 10.0
_ALWAYS = ("help", "quit")


def draw_keys(actions: Sequence[Action], width: int) -> Content:
    """As many as fit `width`; help and quit are kept to the last."""
    shown = [action for action in actions if action.in_footer]
    while len(shown) > len(_ALWAYS) and _cells(shown) > width:
        droppable = [action for action in shown if action.id not in _ALWAYS]
        if not droppable:
            break
        shown.remove(droppable[-1])
    return Content("   ").join([_key(action) for action in shown])


def _cells(actions: Sequence[Action]) -> int:
    return sum(len(a.shown_key) + 1 + len(a.label) for a in actions) + 3 * (len(actions) - 1)


def _key(action: Action) -> Content:
    link = Style.from_meta({"does": action.id})
    return (part(action.shown_key, "$accent bold") + part(f" {action.label}", "$quiet")).stylize(link)


class KeyBar(Words):
    """One line at the bottom."""

    DEFAULT_CSS = "KeyBar { dock: bottom; height: 1; padding: 0 1; background: $panel; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(glyphs, id="keys")
        self._actions: tuple[Action, ...] = ()
        self._said: Content | None = None

    def set_actions(self, actions: tuple[Action, ...]) -> None:
        self._actions = actions
        self._draw()

    def say(self, words: str, path: str = "", style: str = "$success bold") -> None:
        """One line instead of the keys, until the next key or for a while. A path keeps its end."""
        width = max(self.size.width - len(words), 8)
        shown = path if len(path) <= width else "…" + path[1 - width :]
        self._said = part(words, style) + part(shown)
        self._draw()
        self.set_timer(SAID_SECONDS, self.unsay)

    def unsay(self) -> None:
        if self._said is not None:
            self._said = None
            self._draw()

    def _draw(self) -> None:
        self.show(self._said if self._said is not None else draw_keys(self._actions, self.size.width))

    @dataclass
    class Clicked(Message):
        """A key was clicked."""

        action_id: str

    def on_click(self, event: Click) -> None:
        action_id = event.style.meta.get("does")
        if action_id:
            self.post_message(self.Clicked(action_id))

    def on_resize(self) -> None:
        self._draw()
