"""Reads one text line of a vLLM log: ANSI codes off, process prefixes peeled, level, file and message.

Three shapes of the logger line exist (A to 0.7.3, B from 0.8.0, C from 0.31.0); whatever is none of them is a bare
line. Also names the layer of a logger or of a traceback; `unknown` where the module does not decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_RANK = re.compile(r"^\[rank\d+\]: ")
_PROCESS = re.compile(r"^\((?P<process>[A-Za-z_][\w .=-]*?) pid=(?P<pid>\d+)(?:, ip=[^)]+)?\)\s")
_LOGGER = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d "
    r"\[?(?P<file>[\w./-]+\.py):(?P<line>\d+)\] ?(?P<message>.*)$"
)
_UVICORN = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {1,5}(?P<message>.*)$")

# Longest prefix wins. "unknown": a shared module, where the printing process would decide.
_LAYER_OF_MODULE = {
    "vllm": "unknown",
    "vllm.beam_search": "frontend",
    "vllm.compilation": "model_runner",
    "vllm.config": "frontend",
    "vllm.core": "engine",
    "vllm.distributed": "worker",
    "vllm.engine": "engine",
    "vllm.engine.arg_utils": "frontend",
    "vllm.entrypoints": "frontend",
    "vllm.executor": "worker",
    "vllm.lora": "model_runner",
    "vllm.model_executor": "model_runner",
    "vllm.reasoning": "frontend",
    "vllm.renderers": "frontend",
    "vllm.tokenizers": "frontend",
    "vllm.transformers_utils": "frontend",
    "vllm.v1.attention": "model_runner",
    "vllm.v1.core": "engine",
    "vllm.v1.engine": "engine",
    "vllm.v1.executor": "worker",
    "vllm.v1.sample": "model_runner",
    "vllm.v1.spec_decode": "model_runner",
    "vllm.v1.worker": "worker",
    "vllm.v1.worker.cpu_model_runner": "model_runner",
    "vllm.v1.worker.gpu": "model_runner",
    "vllm.v1.worker.gpu_input_batch": "model_runner",
    "vllm.v1.worker.gpu_model_runner": "model_runner",
    "vllm.v1.worker.gpu_worker": "worker",
    "vllm.worker": "worker",
    "vllm.worker.model_runner": "model_runner",
    "vllm.worker.cpu_model_runner": "model_runner",
}


@dataclass(frozen=True)
class Line:
    """What one line says of itself; None where it does not. `message` is never None."""

    message: str
    level: str | None = None
    file: str | None = None
    line: int | None = None
    process: str | None = None
    pid: int | None = None


def read_line(text: str) -> Line:
    """Split `text` (one line, without its end) into its parts. A bare line is all message."""
    rest = _ANSI.sub("", text).rstrip("\r\n")
    rest = rest.rsplit("\r", 1)[-1]  # a progress bar that was drawn over
    process, pid = None, None
    while found := _PROCESS.match(rest) or _RANK.match(rest):
        groups = found.groupdict()
        process = groups.get("process") or process
        pid = int(groups["pid"]) if groups.get("pid") else pid
        rest = rest[found.end() :]
    if record := _LOGGER.match(rest):
        return Line(record["message"], record["level"], record["file"], int(record["line"]), process, pid)
    if record := _UVICORN.match(rest):
        return Line(record["message"], record["level"], None, None, process, pid)
    return Line(rest, process=process, pid=pid)


def layer_of_logger(name: str) -> str:
    """The layer of a logger's name such as `vllm.v1.engine.core`; `outside` for what is not vLLM's."""
    parts = name.split(".")
    if parts[0] != "vllm":
        return "outside"
    for length in range(len(parts), 0, -1):
        layer = _LAYER_OF_MODULE.get(".".join(parts[:length]))
        if layer is not None:
            return layer
    return "unknown"


def layer_of_process(process: str) -> str:
    """The layer of a process by the tag that it prints, such as `EngineCore_DP0`; `unknown` for any other."""
    tags = {"APIServer": "frontend", "EngineCore": "engine", "Worker": "worker", "VllmWorker": "worker"}
    return next((layer for tag, layer in tags.items() if process.startswith(tag)), "unknown")


def layer_of_frames(frames: Sequence[Mapping[str, Any]]) -> str:
    """The layer of a traceback (outermost frame first): that of its innermost vLLM frame that decides."""
    modules = [_module_of(str(frame.get("file", ""))) for frame in frames]
    ours = [module for module in modules if module is not None]
    if not ours:
        return "outside" if modules else "unknown"
    layers = (layer_of_logger(module) for module in reversed(ours))
    return next((layer for layer in layers if layer != "unknown"), "unknown")


def _module_of(file: str) -> str | None:
    parts = PurePath(file.replace("\\", "/")).parts
    for packages in ("site-packages", "dist-packages"):  # a venv may itself be called vllm
        if packages in parts:
            parts = parts[len(parts) - parts[::-1].index(packages) :]
    if "vllm" not in parts or not file.endswith(".py"):
        return None
    start = len(parts) - 1 - parts[::-1].index("vllm")
    return ".".join([*parts[start:-1], PurePath(parts[-1]).stem])
