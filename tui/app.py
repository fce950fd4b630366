"""The console: composes screens, binds keys, routes readings of the host to what is shown."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from textual import work
from textual.app import App
from textual.events import Event, InputEvent
from textual.message import Message

from engine_probe.errors import InputError
from tui.app_run import run_app
from tui.exports import keep_text
from tui.running import Backend, CannotOpenError, CaseRun, EngineView
from tui.screens.base import ConsoleScreen
from tui.screens.dialogs import Confirm
from tui.screens.palette import ActionProvider
from tui.themes.glyphs import Glyphs, choose
from tui.themes.palette import DARK, LIGHT
from tui.watching import Look, Watching
from tui.widgets.words import part

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.session import Session
    from tui.actions import Place
    from tui.opened_log import OpenedLog
    from tui.screens.start import StartScreen
    from tui.screens.wizard import WizardScreen
    from tui.widgets.memory_pane import HostView

PlannedFor = tuple["str | None", "str | None"]
"""GPUs and release that a plan is for, where they are not those here."""
_SCREENS_OF_MONITOR = 2
"""The monitor, and Textual's own empty one below it."""
EXIT_CODES = {"verified": 0, "healthy": 0, "not verified": 1, "unexplained": 3, "cannot run": 4, "stopped": 1}


class ConsoleApp(App[int]):
    """One `Backend` is all it knows of the world.

    A screen is imported when it is first shown: the monitor has to be there at once and to cost little.
    """

    TITLE = "vllm-console"
    CSS_PATH = "themes/console.tcss"
    COMMANDS: ClassVar = {ActionProvider}
    COMMAND_PALETTE_BINDING = "colon"
    ENABLE_COMMAND_PALETTE = True

    class Looked(Message):
        """The host was looked at."""

        def __init__(self, look: Look) -> None:
            super().__init__()
            self.look = look

    class WatchFailed(Message):
        """Watching the host ended by a bug."""

        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

    class EngineFound(Message):
        """The engine was looked for."""

        def __init__(self, engine: EngineView) -> None:
            super().__init__()
            self.engine = engine

    def __init__(
        self,
        backend: Backend,
        *,
        deployment: Path | None = None,
        start: Literal["monitor", "wizard", "plan"] = "monitor",
        interval_seconds: float = 1.0,
        glyphs: Glyphs | None = None,
        log: OpenedLog | None = None,
        planned_for: PlannedFor = (None, None),
    ) -> None:
        """`log`: it is shown, and there is nothing else."""
        super().__init__()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name
        self.animation_level = "none"  # nothing moves unless a value changed
        self.backend = backend
        self.glyphs = glyphs or choose()
        self._deployment, self._start, self._opened = deployment, start, log
        self._planned_for = planned_for
        self._watching = Watching(
            backend,
            told=lambda look: self._from_thread(self.Looked(look)),
            failed=lambda error: self._from_thread(self.WatchFailed(error)),
        )
        self._watching.interval_seconds = interval_seconds
        self._look: Look | None = None
        self._engine: EngineView | None = None
        self.last_session: Session | None = None
        self.last_is_temporary = False
        self.closing = False
        """What a person presses now comes too late."""
        self._signal: int | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Names of our own variables, so that they exist before a theme is chosen."""
        return dict(DARK.variables)

    def on_mount(self) -> None:
        self.set_class(self.glyphs.ascii_only, "-ascii")
        if self._opened is not None:
            from tui.screens.log_viewer import LogViewerScreen  # noqa: PLC0415 -- said above, as all of these

            self.push_screen(LogViewerScreen(self._opened))
            return
        from tui.screens.monitor import MonitorScreen  # noqa: PLC0415

        self.push_screen(MonitorScreen())
        self._watching.start()  # where it was not started before
        if self._watching.newest is not None:
            self.post_message(self.Looked(self._watching.newest))
        if self._start == "plan":
            self.do_tab_plan()
        elif self._start == "wizard" or self._deployment is not None:
            self.open_start()
            self.open_case(self._deployment)

    def on_unmount(self) -> None:
        self._watching.stop()

    def _from_thread(self, message: Message) -> None:
        if self.is_running:
            self.post_message(message)

    @property
    def interval_seconds(self) -> float:
        """From one reading to the next."""
        return self._watching.interval_seconds

    @interval_seconds.setter
    def interval_seconds(self, seconds: float) -> None:
        self._watching.interval_seconds = seconds

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

        open_plan(self, self._deployment, *self._planned_for)

    def back_to_monitor(self) -> None:
        while len(self.screen_stack) > _SCREENS_OF_MONITOR:
            self.pop_screen()

    @work(thread=True, exclusive=True, group="engine")
    def _find_engine(self) -> None:
        self.post_message(self.EngineFound(self.backend.find_engine()))

    def watch_host(self) -> None:
        """Begin before the screen is there: a driver takes its time to answer for the first time."""
        self._watching.start()

    def on_console_app_looked(self, message: Looked) -> None:
        if message.look is self._look:
            return
        self._look = message.look
        for screen in self.screen_stack:
            if isinstance(screen, ConsoleScreen) and screen.is_mounted:
                screen.set_look(message.look)
        self._tell_screens()

    def on_console_app_watch_failed(self, message: WatchFailed) -> None:
        raise message.error

    def on_console_app_engine_found(self, message: EngineFound) -> None:
        self._engine = message.engine
        self._tell_screens()

    def _tell_screens(self) -> None:
        """What lies over the monitor draws the host by itself."""
        view = self._host_view()
        for screen in self.screen_stack:
            if not isinstance(screen, ConsoleScreen) or not screen.is_mounted:
                continue
            if view is not None:
                screen.set_host(view)
            if self._engine is not None:
                screen.set_engine(self._engine)

    def _host_view(self) -> HostView | None:
        if self._look is None or len(self.screen_stack) <= _SCREENS_OF_MONITOR:
            return None
        from tui.host_view import host_view  # noqa: PLC0415

        return host_view(self._look.reading)

    @work(exclusive=True, group="open")
    async def open_case(self, deployment: Path | None) -> None:
        """Reading a deployment may take a moment and may fail; both are said on the first screen."""
        start = self._start_screen()
        try:
            run = await asyncio.to_thread(self.backend.open_case, deployment)
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

    def do_help(self) -> None:
        from tui.screens.help import HelpScreen  # noqa: PLC0415

        place = self._place
        self.push_screen(HelpScreen(place if place in ("monitor", "logs", "diagnosis", "plan") else "wizard"))

    @property
    def _place(self) -> Place | None:
        return self.screen.moment().place if isinstance(self.screen, ConsoleScreen) else None

    def do_palette(self) -> None:
        self.action_command_palette()

    def do_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def do_copy(self) -> None:
        """OSC 52 is never answered, so the same text also goes to a file, whose path is said."""
        text = self._shown_text()
        self.copy_to_clipboard(text)
        self._write("copy", text, "Copied; also in ")

    def do_export(self) -> None:
        self._write("export", self._shown_text(), "Written: ")

    def _shown_text(self) -> str:
        return self.screen.plain_text() if isinstance(self.screen, ConsoleScreen) else ""

    def _write(self, kind: str, text: str, words: str) -> None:
        from tui.screens.leaving import short_path  # noqa: PLC0415

        screen, folder = self.screen, self.backend.exports
        if not isinstance(screen, ConsoleScreen):
            return
        case = self.last_session.case if self.last_session else ""
        try:
            path = keep_text(folder, case, kind, text)
        except OSError as error:
            screen.tell(f"Not written, {error.strerror}: ", short_path(str(folder)), "$error bold")
            return
        screen.tell(words, short_path(str(path)))

    def do_quit(self) -> None:
        wizard = self._wizard()
        if wizard is None:
            self.leave()
        else:
            wizard.leave(self.leave)

    def _wizard(self) -> WizardScreen | None:
        screens = (screen for screen in self.screen_stack if isinstance(screen, ConsoleScreen))
        return cast("WizardScreen | None", next((one for one in screens if one.moment().place == "wizard"), None))

    def action_help_quit(self) -> None:
        """Ctrl-C asks what `q` asks, on the first screen too: it may have slipped. In a dialog, the dialog answers.

        A log that is looked at by itself is left at once: nothing is lost.
        """
        if self._wizard() is None and self._place not in ("logs", "diagnosis"):
            about = part("No case is open and nothing runs.")
            ask = Confirm(self.glyphs, "Leave the console?", about, "leave", "stay", leaves=True)
            self.push_screen(ask, lambda yes: self.leave() if yes else None)
        else:
            self.do_quit()

    async def on_event(self, event: Event) -> None:
        """Keys and clicks that come after the decision to leave are dropped: there is nothing left to act on."""
        if self.closing and isinstance(event, InputEvent):
            return
        await super().on_event(event)

    def begin_closing(self) -> None:
        self.closing = True

    def end_by_signal(self, number: int) -> None:
        """The first ends the case cleanly, a second leaves at once; either way the terminal is restored."""
        again, self._signal = self._signal is not None, number
        wizard = self._wizard()
        if wizard is None or again:
            self.leave()
        else:
            wizard.end(self.leave)

    async def action_quit(self) -> None:
        """Textual's own quit keys take the same way out."""
        self.do_quit()

    def leave(self) -> None:
        self.closing = True
        self.exit(128 + self._signal if self._signal is not None else exit_code(self.last_session))

    def _fatal_error(self) -> None:
        """A bug: the screen is restored, and `run_console` hands the error to whoever writes it to a file."""
        self._close_messages_no_wait()

    @property
    def bug(self) -> Exception | None:
        """What ended the console although nobody wanted it."""
        return self._exception


def exit_code(session: Session | None) -> int:
    """0 while no failure was found, also when the case was left early."""
    if session is None or (session.symptom is None and session.verdict in (None, "stopped")):
        return 0
    return EXIT_CODES.get(session.verdict or "", 1)


def _demand_terminal() -> None:
    """Raises InputError where the console cannot be drawn."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        why = "stdin or stdout is none"
    elif os.environ.get("TERM", "") in ("", "dumb"):
        why = "TERM is not set" if not os.environ.get("TERM") else "TERM=dumb cannot move the cursor"
    else:
        return
    without = "`vllm-console monitor --once` and `vllm-console replay` work without one"
    raise InputError(f"the console needs a terminal, and {why}; {without}")


def run_console(
    deployment: Path | None = None,
    engine: str | None = None,
    start: Literal["monitor", "wizard", "plan"] = "monitor",
    *,
    cold: bool = False,
    interval_seconds: float = 1.0,
    ascii_only: bool | None = None,
    planned_for: PlannedFor = (None, None),
) -> int:
    """Opens the console; the exit code says how the last case ended. Raises InputError for a wrong deployment."""
    from tui.backend import real_backend  # noqa: PLC0415 -- tests and headless commands open no engine

    if deployment is not None:
        from engine_probe.deployment import read_deployment  # noqa: PLC0415 -- the monitor needs none
        from engine_probe.deployment_sources import read_source  # noqa: PLC0415 -- as above

        (read_source if start == "plan" else read_deployment)(deployment)
    _demand_terminal()
    app = ConsoleApp(
        real_backend(engine, cold=cold),
        deployment=deployment,
        start=start,
        interval_seconds=interval_seconds,
        glyphs=choose(ascii_only),
        planned_for=planned_for,
    )
    app.watch_host()
    code = asyncio.run(run_app(app))
    if app.bug is not None:
        raise app.bug
    if app.last_session is not None:
        from tui.screens.leaving import farewell  # noqa: PLC0415 -- a case was open: it is there already

        sys.stdout.write("\n".join(farewell(app.last_session, temporary=app.last_is_temporary)) + "\n")
    return code
