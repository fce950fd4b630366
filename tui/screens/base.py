"""What every screen of the console shares: actions come from the registry and are offered by its moment."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from textual.css.query import NoMatches
from textual.screen import Screen

from tui import actions
from tui.widgets.key_bar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.actions import Moment
    from tui.app import ConsoleApp
    from tui.running import EngineView
    from tui.watching import Look
    from tui.widgets.memory_pane import HostView


S = TypeVar("S", bound="ConsoleScreen")
P = ParamSpec("P")


def when_whole(draw: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """For what draws: a screen that is being made or taken down lacks widgets, and then there is nothing to draw.

    Readings and timers come at any moment; a whole screen draws everything once it is mounted.
    """

    @wraps(draw)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with suppress(NoMatches):
            draw(self, *args, **kwargs)

    return guarded


class ConsoleScreen(Screen[None]):
    """A screen gives its `moment` and has a method `do_ID` for each action that it does itself."""

    AUTO_FOCUS = None

    @property
    def console(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    @abstractmethod
    def moment(self) -> Moment: ...

    def set_look(self, look: Look) -> None:
        """A new reading with its alerts, for the screen that draws all of it."""

    def set_host(self, view: HostView) -> None:
        """A new reading of the host; screens that show none ignore it."""

    def set_engine(self, engine: EngineView) -> None:
        """The engine was found, or why not."""

    def plain_text(self) -> str:
        """What is shown, for copy and export."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "do":
            return actions.is_available(str(parameters[0]), self.moment())
        return True

    async def action_do(self, action_id: str) -> None:
        """Also reached by a click in the footer and by the palette, so it checks again."""
        if not actions.is_available(action_id, self.moment()):
            return
        self.unsay()
        own = getattr(self, f"do_{action_id}", None) or getattr(self.console, f"do_{action_id}")
        result = own()
        if result is not None:
            await result
        self.refresh_keys()

    async def on_key_bar_clicked(self, message: KeyBar.Clicked) -> None:
        await self.action_do(message.action_id)

    def tell(self, words: str, path: str = "", style: str = "$success bold") -> None:
        """One line at the bottom, where it covers nothing but the keys."""
        for bar in self.query(KeyBar):
            bar.say(words, path, style)

    def unsay(self) -> None:
        for bar in self.query(KeyBar):
            bar.unsay()

    @when_whole
    def refresh_keys(self) -> None:
        self.query_one(KeyBar).set_actions(actions.available(self.moment()))

    def do_back(self) -> None:
        self.app.pop_screen()

    def on_screen_resume(self) -> None:
        self.refresh_keys()
