"""Does slow work beside a reading, in a thread of its own: an answer that never comes delays nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Beside(Generic[T]):
    """`work` runs whenever it is asked for and not running already; its last result is kept.

    `work` must turn what goes wrong into its result. The thread begins with the first `ask` and never keeps the
    program from ending.
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self.result: T | None = None
        self.asked_at: float | None = None
        """When the work that is under way was asked for (monotonic clock); None: none is."""
        self.seconds = 0.0
        """CPU time of all work so far."""
        self._work = work
        self._name = name
        self._wanted = threading.Event()
        self._done = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        if self.asked_at is not None or self._is_closed:
            return
        self.asked_at = time.monotonic()
        self._done.clear()
        self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until the work that is under way is done, for at most so long."""
        if self.asked_at is not None:
            self._done.wait(seconds)

    @property
    def waiting_seconds(self) -> float:
        asked_at = self.asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    def close(self) -> None:
        """The thread ends when its work does."""
        self._is_closed = True
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._is_closed:
                return
            before = time.thread_time()
            self.result = self._work()
            self.seconds += time.thread_time() - before
            self.asked_at = None
            self._done.set()
