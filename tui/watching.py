"""The one thread that looks at the host. It hands over readings; a look that takes long holds up nobody else."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.hardware.reading import Reading
    from playbooks.alert import Alert
    from tui.running import Backend, Watch

SAMPLES_BETWEEN = 4
"""Looks at memory alone between two readings, so that a peak is not missed."""
INTERVALS_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_COST_SECONDS = 10.0
_BEFORE_SECONDS = 60.0
"""How far back the reading lies with which one is compared, or up to twice as far."""


@dataclass(frozen=True)
class Look:
    """A reading, what is wrong with it, and what this console costs: percent of a core, None before that is known."""

    reading: Reading
    alerts: tuple[Alert, ...] = ()
    own_percent: float | None = None
    """Of the last ten seconds or more."""


class Watching:
    """`told` and `failed` are called in the thread."""

    def __init__(self, backend: Backend, told: Callable[[Look], None], failed: Callable[[Exception], None]) -> None:
        self._backend, self._told, self._failed = backend, told, failed
        self._interval = 1.0
        self._is_over = False
        self.newest: Look | None = None
        """Also what was found before anybody could be told."""
        self._changed = threading.Event()
        self._older: Reading | None = None
        self._newer: Reading | None = None
        self._last_cost: tuple[float, float] | None = None
        self._own: float | None = None
        # No pool's thread: leaving must not wait for a driver that does not answer.
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Once; another call does nothing."""
        if not self._thread.is_alive():
            self._changed.clear()
            self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        self._changed.set()

    @property
    def interval_seconds(self) -> float:
        return self._interval

    @interval_seconds.setter
    def interval_seconds(self, seconds: float) -> None:
        self._interval = seconds
        self._changed.set()

    def _run(self) -> None:
        try:
            watch = self._backend.watch()
            try:
                while not self._is_over:
                    self.newest = self._look(watch)
                    self._told(self.newest)
                    self._wait(watch)
            finally:
                watch.close()
        except Exception as error:  # a bug, handed to the console, which ends and reports it
            self._failed(error)

    def _look(self, watch: Watch) -> Look:
        reading = watch.read()
        if self._newer is None or reading.time - self._newer.time >= _BEFORE_SECONDS:
            self._older, self._newer = self._newer, reading
        return Look(reading, self._backend.find_alerts(reading, self._older), self._own_percent(reading))

    def _own_percent(self, reading: Reading) -> float | None:
        now, spent = reading.time, self._backend.cpu_seconds()
        if self._last_cost is None:
            self._last_cost = now, spent
        passed = now - self._last_cost[0]
        if passed >= _COST_SECONDS:
            self._own = 100 * (spent - self._last_cost[1]) / passed
            self._last_cost = now, spent
        return self._own

    def _wait(self, watch: Watch) -> None:
        """Until the next reading is due, or another interval is chosen."""
        for turn in range(SAMPLES_BETWEEN + 1):
            self._changed.wait(self._interval / (SAMPLES_BETWEEN + 1))
            if self._changed.is_set():
                self._changed.clear()
                return
            if turn < SAMPLES_BETWEEN:
                watch.sample()
