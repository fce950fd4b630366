"""This host now, as the JSON object that a diagnosis takes as a saved state: GPUs, who holds them, memory, limits."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine_probe.facts import Known
from engine_probe.hardware.gpus import read_gpus
from engine_probe.hardware.host import read_host

if TYPE_CHECKING:
    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState

_GIB = 1024**3
_ENGINE = ("vllm", "VLLM::")


def snapshot() -> dict[str, Any]:
    """What cannot be read is left out."""
    gpus, host = read_gpus(), read_host()
    limit = host.cgroup_limit_gib
    sizes = {
        "ram_total_gib": host.ram_total_gib,
        "ram_available_gib": host.ram_available_gib,
        "ram_limit_gib": limit,
        "shm_total_gib": host.shm_total_gib,
        "shm_free_gib": host.shm_free_gib,
    }
    known = {name: fact.value for name, fact in sizes.items() if isinstance(fact, Known)}
    return {
        "schema": 1,
        "gpus": [_gpu(gpu) for gpu in gpus.gpus],
        "driver_version": gpus.driver_version,
        "cuda_version": gpus.cuda_version,
        "host": known | _limits(),
        "servers": _servers(gpus),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    sizes = {"total_gib": gpu.total_gib, "used_gib": gpu.used_gib, "free_gib": gpu.free_gib}
    shown = {name: _value(fact) for name, fact in sizes.items() if isinstance(fact, Known)}
    return {"index": gpu.index, "name": gpu.name, **shown, "processes": [_process(one) for one in gpu.processes]}


def _process(process: GpuProcess) -> dict[str, Any]:
    size = {"used_gib": _value(process.used_gib)} if isinstance(process.used_gib, Known) else {}
    return {"pid": process.pid, "name": process.name, **size}


def _value(fact: Fact) -> float:
    assert isinstance(fact, Known)
    return round(float(fact.value), 2)


def _limits() -> dict[str, Any]:
    found: dict[str, Any] = {"open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
    cache = Path(os.environ.get("VLLM_CACHE_ROOT") or "~/.cache").expanduser()
    with contextlib.suppress(OSError):
        found["cache_free_gib"] = round(shutil.disk_usage(cache).free / _GIB, 2)
    return found


def _servers(gpus: GpuState) -> list[dict[str, Any]]:
    """vLLM's processes on the GPUs, by the process that they descend from."""
    by_root: dict[int, dict[str, Any]] = {}
    for pid in {process.pid for gpu in gpus.gpus for process in gpu.processes}:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            family = [process, *process.parents()]
            engines = [one for one in family if any(word in " ".join(one.cmdline()) for word in _ENGINE)]
            if engines:
                root = engines[-1]
                is_orphan = root.pid == pid and process.ppid() == 1 and "serve" not in process.cmdline()
                server = by_root.setdefault(
                    root.pid, {"name": _name(root), "pid": root.pid, "is_orphan": is_orphan, "processes": []}
                )
                server["processes"].append({"pid": pid})
    return list(by_root.values())


def _name(process: psutil.Process) -> str:
    words = process.cmdline()
    if "serve" in words and words.index("serve") + 1 < len(words):
        return str(words[words.index("serve") + 1])
    return str(words[0]) if words else process.name()
