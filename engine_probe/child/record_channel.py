"""The socket on which a load's processes send their log records, and a dry load its result."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any, Callable

from engine_probe import events


class RecordChannel:
    """One datagram a record. `exceptions` keeps every chain that was logged, in order."""

    def __init__(self, path: str, model: str, emit: Callable[[events.Event], None]) -> None:
        self._path = path
        self._model = model
        self._emit = emit
        self.exceptions: list[list[dict[str, Any]]] = []
        self.has_config = False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.bind(path)
        except OSError:
            self.socket.close()
            raise
        self.socket.setblocking(False)

    def read(self) -> None:
        """Take in all that has come."""
        while True:
            try:
                content = self.socket.recv(1 << 20)
            except BlockingIOError:
                return
            try:
                self._take(json.loads(content))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                self._emit(events.Trouble(self._model, text=f"a log record could not be read: {error}"))

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _take(self, content: dict[str, Any]) -> None:
        if "config_built" in content:
            self.has_config = True
            self._emit(events.ConfigBuilt(self._model, **content["config_built"]))
            return
        record = events.LogRecord(self._model, time=content.pop("created"), **content)
        if record.exception:
            self.exceptions.append(record.exception)
        self._emit(record)
