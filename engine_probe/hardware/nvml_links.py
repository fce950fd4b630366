"""How GPUs reach each other: NVLink, PCIe, NUMA nodes, and whether they read each other's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.hardware.nvml import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.nvml import Driver

# nvml.h, nvmlGpuP2PCapsIndex_t; nvidia-ml-py has a tuple for the first (13.615).
_CAN_READ = 0
_HAS_NVLINK = 2
_OK = 0
_NO_ANSWER = 6
# nvml.h, nvmlGpuTopologyLevel_t
_LEVELS = {
    0: "PCIe switch",
    10: "PCIe switch",
    20: "PCIe switch",
    30: "PCIe host bridge",
    40: "same NUMA node",
    50: "other NUMA node",
}


def read_links(driver: Driver, handles: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    """A row a GPU. None in `handles` is a GPU that is not readable."""
    count = len(handles)
    rows = [["self"] * count for _ in range(count)]
    for first in range(count):
        for second in range(first + 1, count):
            rows[first][second] = rows[second][first] = _link(driver, handles[first], handles[second])
    return tuple(tuple(row) for row in rows)


def _link(driver: Driver, first: Any, second: Any) -> str:
    if first is None or second is None:
        return "unknown"
    if driver.ask("nvmlDeviceGetP2PStatus", first, second, _HAS_NVLINK) == _OK:
        way = "NVLink"
    else:
        level = driver.ask("nvmlDeviceGetTopologyCommonAncestor", first, second)
        way = "unknown" if isinstance(level, Refusal) else _LEVELS.get(level, "unknown")
    can_read = driver.ask("nvmlDeviceGetP2PStatus", first, second, _CAN_READ)
    if isinstance(can_read, Refusal) or can_read >= _NO_ANSWER:
        return way if way == "unknown" else f"{way}, P2P unknown"
    return way if can_read == _OK else f"{way}, no P2P"
