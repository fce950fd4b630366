"""Whose memory of one GPU it is: what the driver lists there, the most first, then what only claims it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbooks.alert import number
from playbooks.alerts_memory import held_by_gpu

if TYPE_CHECKING:
    from engine_probe.hardware.gpus import Gpu, GpuProcess
    from engine_probe.hardware.reading import Reading, Server


@dataclass(frozen=True)
class Holder:
    """A server, or a process of none. `held_gib` None: its size is not known.

    `is_claimed`: by its command the server is to run there, and the driver lists none of its processes.
    """

    server: Server | None = None
    process: GpuProcess | None = None
    held_gib: float | None = None
    is_claimed: bool = False


def holders_of(gpu: Gpu, reading: Reading) -> tuple[Holder, ...]:
    """Orphans before all, then the most memory first, what is only claimed last."""
    found = [one for server in reading.servers if (one := _server_on(server, gpu, reading)) is not None]
    engines = {pid for server in reading.servers for pid in (server.pid, *server.pids)}
    found += [Holder(process=one, held_gib=number(one.used_gib)) for one in gpu.processes if one.pid not in engines]
    return tuple(sorted(found, key=_rank))


def _server_on(server: Server, gpu: Gpu, reading: Reading) -> Holder | None:
    pids = {server.pid, *server.pids}
    is_listed = (
        any(split.gpu == gpu.index for split in server.memory)
        or any(one.pid in pids for one in (*gpu.processes, *(one for part in gpu.slices for one in part.processes)))
        or any(one.pid in pids and any(index == gpu.index for index, _ in one.gpu_gib) for one in reading.processes)
    )
    if is_listed:
        return Holder(server, held_gib=held_by_gpu(server, reading.processes).get(gpu.index))
    return Holder(server, is_claimed=True) if gpu.index in server.gpus else None


def _rank(one: Holder) -> tuple[int, float]:
    is_orphan = one.server is not None and one.server.state == "orphan"
    return (2 if one.is_claimed else 0 if is_orphan else 1), -(one.held_gib or 0.0)
