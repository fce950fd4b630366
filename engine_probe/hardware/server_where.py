"""Where a server's processes run: their container, their network, the GPUs that they were given or hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.hardware.processes_read import link_of, read_bytes
from engine_probe.hardware.server_memory import total_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState

_CONTAINERS = (
    ("podman", re.compile(r"libpod-(?:payload-)?([0-9a-f]{12,64})")),
    ("kubernetes", re.compile(r"kubepods[^\n]*?[/-]([0-9a-f]{32,64})(?:\.scope)?(?:/|$)", re.MULTILINE)),
    ("containerd", re.compile(r"(?:cri-containerd|nerdctl|crio)[-:]([0-9a-f]{12,64})")),
    ("docker", re.compile(r"docker[-/]([0-9a-f]{12,64})")),
    ("lxc", re.compile(r"lxc(?:\.payload\.|/)([\w.-]{1,64})")),
)
_ID_LENGTH = 12
ENDING = "ending"
"""The name of a process that the driver still lists, and that has ended."""

Holding = tuple[int, "Fact"]
"""A GPU's index and the memory held there."""


@dataclass(frozen=True)
class Container:
    kind: str
    id: str

    @property
    def name(self) -> str:
        """Such as "docker 0123456789ab"."""
        return f"{self.kind} {self.id if self.kind == 'lxc' else self.id[:_ID_LENGTH]}"

    def log(self, root: str) -> str | None:
        """Where Docker's default driver keeps what its processes print (json-file; readable for root)."""
        return f"{root}/var/lib/docker/containers/{self.id}/{self.id}-json.log" if self.kind == "docker" else None


def container_of(proc: str, pid: int) -> Container | None:
    """None outside of any, and in the one that we are in ourselves."""
    found = _container_in(read_bytes(f"{proc}/{pid}/cgroup"))
    return None if found == _container_in(read_bytes(f"{proc}/self/cgroup")) else found


def _container_in(listing: bytes | None) -> Container | None:
    text = (listing or b"").decode("utf-8", "replace")
    for kind, pattern in _CONTAINERS:
        if found := pattern.search(text):
            return Container(kind, found[1])
    return None


def has_own_network(proc: str, pid: int) -> bool:
    """Whether 127.0.0.1 is another machine to it than to us; False also where that cannot be seen."""
    theirs, ours = link_of(f"{proc}/{pid}/ns/net"), link_of(f"{proc}/self/ns/net")
    return theirs is not None and ours is not None and theirs != ours


def holdings(gpus: GpuState) -> dict[int, tuple[Holding, ...]]:
    """Which GPUs each process that can be seen here holds memory on, by its pid."""
    return _by_pid(gpus, lambda process: process.is_visible)


def hidden_holdings(gpus: GpuState, visible: Collection[int]) -> dict[int, tuple[Holding, ...]]:
    """The same of the processes that the driver knows and that cannot be seen here."""
    return _by_pid(gpus, lambda process: not process.is_visible or process.pid not in visible)


def mark_ended(gpus: GpuState, ended: Collection[int]) -> GpuState:
    """Processes of `ended` that the driver still lists are ending; they are nobody else's."""
    if not ended or not any(one.pid in ended for gpu in gpus.gpus for one in _processes_on(gpu)):
        return gpus

    def marked(processes: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
        return tuple(
            replace(one, name=ENDING, is_visible=False, is_ending=True) if one.pid in ended else one
            for one in processes
        )

    return replace(
        gpus,
        gpus=tuple(
            replace(
                gpu,
                processes=marked(gpu.processes),
                slices=tuple(replace(part, processes=marked(part.processes)) for part in gpu.slices),
            )
            for gpu in gpus.gpus
        ),
    )


def _by_pid(gpus: GpuState, is_wanted: Callable[[GpuProcess], bool]) -> dict[int, tuple[Holding, ...]]:
    found: dict[int, list[Holding]] = {}
    for gpu in gpus.gpus:
        sizes: dict[int, list[Fact]] = {}
        for process in filter(is_wanted, _processes_on(gpu)):
            sizes.setdefault(process.pid, []).append(process.used_gib)
        for pid, parts in sizes.items():
            found.setdefault(pid, []).append((gpu.index, total_of(parts)))
    return {pid: tuple(held) for pid, held in found.items()}


def _processes_on(gpu: Gpu) -> list[GpuProcess]:
    """Those of its slices, and those that are on none of them."""
    on_slices = [process for part in gpu.slices for process in part.processes]
    pids = {process.pid for process in on_slices}
    return [*on_slices, *(process for process in gpu.processes if process.pid not in pids)]


def gpus_given(env: Mapping[str, str] | None, wanted: int, gpus: Iterable[Gpu]) -> tuple[int, ...]:
    """The GPUs that a server will take, as far as its environment tells before it holds memory on any.

    An index means NVML's only where the GPUs are in the order of their buses or are all the same.
    """
    known = tuple(gpus)
    visible = (env or {}).get("CUDA_VISIBLE_DEVICES")
    if env is None or not known:
        return ()
    if visible is None:
        return tuple(gpu.index for gpu in known[:wanted])
    is_ordered = env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in known}) == 1
    chosen: list[int] = []
    for word in visible.split(","):
        one = word.strip()
        by_index = [gpu.index for gpu in known if is_ordered and one == str(gpu.index)]
        by_uuid = [gpu.index for gpu in known if one.startswith("GPU-") and gpu.uuid.startswith(one)]
        if len(by_index + by_uuid) != 1:
            break  # CUDA, too, sees nothing behind a word that it does not know
        chosen += by_index + by_uuid
    return tuple(chosen[:wanted])
