"""The console: composes screens, binds keys, routes readings of the host to what is shown."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import work
from textual.app import App
from textual.message import Message

from tui.exports import keep_text
from tui.running import Backend, CannotOpenError, CaseRun, EngineView
from tui.screens.base import ConsoleScreen
from tui.screens.help import HelpScreen
from tui.screens.palette import ActionProvider
from tui.screens.start import StartScreen
from tui.screens.wizard import WizardScreen
from tui.themes.glyphs import Glyphs, choose
from tui.themes.palette import DARK, LIGHT

if TYPE_CHECKING:
    from playbooks.session import Session
    from tui.widgets.memory_pane import HostView

READ_EVERY_SECONDS = 1.0
EXIT_CODES = {"verified": 0, "healthy": 0, "not verified": 1, "unexplained": 3, "cannot run": 4, "stopped": 1}


class ConsoleApp(App[int]):
    """One `Backend` is all it knows of the world."""

    TITLE = "vllm-console"
    CSS_PATH = "themes/console.tcss"
    COMMANDS: ClassVar = {ActionProvider}
    COMMAND_PALETTE_BINDING = "colon"
    ENABLE_COMMAND_PALETTE = True

    class HostRead(Message):
        """A reading of the host's and the GPUs' memory."""

        def __init__(self, view: HostView) -> None:
            super().__init__()
            self.view = view

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
        start: Literal["start", "wizard"] = "start",
        glyphs: Glyphs | None = None,
    ) -> None:
        super().__init__()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name
        self.animation_level = "none"  # nothing moves unless a value changed
        self.backend = backend
        self.glyphs = glyphs or choose()
        self._deployment, self._start = deployment, start
        self._no_more_readings = threading.Event()
        self._view: HostView | None = None
        self._engine: EngineView | None = None
        self.last_session: Session | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Names of our own variables, so that they exist before a theme is chosen."""
        return dict(DARK.variables)

    def on_mount(self) -> None:
        self.set_class(self.glyphs.ascii_only, "-ascii")
        self.push_screen(StartScreen())
        self._read_host()
        self._find_engine()
        if self._start == "wizard" or self._deployment is not None:
            self.open_case(self._deployment)

    def on_unmount(self) -> None:
        self._no_more_readings.set()

    @work(thread=True, group="host")
    def _read_host(self) -> None:
        while not self._no_more_readings.is_set():
            self.post_message(self.HostRead(self.backend.read_host()))
            self._no_more_readings.wait(READ_EVERY_SECONDS)

    @work(thread=True, group="engine")
    def _find_engine(self) -> None:
        self.post_message(self.EngineFound(self.backend.find_engine()))

    def on_console_app_host_read(self, message: HostRead) -> None:
        self._view = message.view
        self._tell_screens()

    def on_console_app_engine_found(self, message: EngineFound) -> None:
        self._engine = message.engine
        self._tell_screens()

    def _tell_screens(self) -> None:
        for screen in self.screen_stack:
            if not isinstance(screen, ConsoleScreen) or not screen.is_mounted:
                continue
            if self._view is not None:
                screen.set_host(self._view)
            if self._engine is not None:
                screen.set_engine(self._engine)

    @work(exclusive=True, group="open")
    async def open_case(self, deployment: Path | None) -> None:
        """Reading a deployment may take a moment and may fail; both are said on the first screen."""
        start = next(screen for screen in self.screen_stack if isinstance(screen, StartScreen))
        try:
            run = await asyncio.to_thread(self.backend.open_case, deployment)
        except CannotOpenError as trouble:
            start.say(str(trouble))
            return
        start.say("")
        self._show_case(run)

    def _show_case(self, run: CaseRun) -> None:
        self.push_screen(WizardScreen(run))
        self.call_after_refresh(self._tell_screens)

    def do_help(self) -> None:
        self.push_screen(HelpScreen())

    def do_palette(self) -> None:
        self.action_command_palette()

    def do_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def do_copy(self) -> None:
        """OSC 52 is never answered, so the same text also goes to a file, whose path is said."""
        text = self._shown_text()
        self.copy_to_clipboard(text)
        self._write(self.backend.exports, "copy", text, "Copied. If your terminal refused it: ")

    def do_export(self) -> None:
        self._write(Path.cwd(), "export", self._shown_text(), "Written: ")

    def _shown_text(self) -> str:
        return self.screen.plain_text() if isinstance(self.screen, ConsoleScreen) else ""

    def _write(self, folder: Path, kind: str, text: str, words: str) -> None:
        case = self.last_session.case if self.last_session else ""
        try:
            path = keep_text(folder, case, kind, text)
        except OSError as error:
            self.notify(f"Not written to {folder}: {error.strerror}", severity="error", markup=False)
            return
        self.notify(f"{words}{path}", markup=False)

    def do_quit(self) -> None:
        wizard = next((screen for screen in self.screen_stack if isinstance(screen, WizardScreen)), None)
        if wizard is None:
            self.leave()
        else:
            wizard.leave(self.leave)

    async def action_quit(self) -> None:
        """Textual's own quit keys take the same way out."""
        self.do_quit()

    def leave(self) -> None:
        session = self.last_session
        code = 0 if session is None else EXIT_CODES.get(session.verdict or "", 1 if session.symptom else 0)
        self.exit(code)


def run_console(
    deployment: Path | None = None,
    engine: str | None = None,
    start: Literal["start", "wizard"] = "start",
    *,
    cold: bool = False,
    ascii_only: bool | None = None,
) -> int:
    """Opens the console; the exit code says how the last case ended. Raises InputError for a wrong deployment."""
    from engine_probe.deployment import read_deployment  # noqa: PLC0415 -- as below
    from tui.backend import real_backend  # noqa: PLC0415 -- tests and headless commands open no engine

    if deployment is not None:
        read_deployment(deployment)
    app = ConsoleApp(real_backend(engine, cold=cold), deployment=deployment, start=start, glyphs=choose(ascii_only))
    return app.run() or 0
