"""In which stage a load is when a record without a marker is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.layers import layer_of_process
from engine_probe.logs.versions import is_in

if TYPE_CHECKING:
    from engine_probe.logs.lines import Line
    from engine_probe.logs.markers import Marker

# From 0.11 on ranks 1..n pass most markers silently (vllm/logger.py, scope="local"): their own last marker is old.
_EVERY_RANK_SPEAKS = "0.0.0..0.10.99"


class Progress:
    """The stage of the load, and of each worker."""

    def __init__(self) -> None:
        self._stage: str | None = None
        self._of_worker: dict[tuple[str | None, int], str] = {}

    def take(self, line: Line, marker: Marker | None, version: str | None) -> str | None:
        """The stage under way with the record that `line` begins; `marker` is what its message tells, if anything."""
        worker = None
        if line.pid is not None and line.process is not None and layer_of_process(line.process) == "worker":
            worker = (line.source, line.pid)
        if marker is not None and marker.enters is not None:
            self._enter(marker.enters, worker)
        if self._stage is None and marker is not None and marker.role != "error":
            self._stage = marker.stage
        if self._stage is None and line.format in ("vllm", "vllm_0.7"):
            self._stage = "config"
        if worker is not None and version is not None and is_in(version, _EVERY_RANK_SPEAKS):
            return self._of_worker.get(worker, self._stage)
        return self._stage

    def _enter(self, stage: str, worker: tuple[str | None, int] | None) -> None:
        if stage == "config":  # a new start: nothing of the last one holds
            self._of_worker = {}
        self._stage = stage
        if worker is not None:
            self._of_worker[worker] = stage
