"""Long work in a thread: stopped from outside, and telling what it does."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from engine_probe.errors import InputError


class StoppedError(InputError):
    """The work was stopped before it was done."""


@dataclass
class Work:
    """One thread works and asks `go_on`; another one calls `stop` and reads `doing`."""

    doing: str = ""
    """In words, such as `copying model.safetensors: 3.1 of 9.8 GiB`."""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def go_on(self, doing: str | None = None) -> None:
        """To be called often. Raises StoppedError."""
        if doing is not None:
            self.doing = doing
        if self.is_stopped:
            raise StoppedError("it was stopped")
