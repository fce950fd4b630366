"""What processes are worth a closer look for: PSS and open files, read rarely and within a time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.processes_read import count_open_files, pss_kib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.processes import Process

_EVERY_SECONDS = 10.0
_SHARE = 1 / 500
"""The most of one core that looking at one process may take."""
_BUDGET_SECONDS = 0.002
_KIB_PER_GIB = 1024**2
_NOT_YET = Unknown("it was not looked at yet: it is read every 10 s")


@dataclass(frozen=True)
class Closer:
    pss_gib: Fact = _NOT_YET
    open_files: Fact = _NOT_YET
    due_at: float = 0.0


class Closely:
    """`look` once a reading; `of` gives what was last found."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._known: dict[tuple[int, int], Closer] = {}

    def of(self, process: Process) -> Closer:
        return self._known.get(process.key, Closer())

    def look(self, processes: Sequence[Process], now: float) -> None:
        """At those that are due, the one that waits longest first, until the budget is spent."""
        keys = {one.key for one in processes}
        self._known = {key: closer for key, closer in self._known.items() if key in keys}
        due = sorted((self.of(one).due_at, one.key) for one in processes if self.of(one).due_at <= now)
        began = time.perf_counter()
        for _, key in due:
            before = time.perf_counter()
            if before - began > _BUDGET_SECONDS:
                return
            pss, files = pss_kib(self._proc, key[0]), count_open_files(self._proc, key[0])
            pause = max(_EVERY_SECONDS, (time.perf_counter() - before) / _SHARE)
            origin = f"{self._proc}/{key[0]}"
            self._known[key] = Closer(
                Unknown("its memory map is not ours to read") if pss is None else _pss(pss, origin),
                Unknown("its files are not ours to see") if files is None else _known(files, f"{origin}/fd"),
                now + pause,
            )


def _pss(size_kib: int, origin: str) -> Known:
    return _known(size_kib / _KIB_PER_GIB, f"{origin}/smaps_rollup Pss")


def _known(value: float, origin: str) -> Known:
    return Known(value, "measured", origin)
