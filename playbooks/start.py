"""What is known before the first load: the model's config.json, this host, its GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import read_gpus
from engine_probe.hardware.host import read_host
from engine_probe.preflight import weights_gib
from playbooks.model_config import model_facts

if TYPE_CHECKING:
    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu
    from engine_probe.launch import Deployment, Launch

_GPU_NAMES = ("gpu.total_gib", "gpu.free_before_launch_gib", "gpu.used_by_others_gib")


def facts_before(deployment: Deployment, is_local: bool = True) -> dict[str, Fact]:
    """Facts of the deployment's first model. With `is_local` false, host and GPUs are another machine's: unknown."""
    launch = deployment.models[0]
    base = deployment.path.parent if deployment.path is not None else Path()
    facts = {**model_facts(launch.model, base), "weights.on_disk_gib": _weights(base / Path(launch.model).expanduser())}
    if not is_local:
        far = Unknown("the engine runs elsewhere, and this host is not it")
        return {**facts, "host.available_gib": far, "host.total_gib": far, **dict.fromkeys(_GPU_NAMES, far)}
    host = read_host()
    return {
        **facts,
        "host.available_gib": host.ram_available_gib,
        "host.total_gib": host.ram_total_gib,
        **_gpu_facts(launch),
    }


def _weights(folder: Path) -> Fact:
    size_gib, why_not = weights_gib(folder)
    if size_gib is None:
        return Unknown((why_not or "not known").removeprefix("weights: "))
    return Known(round(size_gib, 2), "measured", "safetensors headers")


def _gpu_facts(launch: Launch) -> dict[str, Fact]:
    state = read_gpus()
    if state.unavailable is not None:
        return dict.fromkeys(_GPU_NAMES, Unknown(state.unavailable))
    chosen = [gpu for gpu in state.gpus if launch.gpus is None or gpu.index in launch.gpus]
    if not chosen:
        return dict.fromkeys(_GPU_NAMES, Unknown("the launch's GPUs are not on this host"))
    gpu = min(chosen, key=_free_gib)
    return {
        "gpu.total_gib": gpu.total_gib,
        "gpu.free_before_launch_gib": gpu.free_gib,
        "gpu.used_by_others_gib": gpu.used_gib,
        **_largest_other(gpu),
    }


def _free_gib(gpu: Gpu) -> float:
    """A GPU that cannot be read comes last: nothing can be said by it."""
    free = gpu.free_gib
    return float(free.value) if isinstance(free, Known) else float("inf")


def _largest_other(gpu: Gpu) -> dict[str, Fact]:
    sized = [(one.used_gib.value, one) for one in gpu.processes if isinstance(one.used_gib, Known)]
    if not sized:
        why = Unknown(gpu.processes_unavailable or "no other process is on this GPU")
        return {"gpu.largest_other_pid": why, "gpu.largest_other_name": why}
    largest = max(sized, key=lambda pair: float(pair[0]))[1]
    origin = f"NVML, GPU {gpu.index}"
    return {
        "gpu.largest_other_pid": Known(largest.pid, "measured", origin),
        "gpu.largest_other_name": Known(largest.name, "measured", origin),
    }
