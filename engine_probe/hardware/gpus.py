"""The NVIDIA GPUs of this host, as their driver reports them through NVML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine_probe.facts import Fact, Unknown

ProcessKind = Literal["compute", "graphics", "mps"]

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
    is_ending: bool = False
    """It is not visible any more and was a moment ago: its memory is being given back."""
    slice_index: int | None = None
    """The MIG slice that it runs on, where the GPU is cut into slices."""
    kind: ProcessKind = "compute"
    """mps: a client of NVIDIA's Multi-Process Service."""


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
    """Sizes, rates and states of one GPU. Those below `cuda_total_gib` are asked by `GpuWatch` only."""

    index: int
    uuid: str
    name: str
    total_gib: Fact
    used_gib: Fact
    free_gib: Fact
    processes: tuple[GpuProcess, ...]
    """In MIG mode those of all slices, each with its `slice_index`."""
    processes_unavailable: str | None = None
    """Why `processes` is empty or not whole, when it could not be read."""
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
    """How GPU i reaches GPU j: "self", "NVLink", "PCIe switch", "PCIe host bridge", "same NUMA node", "other NUMA
    node" or "unknown"; then ", no P2P" where peers cannot read each other's memory, ", P2P unknown" where that is not
    said. Asked once; empty where it was not."""


def read_gpus() -> GpuState:
    """Ask the driver once for memory and processes. Never raises for what the driver says; that is in the result."""
    from engine_probe.hardware.nvml import Driver, Refusal  # noqa: PLC0415 -- they are made of the types here
    from engine_probe.hardware.nvml_session import Remembered, open_session  # noqa: PLC0415

    session = open_session(Driver(), Remembered())
    if isinstance(session, Refusal):
        return GpuState(unavailable=session.reason)
    try:
        return session.basics()
    finally:
        session.close()
