"""Textual's driver for a terminal that can vanish: what is written then goes nowhere, and nobody waits for it."""

from __future__ import annotations

import termios
from typing import IO, TYPE_CHECKING, Any

from rich.traceback import Traceback
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from collections.abc import Callable


def is_there(descriptor: int) -> bool:
    """Whether it is a terminal that somebody holds: of one that was hung up every question is refused."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error:
        return False
    return True


class _Lossy:
    """What Textual's writing thread writes to.

    That thread ends by the first error, and the console then waits for ever for room in its queue
    (textual/drivers/_writer_thread.py, 8.2): so there is no error here.
    """

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal, self._lost = terminal, False

    def write(self, text: str) -> int:
        self._try(lambda: self._terminal.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._terminal.flush)

    def fileno(self) -> int:
        return self._terminal.fileno()

    def _try(self, act: Callable[[], object]) -> None:
        if self._lost:
            return
        try:
            act()
        except OSError:
            self._lost = True


class TerminalDriver(LinuxDriver):
    """With the terminal the kernel sends SIGCONT behind SIGHUP: nothing is drawn anew for it then."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file: Any = _Lossy(self._file)

    def _sigcont_application(self, *said: object) -> None:
        if is_there(self.fileno):
            super()._sigcont_application(*said)

    def _run_input_thread(self) -> None:
        """No key comes from a terminal that is gone, and that is no bug: the signal for it ends the console."""
        try:
            self.run_input_thread()
        except BaseException:
            if is_there(self.fileno):
                self._app.call_later(self._app.panic, Traceback())
