"""Facts of GPUs and the host from a state of it: an object that evidence_host_file.py reads, or monitor_json.py makes.

Every key may be missing; what is not there is unknown with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known, Unknown
from playbooks.evidence_host_file import read_state
from playbooks.facts_of_evidence import FROM_HOST_STATE
from playbooks.neighbours import gpus_used

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
        return _objects(self.content.get("gpus"))

    @property
    def gpu_indices(self) -> tuple[int, ...]:
        return tuple(gpu["index"] for gpu in self.gpus if isinstance(gpu.get("index"), int))

    @property
    def servers(self) -> list[Mapping[str, Any]]:
        return _objects(self.content.get("servers"))


def read_host_state(path: Path) -> HostState:
    """Raises InputError where the file is no such object."""
    return HostState(read_state(path), str(path))


def host_facts(state: HostState, launch: Launch | None) -> dict[str, Fact]:
    """`gpu.*` of the launch's GPU with least free memory, and `host.*`."""
    facts: dict[str, Fact] = dict.fromkeys(FROM_HOST_STATE, Unknown(f"{state.origin} does not tell"))
    facts |= _known(_host_values(state), state.origin)
    chosen = _gpu_of(state, launch)
    if chosen is not None:
        facts |= _known(_gpu_values(chosen, state), f"{state.origin}, GPU {chosen.get('index')}")
    facts["gpu.count"] = Known(len(state.gpus), "measured", state.origin)
    return facts


def _known(values: Mapping[str, Value | None], origin: str) -> dict[str, Fact]:
    return {name: Known(value, "measured", origin) for name, value in values.items() if value is not None}


def _host_values(state: HostState) -> dict[str, Value | None]:
    host = state.content.get("host")
    host = host if isinstance(host, dict) else {}
    return {name: _number(host.get(key)) for name, key in _HOST_KEYS.items()}


def _gpu_of(state: HostState, launch: Launch | None) -> Mapping[str, Any] | None:
    wanted = None if launch is None else gpus_used(launch)
    chosen = [gpu for gpu in state.gpus if wanted is None or gpu.get("index") in wanted]
    return min(chosen, key=_free_gib, default=None)


def _free_gib(gpu: Mapping[str, Any]) -> float:
    free = _number(gpu.get("free_gib"))
    if free is not None:
        return free
    total, used = _number(gpu.get("total_gib")), _number(gpu.get("used_gib"))
    return float("inf") if total is None or used is None else total - used


def _gpu_values(gpu: Mapping[str, Any], state: HostState) -> dict[str, Value | None]:
    processes = _objects(gpu.get("processes"))
    sized = [(size, one) for one in processes if (size := _number(one.get("used_gib"))) is not None]
    largest = max(sized, key=lambda pair: pair[0], default=(0.0, {}))[1]
    engines = {pid for server in state.servers for pid in _pids(server)}
    orphans = [one for one in processes if _is_orphan(one, state.servers)]
    none_gib = 0.0 if isinstance(gpu.get("processes"), list) else None
    free = _free_gib(gpu)
    used = _number(gpu.get("used_gib"))
    return {
        "gpu.total_gib": _number(gpu.get("total_gib")),
        "gpu.free_before_launch_gib": None if free == float("inf") else free,
        "gpu.used_by_others_gib": used if used is not None else round(sum(size for size, _ in sized), 2),
        "gpu.largest_other_pid": largest.get("pid"),
        "gpu.largest_other_name": largest.get("model") or largest.get("name"),
        "gpu.name": gpu.get("name"),
        "gpu.compute_capability": _number(gpu.get("compute_capability")),
        "gpu.driver_version": state.content.get("driver_version"),
        "gpu.neighbours_gib": round(
            sum(size for size, one in sized if one.get("pid") in engines or one.get("model")), 2
        ),
        "gpu.orphan_pid": orphans[0].get("pid") if orphans else None,
        "gpu.orphan_gib": _number(orphans[0].get("used_gib")) if orphans else none_gib,
    }


def _pids(server: Mapping[str, Any]) -> Iterator[Any]:
    yield server.get("pid")
    for one in _objects(server.get("processes")):
        yield one.get("pid")


def _is_orphan(process: Mapping[str, Any], servers: Sequence[Mapping[str, Any]]) -> bool:
    if process.get("is_orphan") is True:
        return True
    return any(server.get("is_orphan") is True and process.get("pid") in set(_pids(server)) for server in servers)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
