"""Who printed a record: process, pid and rank, also where the line itself does not say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.layers import layer_of_process, path_below_vllm
from engine_probe.logs.versions import is_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.logs.joining import Open
    from engine_probe.logs.lines import Line
    from engine_probe.logs.tracebacks import Chain

# From 0.31.0 the process stands in vLLM's log format only; tracebacks, bars and prints name nobody (vllm/logger.py).
_BARE_LINES_NAME_NOBODY = "0.31.0..999.0"
_RANK_LINE = re.compile(r"^(?:world_size=\d+ rank=(?P<a>\d{1,6}) local_rank=|rank (?P<b>\d{1,6}) in world size )")
_PARALLEL = re.compile(r"_(DP|PP|PCP|TP)(\d{1,6})")
_NUMBERED = re.compile(r"^VllmWorker-(\d{1,6})$")
_FUNCTIONS = {"run_engine_core": "engine", "worker_main": "worker", "run_api_server_worker_proc": "frontend"}


class Who(NamedTuple):
    process: str | None
    pid: int | None
    rank: int | None
    is_inferred: bool = False


class Owners:
    """Remembers the processes seen and the rank that each told."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str | None, int | None], int] = {}
        self._last: dict[str | None, Line] = {}
        """Of each container: the last line that named its process."""
        self._last_of_layer: dict[tuple[str | None, str], Line] = {}

    def begun(self, line: Line) -> Line | None:
        """Take in the first line of a record; the line of the same container before it that named its process."""
        before = self._last.get(line.source)
        if line.process is not None:
            self._last[line.source] = line
            self._last_of_layer[line.source, layer_of_process(line.process)] = line
        return before

    def of(self, one: Open, message: str, chains: Iterable[Chain]) -> Who:
        """Who printed a record that is complete."""
        line, told = one.line, one.line
        is_told = line.process is not None or one.version is None or not is_in(one.version, _BARE_LINES_NAME_NOBODY)
        if not is_told:
            told = self._inferred(one, list(chains)) or line
        return Who(told.process, told.pid, self._rank(told, line, message), is_inferred=told is not line)

    def _inferred(self, one: Open, chains: list[Chain]) -> Line | None:
        line = one.line
        if line.format in ("nccl", "shell"):  # written past Python: any process
            return None
        layer = "frontend" if line.format in ("uvicorn", "uvicorn_access") else _layer_that_ran(chains)
        return one.neighbour if layer is None else self._last_of_layer.get((line.source, layer))

    def _rank(self, told: Line, line: Line, message: str) -> int | None:
        key = (line.source, told.pid)
        if found := _RANK_LINE.match(message):
            self._ranks[key] = int(found["a"] or found["b"])
        if line.rank is not None:
            return line.rank
        if told.pid is not None and key in self._ranks:
            return self._ranks[key] if told.process is not None and layer_of_process(told.process) == "worker" else None
        return told.rank if told.rank is not None else rank_of_process(told.process or "")


def rank_of_process(process: str) -> int | None:
    """The rank that a worker's tag tells, such as `Worker_TP1`: only where one kind of parallelism numbers it."""
    if not process.startswith(("Worker", "VllmWorker")):
        return None
    if found := _NUMBERED.match(process):
        return int(found[1])
    parts = _PARALLEL.findall(process)
    return int(parts[0][1]) if len(parts) == 1 else None


def _layer_that_ran(chains: list[Chain]) -> str | None:
    """The kind of process whose main function a traceback begins in; None where no frame tells."""
    frames = [frame for chain in chains for raised in chain for frame in raised.frames]
    for frame in frames:
        if frame.function in _FUNCTIONS:
            return _FUNCTIONS[frame.function]
    is_command = any((path_below_vllm(frame.file) or "").startswith("entrypoints/") for frame in frames)
    return "frontend" if is_command else None
