"""A command on a pseudo-terminal of its own, as a person has it: what is drawn can be waited for, keys can be sent."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = f"{sys.executable} -m tui.cli"
_CODES = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][A-Z0-9]|.)")


class Terminal:
    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid, self._descriptor = pid, descriptor
        self.drawn = ""
        """All text that was drawn since the last `press`, colours and places off."""
        self.exit_code: int | None = None

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Until it was drawn in one go."""
        deadline = time.monotonic() + seconds
        while text not in self.drawn:
            assert self._read(deadline), f"{text!r} was not drawn in: {self.drawn[-3000:]}"

    def wait_for_end(self, seconds: float = 60) -> int:
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code

    def _read(self, deadline: float) -> bool:
        ready = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            return False
        try:
            block = os.read(self._descriptor, 65536)
        except OSError:  # Linux says EIO when the last writer has gone
            return False
        self.drawn += _CODES.sub("", block.decode("utf-8", "replace"))
        return bool(block)

    def press(self, keys: str) -> None:
        self.drawn = ""
        os.write(self._descriptor, keys.encode())


@contextmanager
def on_terminal(command: str, folder: Path, columns: int = 120, rows: int = 36) -> Iterator[Terminal]:
    """A shell runs `command`; whatever still runs at the end is killed."""
    size = struct.pack("HHHH", rows, columns, 0, 0)
    pid, descriptor = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        os.environ.update(TERM="xterm-256color", **home)
        os.execv("/bin/sh", ["sh", "-c", command])
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        if terminal.exit_code is None:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)
