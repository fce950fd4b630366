"""One GPU as the driver tells it: names once, states that move slowly now and then, the rest at each reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware import nvml_values as values
from engine_probe.hardware.gpus import Gpu, GpuProcess, MigSlice
from engine_probe.hardware.nvml import INVALID_ARGUMENT, Refusal
from engine_probe.hardware.nvml_questions import Questions
from engine_probe.hardware.nvml_slices import SliceHandle, find_slices

if TYPE_CHECKING:
    from engine_probe.hardware.nvml import Driver

# nvml.h: nvmlTemperatureSensors_t, nvmlClockType_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t
_GPU_SENSOR = 0
_SM_CLOCK = 1
_MEMORY_CLOCK = 2
_UNCORRECTED = 1
_SINCE_DRIVER_LOAD = 0
# nvml.h, NVML_NVLINK_MAX_LINKS of the largest so far
_MOST_NVLINKS = 36
# Bounds that no GPU comes near; what is beyond them is no measurement.
_MOST_MILLIWATTS = 10_000_000
_MOST_CELSIUS = 250
_MOST_MHZ = 20_000
_MOST_ERRORS = 2**48
_SEES_A_SLICE = Unknown("the GPU is cut into slices: CUDA sees one of them")


class GpuLook:
    """Handle and names are asked when it is made. `handle` is None where the driver does not give it."""

    def __init__(self, driver: Driver, index: int) -> None:
        self.index = index
        self._driver = driver
        self._slow: dict[str, Fact] = {}
        self._slices: tuple[SliceHandle, ...] | None = None
        self._nvlinks = _MOST_NVLINKS
        self._peaks_gib: list[float] = []
        handle = driver.ask("nvmlDeviceGetHandleByIndex", index)
        self.handle = None if isinstance(handle, Refusal) else handle
        self._why_not = handle.reason if isinstance(handle, Refusal) else ""
        self._ask = Questions(driver, handle)
        self.uuid, self.name = "", "not readable"
        if self.handle is not None:
            self.uuid = values.shown_text(self._ask.ask("nvmlDeviceGetUUID"))
            self.name = values.shown_text(self._ask.ask("nvmlDeviceGetName"))

    def sample_memory(self) -> None:
        if self.handle is not None:
            self._note_peak(self._ask.memory())

    def basics(self) -> Gpu:
        """Memory and processes, all else not asked."""
        if self.handle is None:
            return self._not_readable(Unknown(self._why_not))
        memory = self._ask.memory()
        processes, why_not = self._ask.processes(memory)
        return self._gpu(memory, processes, why_not, {"cuda_total_gib": values.cuda_total(memory)})

    def read(self, with_slow: bool, xid: Fact) -> Gpu:
        """All of it; what moves slowly is asked again only `with_slow`."""
        if self.handle is None:
            return self._not_readable(xid)
        if with_slow:
            self._read_slow()
        memory = self._ask.memory()
        slices, processes, why_not = self._parts(memory)
        facts = self._fast() | self._slow | {"peak_used_gib": self._peak(memory), "xid": xid}
        facts["cuda_total_gib"] = values.cuda_total(memory) if self._slices is None else _SEES_A_SLICE
        return self._gpu(memory, processes, why_not, facts, slices)

    def _gpu(
        self,
        memory: values.Memory,
        processes: tuple[GpuProcess, ...],
        why_not: str | None,
        facts: dict[str, Any],
        slices: tuple[MigSlice, ...] = (),
    ) -> Gpu:
        return Gpu(
            index=self.index,
            uuid=self.uuid,
            name=self.name,
            total_gib=memory.total_gib,
            used_gib=memory.used_gib,
            free_gib=memory.free_gib,
            reserved_gib=memory.reserved_gib,
            processes=processes,
            processes_unavailable=why_not,
            slices=slices,
            **facts,
        )

    def _not_readable(self, xid: Fact) -> Gpu:
        unknown = Unknown(self._why_not)
        facts: dict[str, Any] = dict.fromkeys(_MEASURED, unknown)
        facts["xid"] = xid if isinstance(xid, Known) else unknown
        return Gpu(self.index, self.uuid, self.name, unknown, unknown, unknown, (), self._why_not, **facts)

    def _parts(self, memory: values.Memory) -> tuple[tuple[MigSlice, ...], tuple[GpuProcess, ...], str | None]:
        """Slices, processes of them or of the whole, and why not all of those can be listed."""
        if self._slices is None:
            return (), *self._ask.processes(memory)
        read = [one.read() for one in self._slices]
        processes = tuple(process for part, _why_not in read for process in part.processes)
        return tuple(part for part, _why_not in read), processes, next((why for _part, why in read if why), None)

    def _fast(self) -> dict[str, Fact]:
        ask = self._ask.ask
        rates = ask("nvmlDeviceGetUtilizationRates", pick=lambda answer: answer.gpu)
        return {
            "utilization_percent": values.number(rates, 0, 100),
            "power_watts": values.number(ask("nvmlDeviceGetPowerUsage"), 0, _MOST_MILLIWATTS, 1000),
            "temperature_celsius": values.number(ask("nvmlDeviceGetTemperature", _GPU_SENSOR), 0, _MOST_CELSIUS),
            "sm_clock_mhz": values.number(ask("nvmlDeviceGetClockInfo", _SM_CLOCK), 0, _MOST_MHZ),
            "memory_clock_mhz": values.number(ask("nvmlDeviceGetClockInfo", _MEMORY_CLOCK), 0, _MOST_MHZ),
            "throttle": values.throttle(self._ask.throttle_bits()),
        }

    def _read_slow(self) -> None:
        self._ask.forget_refusals()
        ask = self._ask.ask
        ecc = ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_DRIVER_LOAD)
        generation, width = ask("nvmlDeviceGetCurrPcieLinkGeneration"), ask("nvmlDeviceGetCurrPcieLinkWidth")
        self._slow |= {
            "power_limit_watts": values.number(ask("nvmlDeviceGetEnforcedPowerLimit"), 1, _MOST_MILLIWATTS, 1000),
            "ecc_errors": values.number(ecc, 0, _MOST_ERRORS),
            "row_remap": values.row_remap(ask("nvmlDeviceGetRemappedRows")),
            "pcie": values.pcie(generation, width),
            "nvlinks": self._count_nvlinks(),
        }
        if "bus_id" not in self._slow or isinstance(self._slow["bus_id"], Unknown):
            self._slow["bus_id"] = values.text(ask("nvmlDeviceGetPciInfo", pick=lambda answer: answer.busId))
        self._slices = find_slices(self._driver, self._ask)

    def _count_nvlinks(self) -> Fact:
        """NVML does not say how many links there are: the first that it does not know ends them."""
        up = 0
        for link in range(self._nvlinks):
            answer = self._ask.ask("nvmlDeviceGetNvLinkState", link)
            if isinstance(answer, Refusal):
                if not link or not (answer.is_for_good or answer.code == INVALID_ARGUMENT):
                    return answer.unknown
                self._nvlinks = link
                break
            state = values.number(answer, 0, 1)
            if isinstance(state, Unknown):
                return state
            up += answer
        return Known(up, "measured", values.ORIGIN)

    def _note_peak(self, memory: values.Memory) -> None:
        if isinstance(memory.used_gib, Known):
            self._peaks_gib[:] = [max([*self._peaks_gib, float(memory.used_gib.value)])]

    def _peak(self, memory: values.Memory) -> Fact:
        self._note_peak(memory)
        if not self._peaks_gib:
            return memory.used_gib
        return Known(self._peaks_gib.pop(), "measured", "NVML, the highest since the reading before")


_MEASURED = (
    "reserved_gib",
    "cuda_total_gib",
    "peak_used_gib",
    "utilization_percent",
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "throttle",
    "ecc_errors",
    "row_remap",
    "pcie",
    "nvlinks",
    "bus_id",
)
