"""What a person writes to name an engine (`--engine`, a variable, a settings or deployment file) → an `Engine`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.engine import (
    Engine,
    container_engine,
    image_engine,
    local_engine,
    pod_engine,
    ssh_engine,
)
from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.launch import EngineSpec

FORMS = "a Python, a venv folder, a `vllm` script, container:NAME, image:IMAGE, pod:NAME or ssh:HOST"
_REMOTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@\[\]-]*")
_SHELL_EXEC = re.compile(r"^'''exec'\s+(?P<command>.+)$", re.MULTILINE)


def named_engine(text: str, found_by: str) -> Engine:
    """The engine that `text` names; whether it has vLLM is not looked at. Raises InputError."""
    kind, colon, name = text.partition(":")
    makers: dict[str, Callable[[str, str], Engine]] = {
        "container": container_engine,
        "image": image_engine,
        "pod": pod_engine,
        "ssh": ssh_engine,
    }
    if colon and kind in makers:
        return makers[kind](_checked_name(name, text, found_by), found_by)
    return local_engine(_local_python(text, found_by), found_by)


def engine_of_spec(spec: EngineSpec, found_by: str) -> Engine:
    """The engine of a settings or deployment file's `engine:` mapping."""
    if spec.container is not None:
        return container_engine(_checked_name(spec.container, spec.container, found_by), found_by, spec.python)
    if spec.image is not None:
        return image_engine(_checked_name(spec.image, spec.image, found_by), found_by, spec.python, spec.run)
    if spec.pod is not None:
        return pod_engine(_checked_name(spec.pod, spec.pod, found_by), found_by, spec.python)
    if spec.ssh is not None:
        return ssh_engine(_checked_name(spec.ssh, spec.ssh, found_by), found_by, spec.python)
    return local_engine(_local_python(spec.python, found_by), found_by)


def python_of_script(script: Path) -> str | None:
    """The interpreter that a console script such as `vllm` runs with, or None when its first lines do not say.

    pip writes `#!/bin/sh` and `'''exec' PYTHON "$0" "$@"` where the path is too long for the kernel or has spaces.
    """
    try:
        with script.open("rb") as file:
            head = file.read(2048).decode("utf-8", errors="replace")
    except OSError:
        return None
    if not head.startswith("#!"):
        return None
    words = _words(head[2:].splitlines()[0]) if head[2:].strip() else []
    wrapped = _SHELL_EXEC.search(head)
    if wrapped and words and Path(words[0]).name in {"sh", "bash"}:
        words = _words(wrapped["command"])
    if words and Path(words[0]).name == "env":
        found = shutil.which(words[-1])
        words = [found] if found else []
    return words[0] if words and "python" in Path(words[0]).name else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark: no command line at all
        return []


def _local_python(text: str, found_by: str) -> str:
    path = Path(text).expanduser()
    if path.is_dir():
        return _python_of_folder(path, text, found_by)
    on_path = shutil.which(text) if os.sep not in text else None
    if on_path:
        path = Path(on_path)
    if not path.exists():
        raise InputError(f"{found_by}: there is no engine at {text!r}; allowed: {FORMS}")
    if path.name == "vllm" or path.name.startswith("vllm-"):
        python = python_of_script(path)
        if python is None:
            raise InputError(f"{found_by}: {text!r} does not say which Python runs it; name that Python instead")
        return python
    if not os.access(path, os.X_OK):
        raise InputError(f"{found_by}: {text!r} cannot be run (not executable); allowed: {FORMS}")
    # A venv's python is a link to the base interpreter: following it would leave the venv.
    return str(path.absolute())


def _python_of_folder(folder: Path, text: str, found_by: str) -> str:
    for name in ("bin/python", "bin/python3", ".venv/bin/python", "venv/bin/python"):
        if os.access(folder / name, os.X_OK):
            return str((folder / name).absolute())
    raise InputError(f"{found_by}: the folder {text!r} has no bin/python; allowed: {FORMS}")


def _checked_name(name: str, text: str, found_by: str) -> str:
    """A name that docker, kubectl or ssh cannot take for one of their options."""
    if not _REMOTE_NAME.fullmatch(name):
        raise InputError(f"{found_by}: {text!r} names no container, image, pod or host; allowed: {FORMS}")
    return name
