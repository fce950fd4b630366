"""A launch is one model's vLLM arguments, environment and GPUs; a deployment is an ordered list of launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ArgValue = bool | int | float | str | tuple[str, ...]


@dataclass(frozen=True)
class EngineSpec:
    """How to reach the Python that has vLLM, as a deployment file says it (DESIGN: engines)."""

    python: str = "python3"
    container: str | None = None
    image: str | None = None
    ssh: str | None = None
    pod: str | None = None
    """A Kubernetes pod, `POD` or `NAMESPACE/POD`."""
    run: str = "docker"
    """With `image`: the tool that runs it, with options for its `run` if any."""


@dataclass(frozen=True)
class Launch:
    """One model as `vllm serve` would be called. `args` has canonical long names without dashes."""

    name: str
    model: str
    args: Mapping[str, ArgValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[int, ...] | None = None
    engine: EngineSpec | None = None
    lora: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """Launches that share a host, in start order. `path` is the file it came from, None if none did."""

    models: tuple[Launch, ...]
    engine: EngineSpec | None = None
    start: Literal["sequential", "parallel"] = "sequential"
    path: Path | None = None
