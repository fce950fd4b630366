"""Rows of a log that is looked at: the lines that are shown, and a row of its own for each break."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.follow import Break, Follower
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.index_selection import Selection
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.merged import MergedIndex


class Rows:
    """Converts between rows and lines both ways. `selection` None: all lines, also those that come later."""

    def __init__(self, index: LogIndex | MergedIndex, selection: Selection | None, followed: Follower) -> None:
        self._index, self.selection, self._followed = index, selection, followed

    @property
    def _breaks(self) -> Sequence[Break]:
        return self._followed.breaks

    @property
    def line_count(self) -> int:
        return self._index.line_count if self.selection is None else len(self.selection)

    def __len__(self) -> int:
        return self.line_count + len(self._breaks)

    def _break_rows(self) -> list[int]:
        return [self._lines_before(happened.line) + number for number, happened in enumerate(self._breaks)]

    def _lines_before(self, line: int) -> int:
        return min(line, self._index.line_count) if self.selection is None else self.selection.row_of(line)

    def read(self, start: int, stop: int) -> list[LogLine | Break]:
        """What stands in these rows."""
        start, stop = max(0, start), min(stop, len(self))
        if start >= stop:
            return []
        marks = dict(zip(self._break_rows(), self._breaks, strict=True))
        places = sorted(marks)
        first, behind = start - bisect_left(places, start), stop - bisect_left(places, stop)
        numbers = range(first, behind) if self.selection is None else self.selection.rows(first, behind)
        lines = iter(self._index.lines_at(numbers))
        return [marks[row] if row in marks else next(lines) for row in range(start, stop)]

    def row_of(self, line: int) -> int:
        """The row of a line, or where it would stand."""
        row = self._lines_before(line)
        return row + sum(1 for happened in self._breaks if happened.line <= line)

    def line_at(self, row: int) -> int:
        """The line in a row; of a break, the one behind it."""
        number = max(0, row - bisect_right(self._break_rows(), row))
        last = max(0, self._index.line_count - 1)
        if self.selection is None:
            return min(number, last)
        found = self.selection.rows(number, number + 1)
        return found[0] if found else last
