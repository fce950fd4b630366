"""What to know before a load: who holds the target GPUs, what memory is free, what the load needs at least."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from engine_probe import events as ev
from engine_probe.errors import InputError
from engine_probe.facts import Known
from engine_probe.hardware.gpus import read_gpus
from engine_probe.hardware.host import read_host
from engine_probe.model_files.headers import NoHeaderError, read_header
from engine_probe.paths import is_there

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.engine import Engine
    from engine_probe.hardware.gpus import Gpu, GpuState
    from engine_probe.hardware.host import HostState
    from engine_probe.launch import Deployment, Launch

_GIB = 1024**3


def check_model_folder(launch: Launch, engine: Engine) -> None:
    """Raise InputError where the launch names a local folder that is not there.

    Only a path that cannot be a hub id decides, and only where the engine sees the same files as we do.
    """
    if not engine.is_local or not launch.model.startswith(("/", "./", "../", "~")):
        return
    folder = Path(launch.model).expanduser()
    if not is_there(folder):
        nearest = _nearest_existing(folder)
        raise InputError(f"model folder of {launch.name} not found: {folder} (the nearest that exists is {nearest})")
    if folder.is_dir() and not is_there(folder / "config.json") and not any(folder.glob("*.gguf")):
        raise InputError(f"model folder of {launch.name} holds no config.json: {folder}")


def look_at(deployment: Deployment, engine: Engine) -> tuple[ev.Preflight, ...]:
    """What is known before any of the deployment's loads, a launch each. Raises InputError for a missing folder."""
    for launch in deployment.models:
        check_model_folder(launch, engine)
    gpus, host = read_gpus(), read_host()
    return tuple(look(launch, engine, gpus, host) for launch in deployment.models)


def look(launch: Launch, engine: Engine, gpus: GpuState, host: HostState) -> ev.Preflight:
    """Everything known without starting anything. Unknown stays null, with the reason among the notes."""
    weights, why_not = weights_gib(Path(launch.model).expanduser())
    notes = [why_not] if why_not else []
    if not engine.is_local:
        notes.append(f"GPUs and memory of {engine.label} are not read from here")
        return ev.Preflight(launch.name, needs_gib=weights, notes=notes)
    targets = target_gpus(launch, gpus)
    if gpus.unavailable:
        notes.append(f"no GPU read: {gpus.unavailable}")
    if launch.gpus is not None and len(targets) < len(launch.gpus):
        missing = sorted(set(launch.gpus) - {gpu.index for gpu in targets})
        notes.append(f"gpus: {', '.join(map(str, missing))} named by the launch, not seen on this host")
    return ev.Preflight(
        launch.name,
        holders=list(_holders(targets)),
        needs_gib=weights,
        free_gib=_least_free(targets, host),
        notes=notes,
    )


def target_gpus(launch: Launch, gpus: GpuState) -> tuple[Gpu, ...]:
    """The GPUs that the launch will use: those it names, else the first ones that its ranks need."""
    if launch.gpus is not None:
        return tuple(gpu for gpu in gpus.gpus if gpu.index in launch.gpus)
    ranks = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        size = launch.arg(name)
        ranks *= size if isinstance(size, int) and size > 0 else 1
    return gpus.gpus[:ranks]


def _holders(targets: Iterable[Gpu]) -> Iterable[dict[str, object]]:
    """Other people's processes: what this process has started itself, an earlier load say, is no other."""
    own = _own_pids() if any(gpu.processes for gpu in targets) else frozenset()
    for gpu in targets:
        for process in gpu.processes:
            if process.pid in own:
                continue
            used = process.used_gib
            yield {
                "gpu_index": gpu.index,
                "pid": process.pid,
                "name": process.name,
                "used_gib": used.value if isinstance(used, Known) else None,
            }


def _own_pids() -> frozenset[int]:
    return frozenset({os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))})


def _least_free(targets: tuple[Gpu, ...], host: HostState) -> float | None:
    if not targets:
        available = host.ram_available_gib
        return float(available.value) if isinstance(available, Known) else None
    free = [gpu.free_gib.value for gpu in targets if isinstance(gpu.free_gib, Known)]
    return min(float(value) for value in free) if len(free) == len(targets) else None


def weights_gib(folder: Path) -> tuple[float | None, str | None]:
    """(GiB of all tensors in the folder's safetensors files, None), or (None, why it is not known)."""
    if not folder.is_dir():
        return None, "weights: size not known before the load (no local folder)"
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return None, "weights: size not known (no safetensors file in the folder)"
    total = 0
    for file in files:
        size = _tensor_bytes(file)
        if size is None:
            return None, f"weights: size not known ({file.name} has no readable safetensors header)"
        total += size
    return total / _GIB, None


def _tensor_bytes(file: Path) -> int | None:
    """Bytes of the tensors by the header."""
    try:
        return read_header(file).tensor_bytes
    except (OSError, NoHeaderError):
        return None


def _nearest_existing(folder: Path) -> Path:
    return next((parent for parent in folder.absolute().parents if parent.exists()), Path("/"))
