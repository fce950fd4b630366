"""What one line says of itself, by the package's own tables: exact, and slow (tens of µs a line)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import LEVELS, LineClass
from engine_probe.logs.layers import layer_of_record
from engine_probe.logs.lines import read_line
from engine_probe.logs.stages import may_be_silent, read_wordings

if TYPE_CHECKING:
    from engine_probe.logs.index_classes import Classify
    from engine_probe.logs.markers import Marker

_TRACEBACK = "Traceback (most recent call last):"
_SERVER_FORMATS = ("uvicorn", "uvicorn_access")


def default_classify() -> Classify:
    """The classifier of the package's own tables."""
    wordings = read_wordings()

    def classify(text: str, version: str | None) -> LineClass:
        line = read_line(text)
        marker = wordings.marker_of(line.message)
        process = line.process or (None if line.rank is None else f"rank={line.rank}")
        if process is None and line.format in _SERVER_FORMATS:  # from 0.31.0 on, only records name their process
            process = "APIServer"
        level = line.level if line.level in LEVELS else None
        if line.format is None and line.message.startswith(_TRACEBACK):  # printed when nothing caught the exception
            level = "ERROR"
        stage = None if marker is None else marker.enters
        is_bare = line.format is None and level is None and stage is None
        told = None if marker is None else marker.layer
        layer = layer_of_record(line, line.message, (), version, told, line.process)
        is_of_one = stage is not None and _is_of_one(marker, version)
        return LineClass(level, layer, process, line.pid, stage, is_bare, is_of_one)

    return classify


def _is_of_one(marker: Marker | None, version: str | None) -> bool:
    return marker is not None and version is not None and not may_be_silent(marker, version)
