"""The root causes of the loads that failed in a log, found as the log is indexed, a bit at a time.

roots = Roots(log)
while not roots.advance():
    ...
line = roots.next_from(cursor + 1)
"""

from __future__ import annotations

import copy
import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.endings import ending_of
from engine_probe.logs.grouping import grouped
from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.joining import owner_of
from engine_probe.logs.lines import read_line
from engine_probe.logs.open_traceback import OpenTraceback
from engine_probe.logs.records import Reader
from engine_probe.redact import mask

if TYPE_CHECKING:
    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.records import Record

_LINES_AT_ONCE = 50


@dataclass(frozen=True)
class Cause:
    """Why one load failed: the exception at the root, else the message that is all there is."""

    line: int
    text: str
    """`ValueError: what was raised`, or the message; its first line, secrets masked."""
    model: str | None


class Roots:
    """Call `advance` again when there are more lines; causes may change with them."""

    def __init__(self, log: LogIndex, covers: Wrappers | None = None) -> None:
        self._log = log
        self._blocks = log.blocks
        self._covers = covers or read_wrappers()
        self.causes: list[Cause] = []
        """In the order of their lines."""
        self._start_over()

    def _start_over(self) -> None:
        self._generation = self._blocks.generation
        self._reader = Reader()
        self._records: list[Record] = []
        self._line = 0
        self._decided_at = -1
        self.causes = []

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Look for about `seconds`; True when all lines of now are looked at."""
        if self._generation != self._blocks.generation:
            self._start_over()
        until = time.monotonic() + seconds
        while self._line < self._whole_lines:
            for number in range(self._line, min(self._line + _LINES_AT_ONCE, self._whole_lines)):
                self._records += self._reader.feed(number, self._text(number))
                self._line = number + 1
            if time.monotonic() >= until:
                return False
        if self._decided_at != self._log.line_count:
            self._decide()
        return True

    @property
    def _whole_lines(self) -> int:
        """Only a block of one line may be replaced by a longer one."""
        count = len(self._blocks)
        if count and len(self._blocks.lines_of(count - 1)) == 1:
            return self._blocks.line_count - 1
        return self._blocks.line_count

    def _text(self, number: int) -> str:
        return self._log.bytes_of(number).decode("utf-8", "replace")

    def _decide(self) -> None:
        self._decided_at = self._log.line_count
        records = [*self._records, *self._rest()]
        self.causes = sorted(self._causes(records), key=lambda one: one.line)

    def _rest(self) -> list[Record]:
        """Records that may still go on, and a last line that may be unfinished."""
        wordings = self._reader._wordings
        reader = copy.deepcopy(self._reader, {id(wordings): wordings})
        more = [
            one for number in range(self._line, self._log.line_count) for one in reader.feed(number, self._text(number))
        ]
        return [*more, *reader.finish()]

    def _causes(self, records: list[Record]) -> list[Cause]:
        found = []
        for group in grouped(records):
            ending = ending_of(group.records, self._covers, is_server=group.is_server)
            if ending.outcome != "failed" or ending.record is None:
                continue
            text = ending.record.message if ending.root is None else ending.root.text
            line = ending.record.first_line if ending.root is None else self._line_of(ending.record, ending.root.at)
            found.append(Cause(line, mask(text.strip().split("\n", 1)[0]), group.model))
        return found

    def _line_of(self, record: Record, at: int) -> int:
        """The line of the log that is the line `at` of a record: lines of others may stand between."""
        first = read_line(self._text(record.first_line))
        lines = OpenTraceback(record.first_line, first, mark=0)
        for number in range(record.first_line + 1, record.last_line + 1):
            line = read_line(self._text(number))
            if owner_of(line) == owner_of(first) and lines.takes(line, has_returns=first.is_continued):
                lines.add(number, line)
        return lines.number_of(at)

    def next_from(self, line: int) -> int | None:
        """The first cause at `line` or behind it."""
        at = bisect_left([one.line for one in self.causes], line)
        return self.causes[at].line if at < len(self.causes) else None

    def last_before(self, line: int) -> int | None:
        at = bisect_left([one.line for one in self.causes], line)
        return self.causes[at - 1].line if at else None
