"""Follows the files that servers print into, a little each reading, and hands each server its own lines.

A file is reached through its descriptor in the server, so a renamed or removed one goes on to be read. Pipes are never
opened: what is read from a pipe is lost to whom it was meant for.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.hardware.server_log_start import stamp_of, start_of
from engine_probe.logs.lines import read_line
from engine_probe.logs.quiet_runs import other_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.hardware.server_load import Load
    from engine_probe.logs.stages import Wordings

_AT_ONCE = 1 << 20
_SMALL = 4 << 20
"""Up to this size a file is read from its start."""
_TAIL = 256 << 10
_LONGEST_LINE = 64 << 10
_RECORDS = ("vllm", "vllm_0.7", "json")
_PID = re.compile(rb"pid=(\d{1,10})[,) ]|Started server process \[(\d{1,10})\]")
_SERVER_PROCESS = re.compile(r"Started server process \[(\d{1,10})\]")
_STAMP = re.compile(rb"\d\d-\d\d \d\d:\d\d:\d\d")
_SECONDS_OF_SLACK = 2.0


@dataclass
class Writer:
    """One server of a file: its load, the pids that it prints under, when it was started."""

    load: Load
    pids: frozenset[int]
    started: float | None
    is_beside: bool = False
    """The file is its stderr, apart from stdout: what stands in both files has no order."""


@dataclass
class LogFile:
    """`feed` after `writers` were set. `file` is an open descriptor of a regular file, closed by `close`."""

    file: int
    path: str
    wordings: Wordings
    writers: list[Writer] = field(default_factory=list)
    _offset: int = 0
    _number: int | None = 0
    """Lines before the offset; None where the file was not read from its start."""
    _rest: bytes = b""
    _lines: list[tuple[int | None, bytes]] = field(default_factory=list)
    """Read and not taken yet, each with its number."""
    _has_begun: bool = False
    _has_jumped: bool = False
    _speaker: Writer | None = None
    """Whose lines those are that name nobody, where there are several writers."""

    def close(self) -> None:
        os.close(self.file)

    def feed(self, until: float) -> bool:
        """Read on until `until` (monotonic clock); False when there is more. Raises OSError."""
        by_pid = {pid: writer for writer in self.writers for pid in writer.pids}
        while True:
            done = 0
            for done, (number, line) in enumerate(self._lines, 1):  # noqa: B007 - counts what was taken
                self._take(number, line, by_pid)
                if time.monotonic() >= until:
                    break
            del self._lines[:done]
            if self._lines:
                return False
            if not self._read():
                self._draw_rest()
                return True

    def _read(self) -> bool:
        """Some more lines; False when there are none now."""
        size = os.fstat(self.file).st_size
        if size < self._offset:  # it was cut, and begins anew
            self._offset, self._number, self._rest, self._has_jumped = 0, 0, b"", False
        if self._offset == 0 and size > _SMALL and not self._has_jumped:
            self._jump(start_of(self.file, size, self._earliest()))
        elif self._is_all_up() and size - self._offset > _AT_ONCE:
            self._jump(size - _TAIL)
        content = os.pread(self.file, _AT_ONCE, self._offset)
        if not content:
            return self._tries_again(size)
        self._offset += len(content)
        whole, newline, rest = (self._rest + content).rpartition(b"\n")
        self._rest = rest if len(rest) <= _LONGEST_LINE else rest[-_LONGEST_LINE:]
        if newline:
            self._add(whole + newline)
        return bool(newline)

    def _add(self, content: bytes) -> None:
        """What a server prints over and over while it serves is left out: it tells nothing of a load."""
        before = self._number
        for first, lines in other_lines(content):
            for number, line in enumerate(lines, first):
                self._lines.append((None if before is None else before + number, line))
        if before is not None:
            self._number = before + content.count(b"\n")

    def _jump(self, offset: int) -> None:
        if offset > self._offset:
            self._offset, self._number, self._rest = offset, None, b""
        self._has_jumped = True

    def _tries_again(self, size: int) -> bool:
        """The times in a file may be of another zone than this host's: then it is read whole."""
        has_told = any(writer.load.stage is not None for writer in self.writers)
        if has_told or self._number is not None or not size:
            return False
        self._offset, self._number, self._rest = 0, 0, b""
        self._has_begun = True  # what is of others is told by its pids, and by the beginning that follows
        return True

    def _earliest(self) -> float | None:
        times = [writer.started for writer in self.writers if writer.started is not None]
        return min(times) - _SECONDS_OF_SLACK if times else None

    def _is_all_up(self) -> bool:
        return bool(self.writers) and all(writer.load.is_up for writer in self.writers)

    def _take(self, number: int | None, content: bytes, by_pid: Mapping[int, Writer]) -> None:
        if not self._has_begun and not self._begins(content, by_pid):
            return
        text = content[:_LONGEST_LINE].decode("utf-8", "replace")
        line = read_line(text)
        writer = self._writer_of(line.pid, line.message, by_pid)
        if writer is not None and line.message:
            origin = self.path if number is None else f"{self.path}:{number}"
            if writer.is_beside and line.format not in _RECORDS:
                writer.load.take_beside(line, self.wordings, origin, text)
            else:
                writer.load.take(line, self.wordings, origin, text)

    def _begins(self, content: bytes, by_pid: Mapping[int, Writer]) -> bool:
        """Whether this is the first line of a server that is here now: what stands before it is of others."""
        told = _PID.search(content)
        if told is not None:
            self._has_begun = int(told[1] or told[2]) in by_pid
        elif (stamp := _STAMP.search(content)) and (earliest := self._earliest()) is not None:
            self._has_begun = stamp[0] >= stamp_of(earliest)
        return self._has_begun

    def _writer_of(self, pid: int | None, message: str, by_pid: Mapping[int, Writer]) -> Writer | None:
        if len(self.writers) == 1:
            return self.writers[0]
        if pid is None and (told := _SERVER_PROCESS.match(message)):
            pid = int(told[1])
        if pid is not None:
            self._speaker = by_pid.get(pid)
        return self._speaker

    def _draw_rest(self) -> None:
        """A bar that is drawn over itself is one line, unfinished until it is full."""
        if self._rest and len(self._rest) < _LONGEST_LINE and self._has_begun:
            line = read_line(self._rest.decode("utf-8", "replace"))
            pid_writers = [one for one in self.writers if line.pid in one.pids]
            writer = self.writers[0] if len(self.writers) == 1 else next(iter(pid_writers), self._speaker)
            if writer is not None:
                writer.load.draw(line.message)
