"""Finds the engines of this host: named by the person first, then this Python, PATH, running servers, our own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.engine import Engine, EngineError, local_engine
from engine_probe.engine_names import engine_of_spec, named_engine, python_of_script
from engine_probe.errors import InputError
from engine_probe.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from engine_probe.launch import Deployment

ENGINE_VARIABLE = "VLLM_CONSOLE_ENGINE"
INSTALL_HINT = (
    "Install one with `vllm-console engine install`, or name yours with `--engine PATH` "
    "(a Python, a venv, container:NAME, image:IMAGE, pod:NAME, ssh:HOST)"
)
_LOOK_SECONDS = 10.0
# Without this a folder called vllm in the working directory, such as a checkout, would count as installed.
_LOOK_CODE = """
import json, sys
sys.path[:] = [p for p in sys.path if p]
import importlib.util
spec = importlib.util.find_spec("vllm")
print(json.dumps({"prefix": sys.prefix, "origin": spec.origin if spec else None}))
"""


@dataclass(frozen=True)
class Look:
    """What a Python says about itself without importing vLLM."""

    prefix: str
    has_vllm: bool


def choose_engine(explicit: str | None = None) -> Engine:
    """The engine to use: the named one, else the first found that has vLLM. Raises EngineError, InputError."""
    named = _named(explicit)
    if named is not None:
        return named
    looked: list[str] = []
    for engine in _with_vllm(looked):
        return engine
    raise EngineError(f"no vLLM was found. Looked at: {'; '.join(looked)}. {INSTALL_HINT}")


def engine_for(name: str | None, deployment: Deployment) -> Engine:
    """`--engine`, else the one that the deployment names, else the one found. Raises InputError, EngineError."""
    specs = {spec for spec in (deployment.engine, *(one.engine for one in deployment.models)) if spec is not None}
    if name is None and len(specs) > 1:
        raise InputError("one probe runs on one engine: the deployment names several; choose one with --engine")
    if name is None and specs:
        return engine_of_spec(specs.pop(), "the deployment")
    return choose_engine(name)


def find_engines(explicit: str | None = None) -> list[Engine]:
    """Every engine there is, in the order of choice; a named one comes first and is not looked into."""
    named = _named(explicit)
    found = list(_with_vllm([]))
    if named is None:
        return found
    return [named, *(engine for engine in found if engine.prefix != named.prefix)]


def look_into(python: str) -> Look | None:
    """Ask a local Python whether it has vLLM; None when it does not run."""
    try:
        answer = subprocess.run(
            [python, "-c", _LOOK_CODE], capture_output=True, text=True, timeout=_LOOK_SECONDS, check=True
        )
        said = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Look(prefix=said["prefix"], has_vllm=said["origin"] is not None)


def _named(explicit: str | None) -> Engine | None:
    """What the person named, in order of authority. It is taken as it is, so that a mistake is not passed over."""
    if explicit:
        return named_engine(explicit, "--engine")
    if os.environ.get(ENGINE_VARIABLE):
        return named_engine(os.environ[ENGINE_VARIABLE], ENGINE_VARIABLE)
    settings = read_settings()
    if settings.engine is not None:
        return engine_of_spec(settings.engine, f"`engine` in {settings.path}")
    return None


def _with_vllm(looked: list[str]) -> Iterator[Engine]:
    """Local engines that have vLLM, one a Python environment; each place looked at is added to `looked`."""
    seen: set[str] = set()
    for engine in _candidates(looked):
        if engine.python == sys.executable:
            look = Look(prefix=sys.prefix, has_vllm=_is_installed_here())
        else:
            found = look_into(engine.python)
            if found is None:
                continue
            look = found
        if look.has_vllm and look.prefix not in seen:
            seen.add(look.prefix)
            yield engine


def _candidates(looked: list[str]) -> Iterator[Engine]:
    looked.append(f"this Python ({sys.executable})")
    yield local_engine(sys.executable, "this Python")
    looked.append("`vllm` on PATH")
    script = shutil.which("vllm")
    python = python_of_script(Path(script)) if script else None
    if python:
        yield local_engine(python, "`vllm` on PATH")
    looked.append("running vLLM servers")
    yield from _running()
    looked.append("the managed engine")
    from engine_probe.managed_engine import find  # noqa: PLC0415 -- it needs this module's neighbours

    managed = find()
    if managed is not None:
        yield managed


def _is_installed_here() -> bool:
    """Whether vLLM is installed in this Python, not merely a folder of that name in the working directory."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).parent.parent != Path.cwd()


def _running() -> Iterator[Engine]:
    """Pythons of vLLM servers that this user runs on this host, outside containers.

    Others' processes are left alone: to run what they run would be to run their code with our rights. What a probe has
    started is no server of the person's: its engine was chosen for one load, and may be gone with it.
    """
    import psutil  # noqa: PLC0415 -- 20 ms, and most calls find an engine before

    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if not _is_vllm(words) or process.uids().real != os.getuid() or not _shares_our_files(process.pid):
                continue
            if _is_of_a_probe(process):
                continue
        except (psutil.Error, OSError):
            continue
        python = _python_of_command(words)
        if python:
            yield local_engine(python, f"running server (pid {process.pid})")


def _is_of_a_probe(process: psutil.Process) -> bool:
    """Whether a keeper (engine_probe/child) has adopted it."""
    return any(word.endswith("/child.zip") for one in process.parents() for word in one.cmdline()[:2])


def _is_vllm(words: list[str]) -> bool:
    return any(Path(word).name == "vllm" or word.startswith("vllm.entrypoints") for word in words[:4])


def _shares_our_files(pid: int) -> bool:
    mounts = Path(f"/proc/{pid}/ns/mnt")
    return mounts.stat().st_ino == Path("/proc/self/ns/mnt").stat().st_ino


def _python_of_command(words: list[str]) -> str | None:
    """`/proc/PID/exe` would be the base interpreter; the command's own words name the venv's."""
    first = Path(words[0])
    if first.is_absolute() and "python" in first.name:
        return str(first)
    script = next((Path(word) for word in words[:2] if Path(word).name == "vllm" and Path(word).is_absolute()), None)
    return python_of_script(script) if script else None
