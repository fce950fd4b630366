"""A reading of the host as the wizard's panes draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from tui.widgets.memory_pane import GpuRow, HostView

if TYPE_CHECKING:
    from engine_probe.hardware.reading import Reading

NO_LIMIT = Unknown("nothing but the RAM itself limits this process")


def host_view(reading: Reading) -> HostView:
    host, gpus = reading.host, reading.gpus
    return HostView(
        host=reading.host_name,
        ram_total_gib=host.ram_total_gib,
        ram_available_gib=host.ram_available_gib,
        container_used_gib=host.cgroup_used_gib or NO_LIMIT,
        container_limit_gib=host.cgroup_limit_gib or NO_LIMIT,
        shm_used_gib=_less(host.shm_total_gib, host.shm_free_gib),
        shm_total_gib=host.shm_total_gib,
        gpus=tuple(GpuRow(gpu.index, gpu.name, gpu.used_gib, gpu.total_gib) for gpu in gpus.gpus),
        no_gpu=gpus.unavailable or (None if gpus.gpus else "the driver reports no GPU on this host"),
    )


def _less(total: Fact, free: Fact) -> Fact:
    if isinstance(total, Known) and isinstance(free, Known):
        return Known(float(total.value) - float(free.value), "computed", f"{total.origin}, total less free")
    return total if isinstance(total, Unknown) else free
