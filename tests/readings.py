"""Readings of a host that tests change: eight GPUs, one model that serves on four of them, nothing wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState
from engine_probe.hardware.host import Disk, HostState
from engine_probe.hardware.reading import MemorySplit, ProcessReading, Reading, Server

NOW = 1_772_442_131.0
NOT_KNOWN = Unknown("nobody said it")


def known(value: float | str) -> Fact:
    return Known(value, "measured", "a test")


def gpu(index: int = 0, *, total: float = 80.0, used: float = 0.0, **others: Any) -> Gpu:
    sizes = {"total_gib": known(total), "used_gib": known(used), "free_gib": known(total - used)}
    values: dict[str, Any] = {"uuid": f"GPU-{index:04}", "name": "NVIDIA H100 80GB HBM3", "processes": (), **sizes}
    return Gpu(index, **(values | others))


def gpu_process(pid: int, used_gib: float | None, name: str = "VLLM::Worker_TP0", **others: Any) -> GpuProcess:
    return GpuProcess(pid, name, NOT_KNOWN if used_gib is None else known(used_gib), **others)


def host(**others: Any) -> HostState:
    sizes = {"ram_total_gib": 503.0, "ram_available_gib": 291.0, "swap_total_gib": 8.0, "swap_free_gib": 8.0}
    sizes |= {"shm_total_gib": 64.0, "shm_free_gib": 63.8, "cgroup_limit_gib": 256.0, "cgroup_used_gib": 231.0}
    sizes |= {"cgroup_cached_gib": 180.0, "ram_cached_gib": 200.0, "cpu_percent": 12.0, "open_files_limit": 65536}
    disks = (Disk("/models", "models", known(2000.0), known(812.0), known(1200.0)),)
    values: dict[str, Any] = {name: known(size) for name, size in sizes.items()}
    return HostState(**(values | {"disks": disks} | others))


def process(pid: int, **others: Any) -> ProcessReading:
    values: dict[str, Any] = {"ppid": 1, "title": "VLLM::EngineCore", "role": "engine_core", "user": "ann"}
    values |= {"is_mine": True, "started": NOW - 3600, "rss_gib": known(4.2), "pss_gib": known(3.1)}
    values |= {"shared_gib": known(1.0), "threads": known(90), "open_files": known(120), "cpu_percent": known(99.0)}
    return ProcessReading(pid, **(values | others))


def server(name: str = "chat-70b", pid: int = 4200, **others: Any) -> Server:
    values: dict[str, Any] = {"model": f"/models/{name}", "pids": (pid, pid + 1), "state": "serving"}
    values |= {"started": NOW - 7900, "stage": known("serving"), "version": known("0.19.0"), "gpus": (0,)}
    values |= {"argv": ("vllm", "serve", f"/models/{name}", "--gpu-memory-utilization", "0.9")}
    return Server(name, pid=pid, **(values | others))


def serving() -> Server:
    """On four GPUs, with all that its log and its metrics tell."""
    split = tuple(MemorySplit(index, known(71.2), known(33.1), known(35.8), known(2.3)) for index in range(4))
    numbers = {"kv_pool_gib": known(143.2), "kv_use_percent": known(63.0), "running": known(12), "waiting": known(0)}
    return server(gpus=(0, 1, 2, 3), memory=split, port=known(8000), preemptions=known(0), **numbers)


def reading(**others: Any) -> Reading:
    """Nothing in it is wrong."""
    busy = {"utilization_percent": known(87), "power_watts": known(312.4), "temperature_celsius": known(64)}
    gpus = tuple(
        gpu(index, used=71.8, processes=(gpu_process(4201 + index, 71.2),), **busy) for index in range(4)
    ) + tuple(gpu(index) for index in range(4, 8))
    one = replace(serving(), pids=tuple(range(4200, 4205)))
    held = tuple(process(4201 + index, server=4200, gpu_gib=((index, known(71.2)),)) for index in range(4))
    values: dict[str, Any] = {"gpus": GpuState(gpus, None, "580.65.06", "13.0"), "host": host()}
    values |= {"servers": (one,), "processes": (process(4200, role="api_server", server=4200), *held)}
    return Reading(NOW, "node7", **(values | others))


def with_gpus(*gpus: Gpu, **others: Any) -> Reading:
    values: dict[str, Any] = {"servers": (), "processes": ()} | others
    return reading(gpus=GpuState(gpus, None, "580.65.06", "13.0"), **values)
