"""The console: composes screens, binds keys, routes readings of the host to what is shown."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import work
from textual.events import Event, InputEvent
from textual.message import Message

from tui.app_ends import demand_terminal, exit_code
from tui.app_run import run_app
from tui.app_screens import SCREENS_OF_MONITOR, ConsoleScreens, PlannedFor
from tui.exports import keep_text
from tui.running import Backend, EngineView, Opening
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
    from tui.widgets.memory_pane import HostView

Start = Literal["monitor", "wizard", "choose", "plan"]


class ConsoleApp(ConsoleScreens):
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
        opening: Opening | None = None,
        start: Start = "monitor",
        interval_seconds: float = 1.0,
        glyphs: Glyphs | None = None,
        log: OpenedLog | None = None,
        planned_for: PlannedFor = (None, None),
    ) -> None:
        """`opening`: the case that is opened at once; None is that of `deployment`, or the lab's.

        `log`: it is shown, and there is nothing else.
        """
        super().__init__()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name
        self.animation_level = "none"  # nothing moves unless a value changed
        self.backend = backend
        self.glyphs = glyphs or choose()
        self._deployment, self._start, self._opened = deployment, start, log
        self._opening = opening or Opening(deployment=deployment)
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
        elif self._start == "choose":
            self.open_start()
        elif self._start == "wizard" or self._deployment is not None:
            self.open_start()
            self.open_case(self._opening)

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
        if self._look is None or len(self.screen_stack) <= SCREENS_OF_MONITOR:
            return None
        from tui.host_view import host_view  # noqa: PLC0415

        return host_view(self._look.reading)

    def do_help(self) -> None:
        from tui.screens.help import HelpScreen  # noqa: PLC0415

        place = self._place
        known = ("monitor", "logs", "diagnosis", "plan", "playbooks", "cases", "recorded")
        self.push_screen(HelpScreen(place if place in known else "wizard"))

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
        wizard = self.open_wizard()
        if wizard is None:
            self.leave()
        else:
            wizard.leave(self.leave)

    def action_help_quit(self) -> None:
        """Ctrl-C asks what `q` asks, on the first screen too: it may have slipped. In a dialog, the dialog answers.

        A log that is looked at by itself is left at once: nothing is lost.
        """
        if self.open_wizard() is None and self._place not in ("logs", "diagnosis"):
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
        """The first ends the case cleanly, a second leaves at once; either way the terminal is restored.

        A lost connection leaves the case open: it can go on.
        """
        again, self._signal = self._signal is not None, number
        wizard = self.open_wizard()
        if wizard is None or again:
            self.leave()
        else:
            wizard.end(self.leave, is_lost=number == signal.SIGHUP)

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


def run_console(  # noqa: PLR0913 -- what the commands know
    deployment: Path | None = None,
    engine: str | None = None,
    start: Start = "monitor",
    *,
    opening: Opening | None = None,
    cold: bool = False,
    verify: str = "cold",
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
    demand_terminal()
    app = ConsoleApp(
        real_backend(engine, cold=cold, verify=verify),
        deployment=deployment,
        opening=opening,
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
