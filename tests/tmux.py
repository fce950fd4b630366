"""A command in tmux, as a person has it over ssh: what is on the screen can be waited for, keys can be sent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TMUX = shutil.which("tmux")
PROGRAM = f"{sys.executable} -m tui.cli"


class Tmux:
    """One window; its server is its own."""

    def __init__(self, socket: Path) -> None:
        self._base = [str(TMUX), "-S", str(socket), "-f", os.devnull]

    def run(self, *words: str) -> str:
        done = subprocess.run([*self._base, *words], capture_output=True, text=True, timeout=30, check=False)
        return done.stdout

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """As tmux names them: Enter, Right, Escape, or a letter."""
        self.run("send-keys", *keys)

    def wait_for(self, *texts: str, seconds: float = 60) -> str:
        """Until all of `texts` stand on the screen."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = self.screen()
            if all(text in shown for text in texts):
                return shown
            time.sleep(0.2)
        raise AssertionError(f"{texts!r} never stood on the screen:\n{self.screen()}")

    def pid(self) -> int:
        """Of the command that runs in the window."""
        return int(self.run("display-message", "-p", "#{pane_pid}"))


@contextmanager
def in_tmux(command: str, folder: Path, env: dict[str, str], columns: int = 120, rows: int = 36) -> Iterator[Tmux]:
    """`command` runs in a window of that size; the server is ended with all that runs in it."""
    tmux = Tmux(folder / "tmux")
    settings = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    # the window stays when its command has ended: what it said last can be read
    started = [
        *tmux._base,
        "new-session",
        "-d",
        "-x",
        str(columns),
        "-y",
        str(rows),
        *settings,
        f"exec env -u COLUMNS -u LINES {command}",
    ]
    subprocess.run(started, check=True, timeout=30)
    tmux.run("set-option", "-g", "remain-on-exit", "on")
    try:
        yield tmux
    finally:
        tmux.run("kill-server")
