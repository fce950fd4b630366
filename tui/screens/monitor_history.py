"""What the monitor keeps of past readings: how busy each GPU was and how much of it was held. It does not grow."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.widgets.monitor_words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.reading import Reading

KEPT_READINGS = 120


@dataclass
class _Gpu:
    utilisation: deque[float | None] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    memory_gib: deque[float | None] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))


class History:
    """One entry a reading, also while the picture is paused."""

    def __init__(self) -> None:
        self._gpus: dict[str, _Gpu] = {}
        self._gone: dict[int, str] = {}
        self.readings = 0

    def add(self, reading: Reading) -> None:
        self.readings = min(self.readings + 1, KEPT_READINGS)
        for gpu in reading.gpus.gpus:
            kept = self._gpus.setdefault(str(gpu.index), _Gpu())
            kept.utilisation.append(number(gpu.utilization_percent))
            held = [one for one in (number(gpu.peak_used_gib), number(gpu.used_gib)) if one is not None]
            kept.memory_gib.append(max(held, default=None))
            self._gone.pop(gpu.index, None)
        if reading.gpus.unavailable is None:
            now = {gpu.index for gpu in reading.gpus.gpus}
            when = time.strftime("%H:%M:%S", time.localtime(reading.time))
            for key in self._gpus:
                if int(key) not in now:
                    self._gone.setdefault(int(key), when)

    @property
    def gone(self) -> tuple[tuple[int, str], ...]:
        """(GPU, since when) for each that the driver named before and does not name any more."""
        return tuple(sorted(self._gone.items()))

    def utilisation(self, key: str) -> Sequence[float | None]:
        return tuple(self._gpus[key].utilisation) if key in self._gpus else ()

    def memory(self, key: str) -> Sequence[float | None]:
        """Of each reading the most that was held since the one before."""
        return tuple(self._gpus[key].memory_gib) if key in self._gpus else ()

    def peak_gib(self, key: str) -> float | None:
        """The most that was held in the readings that are kept."""
        return max((held for held in self.memory(key) if held is not None), default=None)
