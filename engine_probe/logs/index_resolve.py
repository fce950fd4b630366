"""Fills in what lines take over from the lines before them; fed block by block, in order."""

from __future__ import annotations

import re

from engine_probe.logs.index_classes import CONTINUES
from engine_probe.logs.index_processes import UNKNOWN_PROCESS
from engine_probe.logs.index_scan import Columns

_RUN_OF_STAGE = re.compile(rb"([^\0])(?:\0|\1)*", re.DOTALL)
_RUN_OF_BARE = re.compile(rb"[\x40-\x7f]+")


class Resolver:
    """`stage` is that of the last line."""

    def __init__(self) -> None:
        self.stage = 0
        self._code, self._process = 0, UNKNOWN_PROCESS

    def resolve(self, columns: Columns) -> Columns:
        """The same columns, with inherited values in place of nothing."""
        codes, processes = self._inherited(columns.codes, columns.processes)
        return Columns(codes, processes, self._stages(columns.stages))

    def _stages(self, marks: bytes | bytearray) -> bytes:
        runs = list(_RUN_OF_STAGE.finditer(marks))
        if not runs:
            return bytes((self.stage,)) * len(marks)
        parts = [bytes((self.stage,)) * runs[0].start()]
        parts += [bytes((marks[run.start()],)) * (run.end() - run.start()) for run in runs]
        self.stage = marks[runs[-1].start()]
        return b"".join(parts)

    def _inherited(
        self, codes: bytes | bytearray, processes: bytes | bytearray
    ) -> tuple[bytes | bytearray, bytes | bytearray]:
        new_codes, new_processes = bytearray(codes), bytearray(processes)
        for run in _RUN_OF_BARE.finditer(codes):
            for at in range(run.start(), run.end()):
                code = new_codes[at - 1] if at else self._code
                owner = new_processes[at - 1] if at else self._process
                if processes[at] in (UNKNOWN_PROCESS, owner):
                    new_codes[at] = code | CONTINUES
                    new_processes[at] = owner
        if codes:
            self._code, self._process = new_codes[-1], new_processes[-1]
        return new_codes, new_processes
