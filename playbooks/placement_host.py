"""What a plan's models need of the host beside its GPUs: memory of their processes, and shared memory for ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known, Unknown
from engine_probe.memory.accounting_rules import rules_of
from engine_probe.memory.estimates import Estimate, exact, total

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.hardware.host import HostState
    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel

_MIB_PER_GIB = 1024
_SERVER_GIB = (1.0, 2.0, 4.0)
"""API server and engine core together: both have imported torch."""
_WORKER_GIB = (1.5, 3.0, 6.0)
"""Each rank: torch, CUDA's libraries and pinned buffers; the files' pages can be given back and do not count."""
_QUEUE_MIB, _ANSWER_MIB, _GROUP_MIB = 160, 240, 24
"""Ring buffers that 0.19.0 prints: 16 MiB x 10 to all ranks, 24 MiB x 10 from each, 4 MiB x 6 between them."""
_DEFAULT_SWAP_GIB = 4.0


@dataclass(frozen=True)
class HostNeeds:
    """In GiB. `shm` is at most taken: its pages are filled as messages grow."""

    ram: Amount
    shm: Amount
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """null is unknown."""
        return {
            "ram_gib": None if isinstance(self.ram, Unknown) else round(self.ram.value, 2),
            "shm_gib": None if isinstance(self.shm, Unknown) else round(self.shm.value, 2),
            "range": {
                name: [round(one.low, 2), round(one.high, 2)]
                for name, one in (("ram_gib", self.ram), ("shm_gib", self.shm))
                if not isinstance(one, Unknown)
            },
        }


def host_needs(models: Iterable[PlacedModel], host: HostState | None) -> HostNeeds:
    """Of the models that start; `host` None: another host, whose memory is not known."""
    starting = [model for model in models if model.fits]
    ram = total((_ram(model) for model in starting), "computed: processes, swap space, offloaded weights")
    shm = total((_shm(model) for model in starting), "computed: message queues between ranks as 0.19.0 sizes them")
    return HostNeeds(ram, shm, tuple(_notes(ram, shm, host)) if host is not None else ())


def _ram(model: PlacedModel) -> Amount:
    values = model.asked.values
    ranks = values.parallel.world
    low, value, high = (server + ranks * worker for server, worker in zip(_SERVER_GIB, _WORKER_GIB, strict=True))
    pinned = ranks * (values.offload_gib + _swap_gib(model))
    return Estimate(value + pinned, low + pinned, high + pinned, "computed: processes of the model")


def _swap_gib(model: PlacedModel) -> float:
    """V0 pins it for every GPU; V1 does not use it (worker/cache_engine.py, 0.10.2)."""
    if rules_of(model.asked.version, model.asked.wants_v1)[0].engine != "V0":
        return 0.0
    written = model.launch.arg("swap-space")
    return float(written) if isinstance(written, (int, float)) else _DEFAULT_SWAP_GIB


def _shm(model: PlacedModel) -> Amount:
    ranks = model.asked.values.parallel.ranks
    if ranks == 1:
        return exact(0.0, "computed: one rank needs none")
    mib = _QUEUE_MIB + ranks * _ANSWER_MIB + _GROUP_MIB
    return Estimate(mib / _MIB_PER_GIB, 0.05, mib / _MIB_PER_GIB + 0.1 * ranks, "computed: message queues")


def _notes(ram: Amount, shm: Amount, host: HostState) -> Iterable[str]:
    free = host.ram_available_gib
    if isinstance(free, Known) and isinstance(ram, Estimate) and ram.low > float(free.value):
        yield (
            f"the processes need {ram.low:.0f} to {ram.high:.0f} GiB of host memory, and {float(free.value):.1f} GiB "
            "are available (host-ram-exhausted)"
        )
    room = host.shm_total_gib
    if isinstance(room, Known) and isinstance(shm, Estimate) and shm.value > float(room.value):
        yield (
            f"shared memory (/dev/shm) has {float(room.value):.2f} GiB, and ranks may fill {shm.value:.2f} GiB of it "
            "(shm-too-small): in a container give --shm-size or --ipc=host"
        )
