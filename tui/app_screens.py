"""Which screens the console opens, and in what order they lie over one another."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING, cast

from textual import work
from textual.app import App

from tui.running import CannotOpenError, Opening
from tui.screens.base import ConsoleScreen

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.session import Session
    from tui.app import ConsoleApp
    from tui.running import Backend, CaseRun, EngineView
    from tui.screens.start import StartScreen
    from tui.screens.wizard import WizardScreen

PlannedFor = tuple["str | None", "str | None"]
"""GPUs and release that a plan is for, where they are not those here."""
SCREENS_OF_MONITOR = 2
"""The monitor, and Textual's own empty one below it."""


class ConsoleScreens(App[int]):
    """A screen is imported when it is first shown: the monitor has to be there at once and to cost little."""

    backend: Backend
    last_session: Session | None
    last_is_temporary: bool
    _deployment: Path | None
    _planned_for: PlannedFor
    _engine: EngineView | None

    @abstractmethod
    def _find_engine(self) -> object: ...

    @abstractmethod
    def _tell_screens(self) -> None: ...

    def open_start(self) -> None:
        """Where a case is chosen."""
        from tui.screens.start import StartScreen  # noqa: PLC0415

        self.push_screen(StartScreen())
        if self._engine is None:
            self._find_engine()
        self.call_after_refresh(self._tell_screens)

    def do_tab_plan(self) -> None:
        """The plan that was looked at before, else one to be chosen."""
        from tui.screens.plan_opening import open_plan  # noqa: PLC0415

        open_plan(cast("ConsoleApp", self), self._deployment, *self._planned_for)

    def do_tab_playbooks(self) -> None:
        from tui.screens.playbook_list import PlaybooksScreen  # noqa: PLC0415 -- as above

        self.back_to_monitor()
        self.push_screen(PlaybooksScreen())

    def do_tab_cases(self) -> None:
        from tui.screens.case_list import CasesScreen  # noqa: PLC0415 -- as above

        self.back_to_monitor()
        self.push_screen(CasesScreen())

    def do_tab_monitor(self) -> None:
        self.back_to_monitor()

    def do_tab_wizard(self) -> None:
        self.back_to_monitor()
        self.open_start()

    def back_to_monitor(self) -> None:
        while len(self.screen_stack) > SCREENS_OF_MONITOR:
            self.pop_screen()

    @work(exclusive=True, group="open")
    async def open_case(self, opening: Opening) -> None:
        """Reading a deployment may take a moment and may fail; both are said on the first screen."""
        start = self._start_screen()
        try:
            run = await asyncio.to_thread(self.backend.open_case, opening)
        except CannotOpenError as trouble:
            start.say(str(trouble))
            return
        start.say("")
        self._show_case(run)

    def _start_screen(self) -> StartScreen:
        from tui.screens.start import StartScreen  # noqa: PLC0415

        return next(screen for screen in self.screen_stack if isinstance(screen, StartScreen))

    def _show_case(self, run: CaseRun) -> None:
        from tui.screens.wizard import WizardScreen  # noqa: PLC0415

        self.last_is_temporary = run.temporary
        self.push_screen(WizardScreen(run))
        self.call_after_refresh(self._tell_screens)

    def open_wizard(self) -> WizardScreen | None:
        screens = (screen for screen in self.screen_stack if isinstance(screen, ConsoleScreen))
        return cast("WizardScreen | None", next((one for one in screens if one.moment().place == "wizard"), None))
