"""Where a log comes to another stage or to another model: kept as lines come, so that asking costs nothing."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import STAGE_NAMES
from engine_probe.logs.index_overlap import told_stages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.logs.index_scan import Columns

_CONFIG = STAGE_NAMES.index("config")
_MOST_CHANGES = 50_000
"""A log of more is none of vLLM's; what comes later is not listed."""
_STAGES_OF_A_LOAD = len(STAGE_NAMES)


class Stages:
    """Stretches of lines behind one that tells a stage, whichever process told it."""

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._stages = bytearray()

    def add(self, first_line: int, columns: Columns) -> None:
        """The columns of lines that come behind all others."""
        for at, stage in told_stages(columns):
            if stage != (self._stages[-1] if self._stages else 0) and len(self._firsts) < _MOST_CHANGES:
                self._firsts.append(first_line + at)
                self._stages.append(stage)

    def drop_from(self, line: int) -> None:
        while self._firsts and self._firsts[-1] >= line:
            self._firsts.pop()
            self._stages.pop()

    def changes(self) -> list[tuple[int, str]]:
        """(first line, stage), in order."""
        return [(first, STAGE_NAMES[stage]) for first, stage in zip(self._firsts, self._stages, strict=True)]

    def begin_of_config(self, line: int) -> int:
        """The first line of the load's `config` that `line` belongs to; `line` where there is none."""
        at = bisect_right(self._firsts, line) - 1
        for stretch in range(at, max(-1, at - _STAGES_OF_A_LOAD), -1):
            if self._stages[stretch] == _CONFIG:
                return self._firsts[stretch]
        return line


class Models:
    """Which model's lines follow, wherever a load tells another than the one before."""

    def __init__(self) -> None:
        self._told: list[tuple[int, str]] = []

    def add(self, first_line: int, models: Iterable[tuple[int, str]]) -> None:
        for line, name in models:
            if (not self._told or self._told[-1][1] != name) and len(self._told) < _MOST_CHANGES:
                self._told.append((first_line + line, name))

    def drop_from(self, line: int) -> None:
        while self._told and self._told[-1][0] >= line:
            self._told.pop()

    def stretches(self, stages: Stages) -> list[tuple[int, str]]:
        """(first line, model), in order; a load's first lines count to the model that it tells."""
        found: list[tuple[int, str]] = []
        for line, name in self._told:
            if found:
                found.append((max(stages.begin_of_config(line), found[-1][0] + 1), name))
            else:
                found.append((0, name))
        return found
