"""A program on a pseudo-terminal of its own: when it has drawn something, and what it has used."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROWS, COLUMNS = 36, 120
_CODES = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][A-Z0-9]|.)")
_GIVE_UP_SECONDS = 60.0


def memory_mb(pid: int | str) -> dict[str, float]:
    """VmRSS and VmHWM, its peak."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:  # noqa: PTH123
        rows = (line.split() for line in file if line.startswith(("VmRSS", "VmHWM")))
        return {row[0].rstrip(":"): int(row[1]) / 1024 for row in rows}


class Terminal:
    """As a context: the program is killed at its end."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._argv, self._env = list(argv), {**env, "TERM": "xterm-256color"}
        self.pid, self._descriptor = 0, -1
        self._began = 0.0
        self.drawn_bytes = 0

    def __enter__(self) -> Terminal:
        self._began = time.perf_counter()
        self.pid, self._descriptor = pty.fork()
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(self._argv[0], self._argv, self._env)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, size)
        return self

    def __exit__(self, *_error: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)

    def seconds_until(self, text: re.Pattern[str]) -> float:
        """From the start of the process until `text` was drawn."""
        drawn = b""
        while time.perf_counter() - self._began < _GIVE_UP_SECONDS:
            if select.select([self._descriptor], [], [], 1.0)[0]:
                drawn += self._read()
                if text.search(_CODES.sub("", drawn.decode("utf-8", "replace"))):
                    return time.perf_counter() - self._began
        shown = _CODES.sub("", drawn.decode("utf-8", "replace"))
        raise SystemExit(f"{' '.join(self._argv)}: {text.pattern} was not drawn in: {shown[-2000:]}")

    def _read(self) -> bytes:
        try:
            block = os.read(self._descriptor, 65536)
        except OSError as error:  # Linux says EIO when the last writer has gone
            raise SystemExit(f"{' '.join(self._argv)}: ended") from error
        self.drawn_bytes += len(block)
        return block

    def cpu_seconds(self) -> float:
        """Of the process, its children that have ended, and those that run."""
        process = psutil.Process(self.pid)
        times = [process.cpu_times(), *(one.cpu_times() for one in process.children(recursive=True))]
        return sum(one.user + one.system for one in times) + times[0].children_user + times[0].children_system

    @staticmethod
    def drain(terminals: Sequence[Terminal], until: float) -> None:
        """Take away what is drawn until that moment of time.monotonic()."""
        by_descriptor = {one._descriptor: one for one in terminals}
        while (left := until - time.monotonic()) > 0:
            for descriptor in select.select(list(by_descriptor), [], [], left)[0]:
                by_descriptor[descriptor]._read()
