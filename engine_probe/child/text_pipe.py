"""What a load's processes print: one pipe, read line by line, with the exceptions that appear in it."""

from __future__ import annotations

import os
import re
from typing import Callable

from engine_probe import events
from engine_probe.child.tracebacks import TracebackReader

# `INFO: `, with a colon, is uvicorn's, which sends no record.
_RECORD_LINE = re.compile(
    r"^(?:\x1b\[[0-9;]*m)*(?:\([^()]* pid=\d+[^()]*\)(?:\x1b\[[0-9;]*m)* )?"
    r"(?:\x1b\[[0-9;]*m)*(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?!:)"
)
_STARTED = "Application startup complete."
"""uvicorn/lifespan/on.py, just before it listens."""
_MAX_LINE_BYTES = 256 * 1024


class TextPipe:
    """`tapped`: the processes also send their log records, so a line that is one is marked as shown already."""

    def __init__(self, model: str, tapped: bool, emit: Callable[[events.Event], None]) -> None:
        self._model = model
        self._tapped = tapped
        self._emit = emit
        self._partial = b""
        self.offset = 0
        self.tracebacks = TracebackReader()
        self.has_started = False
        self.is_open = True
        self.reader, self.writer = os.pipe()
        self._writer_is_open = True
        os.set_blocking(self.reader, False)
        self.inode = os.fstat(self.reader).st_ino

    def read(self) -> int | None:
        """Read once. Returns how many bytes came: 0 at the end of the pipe, None when there is nothing now."""
        try:
            content = os.read(self.reader, 65536)
        except BlockingIOError:
            return None
        *lines, self._partial = (self._partial + content).split(b"\n")
        for line in lines:
            self._print(line, len(line) + 1)
        if len(self._partial) > _MAX_LINE_BYTES or not content:
            self._print_partial()
        return len(content)

    def drain(self) -> None:
        """Read all that is there; a line without an end comes too."""
        while self.is_open and self.read():
            pass
        self._print_partial()

    def close_writer(self) -> None:
        if self._writer_is_open:
            self._writer_is_open = False
            os.close(self.writer)

    def close(self) -> None:
        """Close both ends. Idempotent."""
        self.close_writer()
        if self.is_open:
            self.is_open = False
            os.close(self.reader)

    def _print_partial(self) -> None:
        partial, self._partial = self._partial, b""
        if partial:
            self._print(partial, len(partial))

    def _print(self, raw: bytes, length: int) -> None:
        line = raw.decode("utf-8", "backslashreplace").rstrip("\r")
        self.tracebacks.feed(line)
        self.has_started = self.has_started or _STARTED in line
        known = self._tapped and bool(_RECORD_LINE.match(line))
        self._emit(events.Text(self._model, offset=self.offset, line=line, also_record=known))
        self.offset += length
