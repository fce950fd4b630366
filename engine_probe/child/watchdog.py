"""A tiny twin of the keeper that cleans up when the keeper itself is killed with -9.

It holds the events pipe open while it cleans, so that the console hears of the end when all is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from engine_probe.child import log_tap, owned, process_tree, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLEAN = b"clean\n"


class Watchdog:
    """The keeper's hold on it."""

    def __init__(self, mark: str, private_dir: str) -> None:
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._writer)
            try:
                _run(reader, mark, private_dir)
            finally:
                os._exit(0)
        os.close(reader)

    def watch_pipe(self, inode: int) -> None:
        """Whoever prints into this pipe is ours, even where a set title has overwritten the mark."""
        self._tell(b"%d\n" % inode)

    def dismiss(self) -> None:
        """All is clean."""
        self._tell(_CLEAN)

    def _tell(self, content: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # someone has killed it: then there is nobody to tell
            os.write(self._writer, content)


def _run(reader: int, mark: str, private_dir: str) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    told = _read_to_end(reader)
    if told.endswith(_CLEAN):
        return
    inodes = [int(word) for word in told.split()]

    def ours(processes: Mapping[int, process_tree.Process]) -> set[int]:
        found = {
            pid
            for pid in processes
            if process_tree.is_marked(pid, mark) or any(process_tree.prints_into(pid, inode) for inode in inodes)
        }
        return process_tree.descendants(processes, found)

    sweep.sweep(ours, log_tap.noted_shared_memory(private_dir))
    owned.remove_all(private_dir)


def _read_to_end(reader: int) -> bytes:
    told = b""
    while True:
        content = os.read(reader, 65536)
        if not content:
            return told
        told += content
