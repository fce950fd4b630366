"""The command palette's entries: the registry's actions that work now, by label and by sentence."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui import actions
from tui.screens.base import ConsoleScreen

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tui.actions import Action


class ActionProvider(Provider):
    """Offers nothing that would do nothing."""

    def _offered(self) -> tuple[Action, ...]:
        if not isinstance(self.screen, ConsoleScreen):
            return ()
        return tuple(action for action in actions.available(self.screen.moment()) if action.id != "palette")

    def _run(self, action: Action) -> partial[Coroutine[Any, Any, None]]:
        assert isinstance(self.screen, ConsoleScreen)
        return partial(self.screen.action_do, action.id)

    async def discover(self) -> Hits:
        for action in self._offered():
            yield DiscoveryHit(f"{action.label}  ({action.shown_key})", self._run(action), help=action.tooltip)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._offered():
            score = max(matcher.match(action.label), matcher.match(action.tooltip) * 0.8)
            if score > 0:
                yield Hit(score, matcher.highlight(action.label), self._run(action), help=action.tooltip)
