"""Which vLLM a local engine has, read from the names of its packages' folders: nothing is started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine_probe.engine import Engine

_FOLDER = re.compile(r"vllm(?P<cpu>[_-]cpu)?-(?P<version>[^-]+)\.dist-info", re.IGNORECASE)


class EngineVersion(NamedTuple):
    """`is_cpu`: a build for CPUs, which plans host memory instead of GPUs."""

    version: str
    is_cpu: bool


def engine_version(engine: Engine) -> EngineVersion | None:
    """None where it cannot be told without starting something."""
    if not engine.is_local:
        return None
    prefix = Path(engine.python).parent.parent
    try:
        names = [path.name for path in prefix.glob("lib/python3*/site-packages/vllm*.dist-info")]
    except OSError:
        return None
    found = [match for name in names if (match := _FOLDER.fullmatch(name))]
    if not found:
        return None
    is_cpu = any(match["cpu"] or "+cpu" in match["version"] for match in found)
    return EngineVersion(found[0]["version"], is_cpu)
