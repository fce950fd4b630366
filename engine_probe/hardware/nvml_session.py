"""The driver while it is open: the GPUs that it shows, read as often as wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.nvml import GPU_IS_LOST, UNINITIALIZED, Driver, Refusal
from engine_probe.hardware.nvml_gpu import GpuLook
from engine_probe.hardware.nvml_links import read_links
from engine_probe.hardware.nvml_values import number, text
from engine_probe.hardware.nvml_xids import XidListener

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Fact

_READS_BETWEEN_SLOW_ONES = 10
_MOST_GPUS = 64


@dataclass(frozen=True)
class Remembered:
    """What outlives one opening of the driver."""

    names: tuple[tuple[str, str], ...] = ()
    """UUID and name of each GPU: one that falls off the bus no longer says them."""
    links: tuple[tuple[str, ...], ...] = ()


class Session:
    """A GPU that was there `before` stays in the list, as one that cannot be read."""

    def __init__(self, driver: Driver, count: int, before: Remembered) -> None:
        self._driver = driver
        self._gpus = [GpuLook(driver, index) for index in range(max(count, len(before.names)))]
        readable = {gpu.uuid for gpu in self._gpus if gpu.handle is not None}
        for gpu, (uuid, name) in zip(self._gpus, before.names, strict=False):
            if gpu.handle is None and uuid not in readable:
                gpu.uuid, gpu.name = uuid, name
        self._listener: XidListener | None = None
        self._reads = 0
        known = tuple((gpu.uuid, gpu.name) for gpu in self._gpus)
        self.remembered = Remembered(known, before.links if known == before.names else ())
        self._versions = _versions(driver)
        driver.codes_seen.clear()

    @property
    def is_lost(self) -> bool:
        """Whether the last reading found the connection gone."""
        return UNINITIALIZED in self._driver.codes_seen

    @property
    def lacks_a_gpu(self) -> bool:
        return GPU_IS_LOST in self._driver.codes_seen or any(gpu.handle is None for gpu in self._gpus)

    def basics(self) -> GpuState:
        """Memory and processes only."""
        return replace(self._versions, gpus=tuple(gpu.basics() for gpu in self._gpus))

    def read(self, last_xids: Mapping[tuple[int, str], Fact]) -> GpuState:
        """All of it. `last_xids`, by index and UUID, are shown where no newer one came. Slow questions take turns by
        GPU, so that no reading is much dearer than others."""
        self._driver.codes_seen.clear()
        is_first = self._listener is None
        if self._listener is None:
            self._listener = self._prepare()
        found = []
        for place, (gpu, xid) in enumerate(zip(self._gpus, self._listener.read(), strict=True)):
            is_its_turn = (self._reads + place) % _READS_BETWEEN_SLOW_ONES == 0
            shown_xid = xid if isinstance(xid, Known) and xid.value else last_xids.get((gpu.index, gpu.uuid), xid)
            found.append(gpu.read(is_first or is_its_turn, shown_xid))
        self._reads += 1
        return replace(self._versions, gpus=tuple(found), links=self.remembered.links)

    def sample_memory(self) -> None:
        for gpu in self._gpus:
            gpu.sample_memory()

    def close(self) -> None:
        if self._listener:
            self._listener.close()
        self._driver.close()

    def _prepare(self) -> XidListener:
        handles = [gpu.handle for gpu in self._gpus]
        if not self.remembered.links:
            self.remembered = replace(self.remembered, links=read_links(self._driver, handles))
        return XidListener(self._driver, handles)


def open_session(driver: Driver, before: Remembered) -> Session | Refusal:
    refusal = driver.open()
    if refusal:
        return refusal
    count = driver.ask("nvmlDeviceGetCount")
    if isinstance(count, Refusal) or count > _MOST_GPUS:
        driver.close()
        return count if isinstance(count, Refusal) else Refusal.unreadable()
    return Session(driver, count, before)


def _versions(driver: Driver) -> GpuState:
    version = text(driver.ask("nvmlSystemGetDriverVersion"))
    cuda = number(driver.ask("nvmlSystemGetCudaDriverVersion"), 1000, 999_999)
    return GpuState(
        driver_version=str(version.value) if isinstance(version, Known) else None,
        cuda_version=f"{int(cuda.value) // 1000}.{int(cuda.value) % 1000 // 10}" if isinstance(cuda, Known) else None,
    )
