"""Level, layer, process and stage of merged lines: three bytes a line, so that filters are as quick as in one log."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import MARKS, STAGE_NAMES
from engine_probe.logs.index_overlap import told_stages
from engine_probe.logs.index_scan import Columns, Processes

if TYPE_CHECKING:
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.merged_order import Order


class MergedColumns:
    """`fill` takes over what the logs know of the lines that came into order since."""

    def __init__(self, logs: list[LogIndex], order: Order) -> None:
        self._logs, self._order = logs, order
        self.processes = Processes()
        self._numbers = [bytearray() for _ in logs]
        self.clear()

    def clear(self) -> None:
        self._codes, self._owners, self._stages = bytearray(), bytearray(), bytearray()
        self._filled = [0] * len(self._logs)
        """How many lines of each log are filled in."""
        self._last = [-1] * len(self._logs)
        self._changes, self._changed_to = array("Q"), bytearray()
        self._stage = [0] * len(self._logs)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def columns(self) -> Columns:
        return Columns(self._codes, self._owners, self._stages)

    def stage_changes(self) -> list[tuple[int, str]]:
        """(line, stage) wherever one of the logs comes to another stage, in order."""
        return [(line, STAGE_NAMES[stage]) for line, stage in zip(self._changes, self._changed_to, strict=True)]

    def fill(self) -> None:
        self._renew_last()
        start, stop = len(self), len(self._order)
        if start == stop:
            return
        parts = [self._part(source) for source in range(len(self._logs))]
        self._codes += self._order.laid_out([part.codes for part in parts], start, stop)
        self._owners += self._order.laid_out([part.processes for part in parts], start, stop)
        self._stages += self._order.laid_out([part.stages for part in parts], start, stop)
        found = [change for source, part in enumerate(parts) for change in self._found(source, part)]
        for line, stage in sorted(found):
            self._changes.append(line)
            self._changed_to.append(stage)
        self._filled = list(self._order.taken)
        self._last = [self._order.last_of(source) for source in range(len(self._logs))]

    def _part(self, source: int) -> Columns:
        codes, owners, stages = self._logs[source].columns(self._filled[source], self._order.taken[source])
        return Columns(codes, owners.translate(self._table(source)), stages)

    def _table(self, source: int) -> bytes:
        """From the process numbers of one log to those of all."""
        known, numbers = self._logs[source].processes, self._numbers[source]
        numbers.extend(self.processes.number(one.name or None, one.pid) for one in known[len(numbers) :])
        return bytes(numbers).ljust(256, b"\0")

    def _found(self, source: int, columns: Columns) -> list[tuple[int, int]]:
        """(line, stage) of the changes among the lines of one log that come next."""
        found = []
        for at, stage in told_stages(columns):
            if stage != self._stage[source]:
                self._stage[source] = stage
                found.append((self._order.line_of(source, self._filled[source] + at), stage))
        return found

    def _renew_last(self) -> None:
        """The last line of a log may have been unfinished, and says more now."""
        for source, (line, filled) in enumerate(zip(self._last, self._filled, strict=True)):
            codes, owners, stages = self._logs[source].columns(filled - 1, filled) if filled else (b"", b"", b"")
            if not codes or (codes[0] == self._codes[line] and stages[0] == self._stages[line]):
                continue
            self._codes[line : line + 1] = codes
            self._owners[line : line + 1] = owners.translate(self._table(source))
            self._stages[line : line + 1] = stages
            if codes[0] & MARKS and stages[0] != self._stage[source]:
                self._stage[source] = stages[0]
                at = bisect_left(self._changes, line)
                self._changes.insert(at, line)
                self._changed_to.insert(at, stages[0])
