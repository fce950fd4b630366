"""Which line of which log stands where in a merged one: one byte a line, with counts, so that both ways are quick."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import compress, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STRIDE = 4096
MOST_SOURCES = 255


class Order:
    """Lines are only appended; those of one source stay in its own order."""

    def __init__(self, source_count: int) -> None:
        self.column = bytearray()
        """The number of its source for each line."""
        self.generation = 0
        """Changes when all lines are forgotten."""
        self._bytes = [bytes((source,)) for source in range(source_count)]
        self.clear()

    def clear(self) -> None:
        source_count = len(self._bytes)
        self.generation += 1
        self.column.clear()
        self.taken = [0] * source_count
        """How many lines of each source are in."""
        self._before = [array("Q", [0]) for _ in range(source_count)]
        self._last = [-1] * source_count

    def __len__(self) -> int:
        return len(self.column)

    def append(self, source: int, behind: int) -> None:
        """The lines of `source` up to `behind`, its own numbers, come next."""
        self.column += self._bytes[source] * (behind - self.taken[source])
        self.taken[source] = behind
        self._last[source] = len(self.column) - 1
        if len(self.column) >= len(self._before[0]) * _STRIDE:
            self._count_on()

    def _count_on(self) -> None:
        for source, before in enumerate(self._before):
            while len(before) * _STRIDE <= len(self.column):
                stop = len(before) * _STRIDE
                before.append(before[-1] + self.column.count(source, stop - _STRIDE, stop))

    def locate(self, line: int) -> tuple[int, int]:
        """Source, and the line's number in it."""
        source, stride = self.column[line], line // _STRIDE
        return source, self._before[source][stride] + self.column.count(source, stride * _STRIDE, line)

    def line_of(self, source: int, number: int) -> int:
        """Where a line of `source` stands; the end where it is not in yet."""
        if number >= self.taken[source]:
            return len(self.column)
        stride = bisect_right(self._before[source], number) - 1
        first = stride * _STRIDE
        mine = self.column[first : first + _STRIDE].translate(only(source))
        return next(islice(compress(range(first, first + _STRIDE), mine), number - self._before[source][stride], None))

    def last_of(self, source: int) -> int:
        """Where the last line of `source` stands; -1 where there is none."""
        return self._last[source]

    def laid_out(self, columns: Sequence[bytes | bytearray], start: int, stop: int) -> bytes:
        """One column of lines `start` to `stop`, from those of the sources, each from its first line there on."""
        parts = [iter(column) for column in columns]
        return bytes(map(next, map(parts.__getitem__, self.column[start:stop])))


def only(source: int) -> bytes:
    """For `translate`: 1 where a line is of `source`."""
    return bytes(number == source for number in range(256))
