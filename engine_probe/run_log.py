"""Everything that loads print, from byte 0, in one file that reads like a log of vLLM's own.

log = RunLog()
log.open(folder / "engine.log")    # or open_privately() where no folder is to be had
log.add(event)                     # cheap: lines are written in batches
log.flush()                        # when nothing more comes just now

A full disk ends nothing: what cannot be kept is counted, `trouble` says so, and the log goes on once it can.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.events import Ended, LogRecord, Text
from engine_probe.run_log_lines import lines_of, probe_lines
from engine_probe.run_log_twins import Twins

if TYPE_CHECKING:
    from engine_probe.events import Event

NAME = "engine.log"
_PRIVATE = "vllm-console-"
_BATCH_BYTES = 64 * 1024
_MOST_WAITING_BYTES = 1024 * 1024
_MOST_COPIED_BYTES = 16 * 1024 * 1024


class RunLog:
    """Before it is opened, lines wait in memory. Nothing here raises for what a disk does."""

    def __init__(self) -> None:
        self.path: Path | None = None
        """Where the log is; None before it is opened."""
        self.trouble: str | None = None
        """Why some of it could not be kept, in words."""
        self._file: int | None = None
        self._is_private = False
        self._twins = Twins()
        self._waiting = bytearray()
        self._lost_lines = 0

    def open(self, path: Path) -> None:
        """Go on in `path`; where that cannot be written, in a private temporary file."""
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self.path = path
        except OSError as error:
            self._say(f"{path} cannot be written: {error.strerror}; the log is kept until the case is left")
            self.open_privately()
        self.flush()

    def open_privately(self) -> None:
        """Go on in a file that only this user can read and that goes with `close`."""
        _remove_left_behind()
        try:
            self._file, name = tempfile.mkstemp(prefix=_PRIVATE, suffix=f"-{NAME}")
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_SH)
        except OSError as error:
            self._say(f"no log is kept: {error.strerror}")
            return
        self.path, self._is_private = Path(name), True

    def add(self, event: Event) -> None:
        if isinstance(event, LogRecord):
            self._twins.logged(event)
        else:
            self._twins.heard(event.time)
            if isinstance(event, Text) and event.also_record:
                self._twins.printed(event)
            elif isinstance(event, Ended):
                self._give_up_waiting(every=True)
            self._put(event)
        self._give_up_waiting()
        if len(self._waiting) > _BATCH_BYTES:
            self.flush()

    def _give_up_waiting(self, *, every: bool = False) -> None:
        for record in self._twins.given_up(every=every):
            self._put(record)

    def _put(self, event: Event) -> None:
        for line in lines_of(event):
            if len(self._waiting) > _MOST_WAITING_BYTES and not self._can_write():
                self._lost_lines += 1
            else:
                self._waiting += line.encode("utf-8", "backslashreplace") + b"\n"

    def _can_write(self) -> bool:
        self.flush()
        return not self._waiting

    def flush(self) -> None:
        """Write what waits. What the disk does not take waits for the next time."""
        if self._file is None or not self._waiting:
            return
        try:
            self._write_waiting()
            if self._lost_lines:
                words = f"{self._lost_lines:,} lines could not be kept here"
                self._lost_lines = 0
                self._waiting += "\n".join(probe_lines(time.time(), "WARNING", words)).encode() + b"\n"
                self._write_waiting()
        except OSError as error:
            self._say(f"{self.path} cannot be written: {error.strerror}")

    def reading(self) -> int:
        """A descriptor of a regular file that holds all that was logged so far; the caller's. Raises OSError."""
        self.flush()
        if self.path is not None and not self._waiting:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        with tempfile.TemporaryFile(prefix="vllm-console-") as copy:
            copy.write(self._end_on_disk())
            copy.write(self._waiting)
            copy.flush()
            return os.dup(copy.fileno())

    def _end_on_disk(self) -> bytes:
        if self.path is None:
            return b""
        with self.path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - _MOST_COPIED_BYTES))
            return stream.read(min(size, _MOST_COPIED_BYTES))

    def _write_waiting(self) -> None:
        assert self._file is not None
        while self._waiting:
            del self._waiting[: os.write(self._file, self._waiting)]

    def _say(self, words: str) -> None:
        """Only the first is told: the others come of the same."""
        self.trouble = self.trouble or words

    def close(self) -> None:
        """Write what waits and let go of the file; a private one is removed. Idempotent."""
        self._give_up_waiting(every=True)
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._is_private and self.path is not None:
            self.path.unlink(missing_ok=True)
            self._is_private = False


def _remove_left_behind() -> None:
    """Private logs of consoles that were killed: nobody holds their lock any more."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PRIVATE}*-{NAME}"):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if os.fstat(file).st_uid == os.geteuid():
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
            finally:
                os.close(file)
