"""What a person wants to see of a log, as tables by which whole columns are filtered at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import LAYER_SHIFT, LAYERS, LEVEL_BITS, LEVELS, STAGE_NAMES
from engine_probe.logs.index_selection import and_masks
from engine_probe.logs.index_time import Span

if TYPE_CHECKING:
    from engine_probe.logs.index_processes import Process
    from engine_probe.logs.index_scan import Columns

    Tables = tuple[bytes | None, bytes | None, bytes | None]

_EVERYTHING = Span()
_RANKS = (
    re.compile(r"\brank=(\d+)"),  # VllmWorker rank=1, vLLM 0.6.6 to 0.9.2
    re.compile(r"_TP(\d+)"),  # Worker_PP0_TP1, vLLM 0.10.2 and newer
    re.compile(r"^VllmWorker-(\d+)"),  # Python's name of the process, before its groups exist
    re.compile(r"^Worker_.*?(\d+)$"),  # Worker_PP1: no tensor parallelism
)


@dataclass(frozen=True)
class Wanted:
    """What a filter lets through; None is everything. Names are those of `LEVELS`, `LAYERS`, `STAGE_NAMES`.

    `processes` are beginnings of tags (`Worker` is all workers); `rank` is the tensor-parallel one where there is one.
    """

    levels: frozenset[str] | None = None
    layers: frozenset[str] | None = None
    stages: frozenset[str] | None = None
    processes: frozenset[str] | None = None
    rank: int | None = None
    model: str | None = None
    span: Span = _EVERYTHING
    source: int | None = None
    """The number of one log of several that are merged; a log alone does not look at it."""

    def mask(self, columns: Columns, processes: list[Process]) -> bytes:
        """1 for each line that is wanted by its columns; model and span are not looked at."""
        return mask_by(self.tables(processes), columns)

    def tables(self, processes: list[Process]) -> Tables:
        """For each column, 1 where a value is wanted, by value; None where all are."""
        codes = owners = stages = None
        if self.levels is not None or self.layers is not None:
            codes = bytes(self._wants_code(code) for code in range(256))
        if self.processes is not None or self.rank is not None:
            owners = bytes(self._wants_process(process.name) for process in processes).ljust(256, b"\0")
        if self.stages is not None:
            stages = bytes(name in self.stages for name in STAGE_NAMES).ljust(256, b"\0")
        return codes, owners, stages

    def _wants_code(self, code: int) -> bool:
        level, layer = code & LEVEL_BITS, code >> LAYER_SHIFT & 7
        if level >= len(LEVELS) or layer >= len(LAYERS):
            return False
        return (self.levels is None or LEVELS[level] in self.levels) and (
            self.layers is None or LAYERS[layer] in self.layers
        )

    def _wants_process(self, name: str) -> bool:
        if self.processes is not None and not any(name.startswith(wanted) for wanted in self.processes):
            return False
        return self.rank is None or rank_of(name) == self.rank


def mask_by(tables: Tables, columns: Columns) -> bytes:
    """1 for each line that all tables want."""
    found: bytes | None = None
    for column, table in zip(columns, tables, strict=True):
        if table is None:
            continue
        if found is not None and 1 not in found:
            return found
        part = bytes(column.translate(table))
        found = part if found is None else and_masks(found, part)
    return b"\1" * len(columns.codes) if found is None else found


def rank_of(process: str) -> int | None:
    """The rank in a process's tag: the tensor-parallel one where there is one; None where the tag has none."""
    found = next((match for pattern in _RANKS if (match := pattern.search(process))), None)
    return int(found[1]) if found else None


def is_model(name: str, wanted: str) -> bool:
    """Whether a log's model is meant: by its whole name or path, or by the last part."""
    return wanted in (name, name.rstrip("/").rpartition("/")[2])
