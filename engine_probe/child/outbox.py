"""Writes events to the console without ever waiting for it."""

from __future__ import annotations

import os
from collections import deque

from engine_probe import events

_DROPPABLE = (events.Text, events.LogRecord, events.MemorySample)


class Outbox:
    """A queue before a non-blocking pipe. A console that stops reading must not stop an engine.

    Above `max_waiting_bytes` new text, records and samples are dropped and counted; nothing else ever is.
    """

    def __init__(self, fd: int, max_waiting_bytes: int = 64 * 1024 * 1024) -> None:
        self.fd = fd
        self.broken = False
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        os.set_blocking(fd, False)

    def send(self, event: events.Event) -> None:
        if self.broken:
            return
        droppable = isinstance(event, _DROPPABLE)
        if droppable and self._waiting_bytes > self._max_waiting_bytes:
            self._dropped += 1
            return
        if self._dropped:
            text = f"{self._dropped} lines and samples were dropped: the console did not read them"
            self._dropped = 0
            self._append(events.Trouble(text=text))
        self._append(event)
        self.flush()

    @property
    def wants_to_write(self) -> bool:
        return bool(self._waiting) and not self.broken

    def flush(self) -> None:
        """Write what the pipe takes now."""
        while self.wants_to_write:
            line = self._waiting[0]
            try:
                written = os.write(self.fd, line)
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                self._waiting.clear()
                return
            self._waiting_bytes -= written
            if written == len(line):
                self._waiting.popleft()
            else:
                self._waiting[0] = line[written:]

    def _append(self, event: events.Event) -> None:
        line = (events.encode(event) + "\n").encode("utf-8")
        self._waiting.append(line)
        self._waiting_bytes += len(line)
