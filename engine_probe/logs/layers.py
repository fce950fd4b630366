"""Names the layer of a module, of a file name in a log line, of a process and of a traceback. The tables are data.

`unknown` stands for a shared module or a name that nothing decides; `outside` for torch, NCCL,
transformers and the like.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from engine_probe.logs.shapes import layer_of_format
from engine_probe.logs.versions import READ, read_releases_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine_probe.logs.lines import Line
    from engine_probe.logs.tracebacks import Chain

LAYERS = ("frontend", "engine", "worker", "model_runner", "outside")
_OLD_SHAPE, _NEW_SHAPE = READ[:3], READ[3:]  # no brackets round the file to 0.7.3
_LONGEST_VARIED = 300
_DATA = Path(__file__).parent / "data"
_FRONTEND_LOGGERS = ("uvicorn", "fastapi", "gunicorn")
_TAGS = (
    ("APIServer", "frontend"),
    ("ApiServer", "frontend"),
    ("DPSupervisor", "frontend"),
    ("EngineCore", "engine"),
    ("DPCoordinator", "engine"),
    ("DP Coordinator", "engine"),
    ("Worker", "worker"),
    ("VllmWorker", "worker"),
    ("Ray", "worker"),
)


class _Tables:
    """The data files, each read when it is first asked."""

    @cached_property
    def modules(self) -> dict[str, str]:
        """Path below vllm/ (a folder ends in /) → layer."""
        return dict(_rows("modules.tsv", 2))

    @cached_property
    def base_names(self) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """Names of one layer, and names of several: name → release → what `_lines_by_layer` reads."""
        plain: dict[str, str] = {}
        several: dict[str, dict[str, str]] = {}
        for names, release, layers in _rows("base_names.tsv", 3):
            if release == "*":
                plain.update(dict.fromkeys(names.split(" "), layers))
                continue
            several.setdefault(names, {})[release] = layers
        return plain, several

    @cached_property
    def messages(self) -> dict[str, list[tuple[str, str]]]:
        """Name → (beginning, layer), the longest beginning first; `*text`: what is in front of it varies."""
        found: dict[str, list[tuple[str, str]]] = {}
        for name, layer, beginning in _rows("messages.tsv", 3):
            found.setdefault(name, []).append((beginning, layer))
        for beginnings in found.values():
            beginnings.sort(key=lambda one: (one[0].startswith("*"), -len(one[0])))
        return found


def _rows(name: str, columns: int) -> Iterator[list[str]]:
    for number, line in enumerate((_DATA / name).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        row = line.split("\t")
        if len(row) != columns:
            raise ValueError(f"{name}:{number}: {len(row)} columns, not {columns}")
        yield row


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    return _Tables()


@lru_cache(maxsize=4096)
def layer_of_path(path: str) -> str:
    """The layer of a module by its path below `vllm/`, such as `v1/engine/core.py`: the longest known path decides."""
    modules = _tables().modules
    if path in modules:
        return modules[path]
    parent = path
    while parent:
        parent = parent[: parent.rstrip("/").rfind("/") + 1]
        if parent in modules:
            return modules[parent]
    return "unknown"


def layer_of_logger(name: str) -> str:
    """The layer of a logger's name such as `vllm.v1.engine.core`; `outside` for what is not vLLM's."""
    package, _, module = name.partition(".")
    if package == "vllm":
        return layer_of_path(module.replace(".", "/") + ".py") if module else "unknown"
    return "frontend" if package in _FRONTEND_LOGGERS else "outside"


@lru_cache(maxsize=1024)
def layer_of_process(process: str) -> str:
    """The layer of a process by the tag that it prints, such as `EngineCore_DP0`; `unknown` for any other."""
    return next((layer for tag, layer in _TAGS if process.startswith(tag)), "unknown")


def layer_of_frames(frames: Sequence[Mapping[str, Any]]) -> str:
    """The layer of a traceback (outermost frame first): that of its innermost vLLM frame that decides."""
    paths = [path_below_vllm(str(frame.get("file", ""))) for frame in frames]
    ours = [path for path in paths if path is not None]
    if not ours:
        return "outside" if paths else "unknown"
    layers = (layer_of_path(path) for path in reversed(ours))
    return next((layer for layer in layers if layer != "unknown"), "unknown")


def layer_of_record(
    line: Line,
    message: str,
    chains: Sequence[Chain],
    version: str | None,
    marker_layer: str | None,
    process: str | None,
) -> str:
    """The layer of a record: of its exception, module, file, message, shape or process, in that order."""
    for raised in (one for chain in chains for one in chain):
        layer = layer_of_frames([{"file": frame.file} for frame in raised.frames])
        if layer != "unknown":
            return layer
    layer = layer_of_line(line, message, version)
    if layer == "unknown":
        layer = marker_layer or layer_of_format().get(line.format or "", "unknown")
    return layer if layer != "unknown" else layer_of_process(process or "")


def layer_of_line(line: Line, message: str, version: str | None) -> str:
    """The layer that the logger's name or the file of a line tells."""
    if line.logger is not None:
        return layer_of_logger(line.logger)
    if line.file is None or line.format in layer_of_format():
        return "unknown"
    if line.format == "python_warning":
        path = path_below_vllm(line.file)
        return "outside" if path is None else layer_of_path(path)
    releases = _OLD_SHAPE if line.format == "vllm_0.7" else _NEW_SHAPE if line.format == "vllm" else READ
    return layer_of_file(line.file, line.line, message, version, releases)


def layer_of_file(
    file: str, line: int | None, message: str, version: str | None, possible: Sequence[str] = READ
) -> str:
    """The layer of `[file:line]` as a log line prints it: by path, release and line, then by the message.

    `possible`: the read releases that may have printed it where `version` is None.
    """
    if "/" in file:
        return _layer_of_short_path(file)
    plain, several = _tables().base_names
    if file in plain:
        return plain[file]
    if file not in several:
        return "unknown"
    releases = read_releases_for(version) if version is not None else possible
    by_line = _layer_by_line(several[file], releases, line, is_exact=version in releases)
    return by_line or _layer_of_message(file, message) or "unknown"


def _layer_by_line(by_release: dict[str, str], releases: Sequence[str], line: int | None, is_exact: bool) -> str | None:
    """The only layer that logs under this name in `releases`; where there are several, that of the line, if exact."""
    layers = {layer for release in releases for layer in _lines_by_layer(by_release.get(release, ""))}
    if len(layers) == 1:
        return next(iter(layers))
    if not is_exact or len(releases) != 1 or line is None:
        return None
    lines_by_layer = _lines_by_layer(by_release.get(releases[0], ""))
    return next((layer for layer, lines in lines_by_layer.items() if line in lines), None)


@lru_cache(maxsize=1024)
def _lines_by_layer(text: str) -> dict[str, frozenset[int]]:
    """Of `engine:12,40 worker:7`; without lines it is the only layer."""
    parts = (part.partition(":") for part in text.split(" ") if part)
    return {layer: frozenset(map(int, lines.split(","))) if lines else frozenset() for layer, _, lines in parts}


def _layer_of_message(file: str, message: str) -> str | None:
    beginnings = _tables().messages.get(file, ())
    return next((layer for beginning, layer in beginnings if _begins(message, beginning)), None)


def _begins(message: str, beginning: str) -> bool:
    if beginning.startswith("*"):
        return beginning[1:] in message[:_LONGEST_VARIED]
    return message.lstrip().startswith(beginning)


def _layer_of_short_path(file: str) -> str:
    """`model_executor/.../quantization/fp8.py`, as vLLM shortens paths at level DEBUG from 0.10.2 on."""
    head, dots, _ = file.partition("/.../")
    return layer_of_path(f"{head}/") if dots else layer_of_path(file)


@lru_cache(maxsize=4096)
def path_below_vllm(file: str) -> str | None:
    """`v1/engine/core.py` for a file of vLLM, wherever it is installed; None for any other."""
    parts = PurePath(file.replace("\\", "/")).parts
    for packages in ("site-packages", "dist-packages"):  # a venv may itself be called vllm
        if packages in parts:
            parts = parts[len(parts) - parts[::-1].index(packages) :]
    if "vllm" not in parts or not file.endswith(".py"):
        return None
    return "/".join(parts[len(parts) - parts[::-1].index("vllm") :])
