"""The root causes of the loads that failed in a log, found as the log is indexed, a bit at a time.

roots = Roots(log)
while not roots.advance():
    ...
line = roots.next_from(cursor + 1)
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.endings import ending_of
from engine_probe.logs.grouping import Grouping
from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.joining import owner_of
from engine_probe.logs.lines import read_line
from engine_probe.logs.open_traceback import OpenTraceback, in_one_line
from engine_probe.logs.records import Reader
from engine_probe.logs.roots_windows import Windows
from engine_probe.logs.tracebacks import raised_on
from engine_probe.redact import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.grouping import Group
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.records import Record
    from engine_probe.logs.tracebacks import Raised

_LINES_AT_ONCE = 50
_MOST_RECORDS = 4000
"""With more, the loads so far are decided when another begins, also those that still go on beside it."""


@dataclass(frozen=True)
class Cause:
    """Why one load failed: the exception at the root, else the message that is all there is."""

    line: int
    text: str
    """`ValueError: what was raised`, or the message; in one line, secrets masked."""
    model: str | None
    stage: str | None = None
    """That its exception's frames tell, else the one that its process was in."""


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
        self._windows = Windows(self._log)
        self._block = 0
        self._ranges: list[range] = []
        """To be read, the next one last."""
        self._reader = Reader()
        self._records: list[Record] = []
        """Of the loads that are not decided for good."""
        self._decided: list[Cause] = []
        self._read_lines = 0
        self._state: object = None
        """What was known when it was decided."""
        self._deciding: Iterator[None] | None = None
        self.causes = []

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Look for about `seconds`; True when all lines of now are looked at."""
        if self._generation != self._blocks.generation:
            self._start_over()
        until = time.monotonic() + seconds
        while self._works():
            if time.monotonic() >= until:
                return False
        return True

    def _works(self) -> bool:
        """Do the next bit; False when there is nothing to do."""
        if self._deciding is not None:
            if next(self._deciding, "done") == "done":
                self._deciding = None
        elif self._ranges:
            self._read_some()
        elif self._block < self._whole_blocks:
            self._ranges = self._windows.of_block(self._block)[::-1]
            self._block += 1
        else:
            return self._decides()
        return True

    @property
    def _whole_blocks(self) -> int:
        return len(self._blocks) - (self._log.whole_line_count < self._log.line_count)

    def _read_some(self) -> None:
        lines = self._ranges.pop()
        for at, number in enumerate(lines[:_LINES_AT_ONCE]):
            if number in self._windows.begins and len(self._records) >= _MOST_RECORDS:
                self._ranges.append(lines[at:])
                self._decide_for_good()
                return
            self._records += self._reader.feed(number, self._text(number))
            self._read_lines += 1
        if len(lines) > _LINES_AT_ONCE:
            self._ranges.append(lines[_LINES_AT_ONCE:])

    def _text(self, number: int) -> str:
        return self._log.bytes_of(number).decode("utf-8", "replace")

    def _decides(self) -> bool:
        """Begin to decide where what is known has changed."""
        rest = [self._text(number) for number in range(self._log.whole_line_count, self._log.line_count)]
        if self._state == (self._read_lines, rest):
            return False
        self._state = (self._read_lines, rest)
        self._deciding = self._decide([*self._records, *self._rest(rest)], is_for_good=False)
        return True

    def _decide_for_good(self) -> None:
        """A load begins: what is known of those before it is enough, so that memory stays small."""
        self._deciding = self._decide([*self._records, *self._reader.finish()], is_for_good=True)
        self._records = []

    def _decide(self, records: list[Record], is_for_good: bool) -> Iterator[None]:
        """Pauses now and then."""
        grouping = Grouping()
        for at, record in enumerate(sorted(records, key=lambda one: (one.first_line, one.last_line))):
            grouping.take(record)
            if at % _LINES_AT_ONCE == 0:
                yield
        found: list[Cause] = []
        for group in grouping.in_order():
            found += self._cause_of(group)
            yield
        self.causes = sorted([*self._decided, *found], key=lambda one: one.line)
        if is_for_good:
            self._decided = self.causes

    def _rest(self, texts: list[str]) -> list[Record]:
        """Records that may still go on, and a last line that may be unfinished."""
        reader = self._reader.copied()
        more = [one for at, text in enumerate(texts) for one in reader.feed(self._log.whole_line_count + at, text)]
        return [*more, *reader.finish()]

    def _cause_of(self, group: Group) -> list[Cause]:
        ending = ending_of(group.records, self._covers, is_server=group.is_server)
        if ending.outcome != "failed" or ending.record is None:
            return []
        text = ending.record.message if ending.root is None else ending.root.text
        line = ending.record.first_line if ending.root is None else self._line_of(ending.record, ending.root)
        return [Cause(line, in_one_line(mask(text)), group.model, ending.record.stage)]

    def _line_of(self, record: Record, root: Raised) -> int:
        """The line of the log where the root stands in its record: lines of others may stand between."""
        first = read_line(self._text(record.first_line))
        line = read_line(self._text(record.first_line + root.at))
        raised = raised_on(line.message)
        if owner_of(line) == owner_of(first) and raised is not None and root.text.startswith(raised.text):
            return record.first_line + root.at
        lines = OpenTraceback(record.first_line, first, mark=0)
        for number in range(record.first_line + 1, record.last_line + 1):
            line = read_line(self._text(number))
            if owner_of(line) == owner_of(first) and lines.takes(line, has_returns=first.is_continued):
                lines.add(number, line)
        return lines.number_of(root.at)

    def next_from(self, line: int) -> int | None:
        """The first cause at `line` or behind it."""
        at = bisect_left([one.line for one in self.causes], line)
        return self.causes[at].line if at < len(self.causes) else None

    def last_before(self, line: int) -> int | None:
        at = bisect_left([one.line for one in self.causes], line)
        return self.causes[at - 1].line if at else None
