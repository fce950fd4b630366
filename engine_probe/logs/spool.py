"""What comes through a pipe, kept in a nameless temporary file, so that it can be read like any other file.

A thread copies, so that whoever writes into the pipe never waits for a screen; the file is gone with the process,
however that ends.
"""

from __future__ import annotations

import os
import select
import tempfile
import threading
import time

_COPY_BYTES = 1 << 20
_QUIET_SECONDS, _MOST_SILENT_SECONDS, _MOST_SECONDS = 0.3, 2.0, 5.0
"""Since the last bytes; before the first ones; and for a pipe that is never quiet."""


class Spool:
    """Copies from `source` until it ends; the caller closes `source` after `close`."""

    def __init__(self, source: int) -> None:
        """Raises OSError where no temporary file can be made."""
        self._source = source
        with tempfile.TemporaryFile(prefix="vllm-console-") as file:
            self.file = os.dup(file.fileno())
            """A descriptor of the copy, for `LogIndex`, which closes it."""
            self._copy = os.dup(file.fileno())
        self.has_ended = False
        self.trouble: str | None = None
        """Why no more is kept, or nothing more can be read."""
        self._began = self._last = time.monotonic()
        self._has_any = False
        self._wake_reading, self._wake_writing = os.pipe()
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether what was in the pipe at first has come, as far as can be told: nothing came for a moment."""
        now = time.monotonic()
        is_quiet = now - self._last > (_QUIET_SECONDS if self._has_any else _MOST_SILENT_SECONDS)
        return self.has_ended or is_quiet or now - self._began > _MOST_SECONDS

    def _run(self) -> None:
        try:
            while self._copy_block():
                pass
        except OSError as error:
            self.trouble = self.trouble or f"it cannot be read any more: {error.strerror or error}"
        self.has_ended = True

    def _copy_block(self) -> bool:
        ready, _, _ = select.select([self._source, self._wake_reading], [], [])
        if self._wake_reading in ready:
            return False
        block = os.read(self._source, _COPY_BYTES)
        if self.trouble is None:
            self._keep(block)
        self._has_any, self._last = True, time.monotonic()
        return bool(block)

    def _keep(self, block: bytes) -> None:
        """Where the disk is full, the rest is read and dropped: whoever writes it is not stopped."""
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[os.write(self._copy, rest) :]
        except OSError as error:
            folder = tempfile.gettempdir()
            self.trouble = f"what comes from here on is not kept, because {folder} takes no more: {error.strerror}"

    def close(self) -> None:
        """Stop copying; what was copied can still be read by `file`."""
        if self._thread.is_alive():
            os.write(self._wake_writing, b"x")
        self._thread.join()
        for descriptor in (self._copy, self._wake_reading, self._wake_writing):
            os.close(descriptor)
