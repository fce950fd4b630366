"""A look at the host as the JSON object of `monitor --json`, which is also what `diagnose --host-state` reads.

Each key is described in monitor_schema.json. What is not known is null, with its reason under `unknown` beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known, Unknown
from engine_probe.numbers import is_credible
from playbooks.alert import number
from playbooks.evidence_host_file import TOTALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu, GpuProcess, MigSlice
    from engine_probe.hardware.host import Disk, HostState
    from engine_probe.hardware.reading import MemorySplit, ProcessReading, Reading, Server
    from playbooks.alert import Alert

SCHEMA = 1
_TEXT = "text"
_FORMS: dict[str, int | str] = {
    "throttle": _TEXT, "row_remap": _TEXT, "pcie": _TEXT, "bus_id": _TEXT, "stage": _TEXT, "version": _TEXT,
    "utilization_percent": 0, "temperature_celsius": 0, "sm_clock_mhz": 0, "memory_clock_mhz": 0,
    "power_watts": 1, "power_limit_watts": 1, "ecc_errors": 0, "xid": 0, "nvlinks": 0,
    "cpu_percent": 1, "read_mib_per_second": 1, "open_files_limit": 0, "threads": 0, "open_files": 0,
    "port": 0, "kv_use_percent": 1, "running": 0, "waiting": 0, "preemptions": 0,
}  # fmt: skip
"""Text, or how many digits stand behind the point; what is not here is a size in GiB."""


def as_object(reading: Reading, alerts: Iterable[Alert]) -> dict[str, Any]:
    """One object; it has no number that JSON cannot write."""
    state = reading.gpus
    engines = {pid: one for one in reading.servers for pid in (one.pid, *one.pids)}
    processes = {one.pid: one for one in reading.processes}
    others = [one for one in reading.processes if one.pid not in engines]
    found = {
        "schema": SCHEMA,
        "time": _moment(reading.time),
        "seconds": _moment(reading.seconds),
        "host_name": reading.host_name,
        "driver_version": state.driver_version,
        "cuda_version": state.cuda_version,
        "gpus_unavailable": state.unavailable,
        "gpus": [_gpu(gpu, engines) for gpu in state.gpus],
        "gpu_links": [list(row) for row in state.links],
        "host": _host(reading.host),
        "servers": [_server(one, processes) for one in reading.servers],
        "processes": [_process(one) for one in others],
        "alerts": [_alert(one) for one in alerts],
    }
    whole: dict[str, Any] = _writable(found)
    return whole


def _gpu(gpu: Gpu, engines: Mapping[int, Server]) -> dict[str, Any]:
    facts = {
        "total_gib": gpu.total_gib,
        "cuda_total_gib": gpu.cuda_total_gib,
        "reserved_gib": gpu.reserved_gib,
        "used_gib": gpu.used_gib,
        "free_gib": gpu.free_gib,
        "peak_used_gib": gpu.peak_used_gib,
        "utilization_percent": gpu.utilization_percent,
        "power_watts": gpu.power_watts,
        "power_limit_watts": gpu.power_limit_watts,
        "temperature_celsius": gpu.temperature_celsius,
        "sm_clock_mhz": gpu.sm_clock_mhz,
        "memory_clock_mhz": gpu.memory_clock_mhz,
        "throttle": gpu.throttle,
        "ecc_errors": gpu.ecc_errors,
        "row_remap": gpu.row_remap,
        "xid": gpu.xid,
        "pcie": gpu.pcie,
        "nvlinks": gpu.nvlinks,
        "bus_id": gpu.bus_id,
    }
    known = {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, **_values(facts)}
    known["processes"] = [_gpu_process(one, engines) for one in gpu.processes]
    known["processes_unavailable"] = gpu.processes_unavailable
    known["slices"] = [_slice(one, engines) for one in gpu.slices]
    return known


def _slice(part: MigSlice, engines: Mapping[int, Server]) -> dict[str, Any]:
    sizes = _values({"total_gib": part.total_gib, "used_gib": part.used_gib, "free_gib": part.free_gib})
    processes = [_gpu_process(one, engines) for one in part.processes]
    return {"index": part.index, "uuid": part.uuid, "name": part.name, **sizes, "processes": processes}


def _gpu_process(one: GpuProcess, engines: Mapping[int, Server]) -> dict[str, Any]:
    server = engines.get(one.pid)
    return {
        "pid": one.pid,
        "name": one.name,
        "model": None if server is None else server.name,
        "is_visible": one.is_visible,
        "is_ending": one.is_ending,
        "slice": one.slice_index,
        **_values({"used_gib": one.used_gib}),
    }


def _host(host: HostState) -> dict[str, Any]:
    facts = {
        "ram_total_gib": host.ram_total_gib,
        "ram_available_gib": host.ram_available_gib,
        "ram_cached_gib": host.ram_cached_gib,
        "ram_limit_gib": host.cgroup_limit_gib,
        "ram_limit_used_gib": host.cgroup_used_gib,
        "ram_limit_cached_gib": None if host.cgroup_limit_gib is None else host.cgroup_cached_gib,
        "swap_total_gib": host.swap_total_gib,
        "swap_free_gib": host.swap_free_gib,
        "shm_total_gib": host.shm_total_gib,
        "shm_free_gib": host.shm_free_gib,
        "cache_free_gib": _free_for_caches(host.disks),
        "cpu_percent": host.cpu_percent,
        "open_files_limit": host.open_files_limit,
    }
    return {**_values(facts), "disks": [_disk(one) for one in host.disks]}


def _free_for_caches(disks: Iterable[Disk]) -> Fact:
    """Of several disks with caches, what the fullest has left."""
    free = [one.free_gib for one in disks if "cache" in one.what]
    return min(free, key=lambda one: number(one) or 0.0, default=Unknown("no folder of caches was looked at"))


def _disk(disk: Disk) -> dict[str, Any]:
    facts = {"total_gib": disk.total_gib, "free_gib": disk.free_gib, "read_mib_per_second": disk.read_mib_per_second}
    return {"path": disk.path, "what": disk.what, **_values(facts)}


def _server(server: Server, processes: Mapping[int, ProcessReading]) -> dict[str, Any]:
    facts = {
        "stage": server.stage,
        "version": server.version,
        "port": server.port,
        "kv_pool_gib": server.kv_pool_gib,
        "kv_use_percent": server.kv_use_percent,
        "running": server.running,
        "waiting": server.waiting,
        "preemptions": server.preemptions,
    }
    pids = dict.fromkeys((server.pid, *server.pids))
    return {
        "name": server.name,
        "model": server.model,
        "pid": server.pid,
        "state": server.state,
        "is_orphan": server.state == "orphan",
        "started": _moment(server.started),
        "stage_detail": server.stage_detail,
        "stage_since": _moment(server.stage_since),
        "stage_seen_late": server.stage_seen_late,
        "state_since": _moment(server.state_since),
        **_values(facts),
        "argv": list(server.argv),
        "log": server.log,
        "container": server.container,
        "gpus": list(server.gpus),
        "memory": [_split(one) for one in server.memory],
        "adapters": list(server.adapters),
        "processes": [_process(processes[pid]) if pid in processes else {"pid": pid} for pid in pids],
    }


def _split(split: MemorySplit) -> dict[str, Any]:
    facts = {
        "used_gib": split.used_gib,
        "weights_gib": split.weights_gib,
        "kv_pool_gib": split.kv_pool_gib,
        "rest_gib": split.rest_gib,
    }
    return {"gpu": split.gpu, **_values(facts)}


def _process(one: ProcessReading) -> dict[str, Any]:
    facts = {
        "rss_gib": one.rss_gib,
        "pss_gib": one.pss_gib,
        "shared_gib": one.shared_gib,
        "threads": one.threads,
        "open_files": one.open_files,
        "cpu_percent": one.cpu_percent,
    }
    return {
        "pid": one.pid,
        "ppid": one.ppid,
        "title": one.title,
        "role": one.role,
        "rank": one.rank,
        "user": one.user,
        "is_mine": one.is_mine,
        "started": _moment(one.started),
        **_values(facts),
        "gpus": [{"gpu": gpu, **_values({"used_gib": used})} for gpu, used in one.gpu_gib],
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "severity": alert.severity,
        "about": alert.about,
        "text": alert.text,
        "what_to_do": alert.what_to_do,
        "playbook": alert.playbook,
        "pid": alert.pid,
    }


def _values(facts: Mapping[str, Fact | None]) -> dict[str, Any]:
    """None for a fact stands for what does not exist: null without a reason."""
    values: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for key, fact in facts.items():
        values[key] = None if fact is None else _value(key, fact)
        if fact is not None and values[key] is None:
            unknown[key] = fact.reason if isinstance(fact, Unknown) else f"what was read makes no sense: {_odd(fact)}"
    return {**values, "unknown": unknown}


def _value(key: str, fact: Fact) -> float | str | None:
    form = _FORMS.get(key)
    if form == _TEXT:
        return fact.value if isinstance(fact, Known) and isinstance(fact.value, str) else None
    value = number(fact)
    if value is None or not is_credible(value) or (value < 0 and key != "temperature_celsius"):
        return None
    if isinstance(form, int):
        return round(value, form) if form else round(value)
    rounded = round(value, 2 if value >= 10 else 3)
    return None if key in TOTALS and not rounded else rounded


def _odd(fact: Known) -> str:
    """Cut: a number of thousands of digits is none that anybody reads, and Python refuses to write it."""
    return "a number of many digits" if isinstance(fact.value, int) and abs(fact.value) >= 10**20 else str(fact.value)


def _moment(seconds: float | None) -> float | None:
    value = None if seconds is None else number(Known(seconds, "measured", ""))
    return None if value is None else round(value, 3)


def _writable(value: Any) -> Any:
    """Names of files and processes may hold bytes that are no text; JSON readers refuse these."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _writable(one) for key, one in value.items()}
    return [_writable(one) for one in value] if isinstance(value, list) else value
