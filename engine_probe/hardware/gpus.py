"""The NVIDIA GPUs of this host, as their driver reports them through NVML."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Fact, Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GIB = 1024**3
_ORIGIN = "NVML"
_NOT_ASKED = Unknown("it was not asked for")


@dataclass(frozen=True)
class GpuProcess:
    """`pid` counts in the driver's view, which may differ from that inside a container."""

    pid: int
    name: str
    """The executable, or "not visible here" for a process of another container."""
    used_gib: Fact
    is_visible: bool = True
    """False for a process that /proc does not show here, such as one outside this container: it is never offered
    to be ended."""
    slice_index: int | None = None
    """The MIG slice that it runs on, where the GPU is cut into slices."""


@dataclass(frozen=True)
class MigSlice:
    """One MIG device of a GPU. Its utilisation is not measured by NVML, so it has none."""

    index: int
    uuid: str
    name: str
    total_gib: Fact
    used_gib: Fact
    free_gib: Fact
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True)
class Gpu:
    """Sizes, rates and states of one GPU. The facts below `processes_unavailable` are only asked by `GpuWatch`."""

    index: int
    uuid: str
    name: str
    total_gib: Fact
    used_gib: Fact
    free_gib: Fact
    processes: tuple[GpuProcess, ...]
    """In MIG mode those of all slices, each with its `slice_index`."""
    processes_unavailable: str | None = None
    """Why `processes` is empty, when it could not be read."""
    reserved_gib: Fact = _NOT_ASKED
    """The driver's own share of `total_gib`."""
    cuda_total_gib: Fact = _NOT_ASKED
    """What torch and vLLM see as the GPU's total memory."""
    peak_used_gib: Fact = _NOT_ASKED
    """The highest `used_gib` since the reading before this one."""
    utilization_percent: Fact = _NOT_ASKED
    power_watts: Fact = _NOT_ASKED
    power_limit_watts: Fact = _NOT_ASKED
    temperature_celsius: Fact = _NOT_ASKED
    sm_clock_mhz: Fact = _NOT_ASKED
    memory_clock_mhz: Fact = _NOT_ASKED
    throttle: Fact = _NOT_ASKED
    """Why the clocks are held down, in words; "none"."""
    ecc_errors: Fact = _NOT_ASKED
    """Uncorrected ones since the driver was loaded."""
    row_remap: Fact = _NOT_ASKED
    """"none", "pending: a reset is needed" or "failed"."""
    xid: Fact = _NOT_ASKED
    """The last Xid error seen while watching; 0 for none."""
    pcie: Fact = _NOT_ASKED
    """Such as "gen 4 x16"."""
    nvlinks: Fact = _NOT_ASKED
    """How many NVLinks are up."""
    bus_id: Fact = _NOT_ASKED
    slices: tuple[MigSlice, ...] = ()
    """Not empty only in MIG mode: then memory and processes belong to the slices, which list them too."""


@dataclass(frozen=True)
class GpuState:
    """`unavailable` says in words why nothing could be read; None when the driver answered, with GPUs or none."""

    gpus: tuple[Gpu, ...] = ()
    unavailable: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    links: tuple[tuple[str, ...], ...] = ()
    """How GPU i reaches GPU j: "self", "NVLink", "PCIe switch", "PCIe host bridge", "same NUMA node" or "other NUMA
    node", with ", no P2P" where peers cannot read each other's memory, or "unknown". Asked once; empty where not."""


def read_gpus() -> GpuState:
    """Ask the driver once. Never raises for what the driver says; that is in the result."""
    import pynvml  # noqa: PLC0415 -- only who asks for GPUs needs it

    try:
        with _driver(pynvml):
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            number = int(pynvml.nvmlSystemGetCudaDriverVersion())
            count = int(pynvml.nvmlDeviceGetCount())
            gpus = tuple(gpu for index in range(count) if (gpu := _read_gpu(pynvml, index)) is not None)
    except pynvml.NVMLError as error:
        return GpuState(unavailable=_in_words(pynvml, error))
    return GpuState(gpus, None, driver, f"{number // 1000}.{number % 1000 // 10}")


@contextmanager
def _driver(pynvml: Any) -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _read_gpu(pynvml: Any, index: int) -> Gpu | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        unknown = Unknown(_in_words(pynvml, error))
        return Gpu(index, "", "not readable", unknown, unknown, unknown, (), unknown.reason)
    total, used, free = _memory(pynvml, handle)
    processes, why_none = _processes(pynvml, handle)
    return Gpu(
        index=index,
        uuid=_text(pynvml, pynvml.nvmlDeviceGetUUID, handle),
        name=_text(pynvml, pynvml.nvmlDeviceGetName, handle),
        total_gib=total,
        used_gib=used,
        free_gib=free,
        processes=processes,
        processes_unavailable=why_none,
    )


def _memory(pynvml: Any, handle: Any) -> tuple[Fact, Fact, Fact]:
    """Total, used and free. The second version of the call keeps the driver's own reserve out of `used`."""
    try:
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NotSupported):  # drivers before 510
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        unknown = Unknown(_in_words(pynvml, error))
        return unknown, unknown, unknown
    return _gib(memory.total), _gib(memory.used), _gib(memory.free)


def _processes(pynvml: Any, handle: Any) -> tuple[tuple[GpuProcess, ...], str | None]:
    try:
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError as error:
        return (), _in_words(pynvml, error)
    return tuple(GpuProcess(int(one.pid), _name_of(int(one.pid)), _used(one.usedGpuMemory)) for one in found), None


def _used(used_bytes: int | None) -> Fact:
    if used_bytes is None:
        return Unknown("the driver does not say it here (MIG, or a process of another container)")
    return _gib(used_bytes)


def _name_of(pid: int) -> str:
    import psutil  # noqa: PLC0415

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "not visible here"


def _text(pynvml: Any, ask: Callable[[Any], Any], handle: Any) -> str:
    try:
        return str(ask(handle))
    except pynvml.NVMLError as error:
        return f"unknown ({_in_words(pynvml, error)})"


def _gib(size_bytes: int) -> Known:
    return Known(size_bytes / _GIB, "measured", _ORIGIN)


def _in_words(pynvml: Any, error: Any) -> str:
    reasons = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) on this host",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel driver is not loaded",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the driver's library and kernel module have different versions: reload the module or reboot"
        ),
        pynvml.NVML_ERROR_NO_PERMISSION: "no permission to ask the NVIDIA driver",
        pynvml.NVML_ERROR_GPU_IS_LOST: "a GPU is lost (fallen off the bus): a reset or reboot is needed",
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "this driver is too old to say it",
        pynvml.NVML_ERROR_NOT_SUPPORTED: "this GPU or its mode does not support the question",
    }
    return reasons.get(error.value) or f"the NVIDIA driver says: {error}"
