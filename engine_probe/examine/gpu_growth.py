"""Watches what processes that are not the console's take on the GPUs while something else goes on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psutil

from engine_probe.examine.asking import Examination
from engine_probe.facts import Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.gpus import Gpu

_EVERY_SECONDS = 0.25
GROWTH = "gpu.others_growth_gib"


class GpuGrowth:
    """From `start` to `end`. `gpus` are NVML's indices; None: all of the host."""

    def __init__(self, gpus: Sequence[int] | None) -> None:
        self._wanted = gpus
        self._first: dict[int, float] = {}
        self._furthest: dict[int, float] = {}
        self.readings = 0
        """Of all GPUs, so far."""
        self._why_not: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gpu-growth", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> Examination:
        """The largest change since the start, of the GPU where it is largest; below 0: memory was given back."""
        self._over.set()
        self._thread.join()
        if self._why_not is not None:
            return Examination(why_not=self._why_not)
        if self.readings < 2 or not self._furthest:
            return Examination(why_not="the load was over before the GPUs had been looked at twice")
        most = max(self._furthest, key=lambda index: abs(self._furthest[index]))
        each = ", ".join(f"GPU {index}: {size:+.2f} GiB" for index, size in sorted(self._furthest.items()))
        growth = Known(round(self._furthest[most], 2), "measured", f"NVML, {self.readings} readings ({each})")
        return Examination({GROWTH: growth})

    def _watch(self) -> None:
        from engine_probe.hardware.nvml import Driver, Refusal  # noqa: PLC0415 -- most hosts of tests have no driver
        from engine_probe.hardware.nvml_session import Remembered, open_session  # noqa: PLC0415

        session = open_session(Driver(), Remembered())
        if isinstance(session, Refusal):
            self._why_not = session.reason
            return
        try:
            while self._why_not is None and not self._over.is_set():
                self._take(session.basics().gpus)
                self._over.wait(_EVERY_SECONDS)
        finally:
            session.close()

    def _take(self, gpus: Sequence[Gpu]) -> None:
        ours = _own_pids()
        meant = [gpu for gpu in gpus if self._wanted is None or gpu.index in self._wanted]
        if not meant:
            self._why_not = "the launch's GPUs are not on this host"
        for gpu in meant:
            held = _held_by_others(gpu, ours)
            if isinstance(held, str):
                self._why_not = held
                return
            change = held - self._first.setdefault(gpu.index, held)
            if abs(change) >= abs(self._furthest.get(gpu.index, 0.0)):
                self._furthest[gpu.index] = change
        self.readings += 1


def _held_by_others(gpu: Gpu, ours: frozenset[int]) -> float | str:
    """GiB, or why it cannot be told: the driver must name each process with what it holds."""
    if gpu.processes_unavailable is not None:
        return gpu.processes_unavailable
    held = 0.0
    for one in gpu.processes:
        if one.pid in ours:
            continue
        if not one.is_visible:
            return "processes that cannot be seen from here are on the GPU, and may be the engine's own"
        if not isinstance(one.used_gib, Known):
            return f"the driver does not say what process {one.pid} holds: {one.used_gib.reason}"
        held += float(one.used_gib.value)
    return held


def _own_pids() -> frozenset[int]:
    """The console and all below it: its probes and what they load."""
    me = psutil.Process()
    return frozenset((me.pid, *(child.pid for child in me.children(recursive=True))))
