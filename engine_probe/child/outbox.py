"""Writes events to the console without ever waiting for it."""

import os
from collections import deque

from engine_probe import events

_MAX_WAITING_BYTES = 64 * 1024 * 1024


class Outbox:
    """A queue before a non-blocking pipe. A console that stops reading must not stop an engine.

    Above 64 MiB the oldest waiting lines of text are dropped and counted; nothing else ever is.
    """

    def __init__(self, fd):
        self.fd = fd
        self.broken = False
        self._waiting = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        os.set_blocking(fd, False)

    def send(self, event):
        droppable = isinstance(event, events.Text)
        if droppable and self._waiting_bytes > _MAX_WAITING_BYTES:
            self._dropped += 1
            return
        if self._dropped and not droppable:
            dropped, self._dropped = self._dropped, 0
            self.send(events.Trouble(text="%d lines of text were dropped: the console did not read them" % dropped))
        line = (events.encode(event) + "\n").encode("utf-8")
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self.flush()

    @property
    def wants_to_write(self):
        return bool(self._waiting) and not self.broken

    def flush(self):
        while self._waiting and not self.broken:
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
