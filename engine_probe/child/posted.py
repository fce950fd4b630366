"""Calls from other threads, and from signal handlers, for the keeper's loop to run."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import Callable


class Posted:
    """`fd` becomes readable when calls wait."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)

    def post(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        with contextlib.suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._writer, b"x")

    def run(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)
        while self._calls:
            self._calls.popleft()()
