"""The stage of each line of a block: that of the process that printed it, where processes are in different stages.

Most lines tell no stage. They are in the one that their process told last, unless another process told of all since
then; lines of no known process are in the one that was told last by any.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.index_classes import LAYER_SHIFT, LAYERS, OF_ONE, STAGE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine_probe.logs.index_scan import Columns

    Who = tuple[str, "int | None"]
    """Tag and pid of a process."""

_RUN_OF_STAGE = re.compile(rb"([^\0])(?:\0|\1)*", re.DOTALL)
_MARKED = re.compile(rb"[\x80-\xff]")
# Ranks of one data-parallel group are an engine of their own: Worker_DP0_TP1, EngineCore_DP0.
_ENGINE_OF = re.compile(r"_DP(\d+)")
_FRONTEND, _ENGINE = LAYERS.index("frontend"), LAYERS.index("engine")
_MOST_PROCESSES = 255
_NOBODY: Mapping[Who, int] = {}


class UnderWay(NamedTuple):
    """What was told last: by any process, and by each worker since the front end told something.

    Engines and front ends wait for workers: they are where the last of all is that told something.
    """

    stage: int = 0
    of_process: Mapping[Who, int] = _NOBODY

    def told(self, who: Who, layer: int, mark: int) -> UnderWay:
        """`mark` is the stage that one line tells; with `OF_ONE` where every rank prints that line for itself."""
        stage = mark & STAGE_BITS
        if not who[0] or layer == _FRONTEND or len(self.of_process) >= _MOST_PROCESSES:
            return UnderWay(stage)
        if mark & OF_ONE:
            is_known = self.stage == stage == self.of_process.get(who)
            return self if is_known else UnderWay(stage, {**self.of_process, who: stage})
        engine = _engine_of(who)
        other = {one: own for one, own in self.of_process.items() if _are_of_two_engines(engine, _engine_of(one))}
        moved = {one: other.get(one, stage) for one in self.of_process}
        return UnderWay(stage, moved if layer == _ENGINE else {**moved, who: stage})

    def fill(self, processes: bytes | bytearray, known: Sequence[Who]) -> bytes:
        """The stages of lines that tell none; `known`: what the numbers of processes mean."""
        if all(own == self.stage for own in self.of_process.values()):
            return bytes((self.stage,)) * len(processes)
        table = bytes(self.of_process.get(who, self.stage) for who in known)
        return bytes(processes.translate(table.ljust(256, bytes((self.stage,)))))


def stages_of_lines(
    before: UnderWay,
    marks: bytes | bytearray,
    codes: bytes | bytearray,
    processes: bytes | bytearray,
    known: Sequence[Who],
) -> tuple[bytes, UnderWay]:
    """The stage of each line, and what is under way behind the last. `marks`: what lines tell, 0 where nothing."""
    parts: list[bytes] = []
    at, now = 0, before
    for start in _places(marks, processes):
        parts.append(now.fill(processes[at:start], known))
        now = now.told(known[processes[start]], codes[start] >> LAYER_SHIFT & 7, marks[start])
        at = start
    parts.append(now.fill(processes[at:], known))
    return b"".join(parts), now


def told_stages(columns: Columns) -> Iterator[tuple[int, int]]:
    """(line, stage) of each line that tells one itself."""
    return ((found.start(), columns.stages[found.start()]) for found in _MARKED.finditer(columns.codes))


def _places(marks: bytes | bytearray, processes: bytes | bytearray) -> Iterator[int]:
    """Lines that tell a stage; of many in a row that tell the same of the same process, the first."""
    for run in _RUN_OF_STAGE.finditer(marks):
        start, stop = run.span()
        told = marks[start:stop]
        if len(set(compress(processes[start:stop], told))) == 1:
            yield start
        else:
            yield from (start + at for at, mark in enumerate(told) if mark)


def _are_of_two_engines(one: str | None, two: str | None) -> bool:
    """Without a number, a process may be of any engine: with one engine alone, only the engine's own tag has it."""
    return one is not None and two is not None and one != two


def _engine_of(who: Who) -> str | None:
    found = _ENGINE_OF.search(who[0])
    return None if found is None else found[1]
