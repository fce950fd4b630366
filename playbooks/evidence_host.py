"""Facts of GPUs and the host from a state of it: an object that evidence_host_file.py reads, or monitor_json.py makes.

Every key may be missing; what is not there is unknown with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known, Unknown
from playbooks.evidence_host_file import notes_of, read_state
from playbooks.evidence_host_gpu import GpuInState, free_gib, number, objects
from playbooks.facts_of_evidence import FROM_HOST_STATE
from playbooks.neighbours import gpus_used

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import Launch

_HOST_KEYS = {
    "host.total_gib": "ram_total_gib",
    "host.available_gib": "ram_available_gib",
    "host.ram_limit_gib": "ram_limit_gib",
    "host.shm_total_gib": "shm_total_gib",
    "host.shm_free_gib": "shm_free_gib",
    "host.cache_free_gib": "cache_free_gib",
    "host.open_files_limit": "open_files_limit",
}


@dataclass(frozen=True)
class HostState:
    """The saved object and where it came from."""

    content: Mapping[str, Any]
    origin: str

    @property
    def gpus(self) -> list[Mapping[str, Any]]:
        return objects(self.content.get("gpus"))

    @property
    def gpu_indices(self) -> tuple[int, ...]:
        return tuple(gpu["index"] for gpu in self.gpus if isinstance(gpu.get("index"), int))

    @property
    def servers(self) -> list[Mapping[str, Any]] | None:
        """None: the state does not tell which there are."""
        servers = self.content.get("servers")
        return objects(servers) if isinstance(servers, list) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Keys that nobody reads: misspelled, or of a newer release."""
        return tuple(f"{self.origin}: {note}" for note in notes_of(self.content))


def read_host_state(path: Path) -> HostState:
    """Raises InputError where the file is no such object."""
    return HostState(read_state(path), str(path))


def host_facts(state: HostState, launch: Launch | None) -> dict[str, Fact]:
    """`gpu.*` of the launch's GPU with least free memory, and `host.*`."""
    facts: dict[str, Fact] = dict.fromkeys(FROM_HOST_STATE, Unknown(f"{state.origin} does not tell"))
    facts |= _known(_host_values(state), state.origin)
    chosen = _gpu_of(state, launch)
    if chosen is not None:
        origin = f"{state.origin}, GPU {chosen.get('index')}"
        facts |= GpuInState(chosen, state.servers, origin).facts() | _known(_named(chosen, state), origin)
    facts["gpu.count"] = Known(len(state.gpus), "measured", state.origin)
    return facts


def _known(values: Mapping[str, Value | None], origin: str) -> dict[str, Fact]:
    return {name: Known(value, "measured", origin) for name, value in values.items() if value is not None}


def _host_values(state: HostState) -> dict[str, Value | None]:
    host = state.content.get("host")
    host = host if isinstance(host, dict) else {}
    return {name: number(host.get(key)) for name, key in _HOST_KEYS.items()}


def _gpu_of(state: HostState, launch: Launch | None) -> Mapping[str, Any] | None:
    wanted = None if launch is None else gpus_used(launch)
    chosen = [gpu for gpu in state.gpus if wanted is None or gpu.get("index") in wanted]
    return min(chosen, key=_free_or_most, default=None)


def _free_or_most(gpu: Mapping[str, Any]) -> float:
    free = free_gib(gpu)
    return float("inf") if free is None else free


def _named(gpu: Mapping[str, Any], state: HostState) -> dict[str, Value | None]:
    return {
        "gpu.name": gpu.get("name"),
        "gpu.compute_capability": number(gpu.get("compute_capability")),
        "gpu.driver_version": state.content.get("driver_version"),
    }
