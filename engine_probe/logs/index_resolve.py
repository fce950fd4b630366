"""Fills in what lines take over from the lines before them; fed block by block, in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import CONTINUES, MARKS
from engine_probe.logs.index_overlap import UnderWay, stages_of_lines
from engine_probe.logs.index_processes import UNKNOWN_PROCESS
from engine_probe.logs.index_scan import Columns
from engine_probe.logs.index_selection import or_masks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.index_processes import Process

_RUN_OF_BARE = re.compile(rb"[\x40-\x7f]+")
_MARKED = b"\0" + bytes((MARKS,)) * 255


class Resolver:
    """`known`: what the numbers of processes mean; it may grow."""

    def __init__(self, known: Sequence[Process]) -> None:
        self._known = known
        self._under_way = UnderWay()
        self._code, self._process = 0, UNKNOWN_PROCESS

    def resolve(self, columns: Columns) -> Columns:
        """The same columns, with inherited values in place of nothing."""
        marks = columns.stages
        codes, processes = self._inherited(columns.codes, columns.processes)
        stages, self._under_way = stages_of_lines(self._under_way, marks, codes, processes, self._known)
        if marks.count(0) < len(marks):
            codes = or_masks(codes, marks.translate(_MARKED))
        return Columns(codes, processes, stages)

    def _inherited(
        self, codes: bytes | bytearray, processes: bytes | bytearray
    ) -> tuple[bytes | bytearray, bytes | bytearray]:
        new_codes, new_processes = bytearray(codes), bytearray(processes)
        for run in _RUN_OF_BARE.finditer(codes):
            start, end = run.span()
            code = new_codes[start - 1] if start else self._code
            owner = new_processes[start - 1] if start else self._process
            if not processes[start:end].strip(bytes((UNKNOWN_PROCESS, owner))):  # as most: all take over the same
                new_codes[start:end] = bytes((code | CONTINUES,)) * (end - start)
                new_processes[start:end] = bytes((owner,)) * (end - start)
                continue
            for at in range(start, end):
                code = new_codes[at - 1] if at else self._code
                owner = new_processes[at - 1] if at else self._process
                if processes[at] in (UNKNOWN_PROCESS, owner):
                    new_codes[at] = code | CONTINUES
                    new_processes[at] = owner
        if codes:
            self._code, self._process = new_codes[-1], new_processes[-1]
        return new_codes, new_processes
