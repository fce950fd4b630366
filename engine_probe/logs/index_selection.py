"""Which lines are shown: one byte a line, with counts, so that rows and lines convert quickly both ways."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, compress

_STRIDE = 4096


class Selection:
    """Lines that are selected; made of a mask that holds 1 for each of them and 0 for the others."""

    def __init__(self, mask: bytes | bytearray) -> None:
        self.mask = bytes(mask)
        counts = (count_of(self.mask[start : start + _STRIDE]) for start in range(0, len(mask), _STRIDE))
        self._before = array("Q", accumulate(counts, initial=0))

    def __len__(self) -> int:
        return self._before[-1]

    @property
    def line_count(self) -> int:
        """Lines that the selection was made over, selected or not."""
        return len(self.mask)

    def rows(self, start: int, stop: int) -> list[int]:
        """The line numbers in rows `start` to `stop` of what is shown."""
        start, stop = max(0, start), min(stop, len(self))
        if start >= stop:
            return []
        stride = bisect_right(self._before, start) - 1
        found: list[int] = []
        skip = start - self._before[stride]
        while len(found) < stop - start + skip:
            first = stride * _STRIDE
            found += compress(range(first, first + _STRIDE), self.mask[first : first + _STRIDE])
            stride += 1
        return found[skip : skip + stop - start]

    def row_of(self, line: int) -> int:
        """How many selected lines stand before `line`: its own row when it is selected."""
        line = max(0, min(line, len(self.mask)))
        stride = line // _STRIDE
        return self._before[stride] + self.mask.count(1, stride * _STRIDE, line)

    def next_from(self, line: int) -> int | None:
        """The first selected line at `line` or behind it."""
        found = self.mask.find(1, max(0, line))
        return None if found < 0 else found

    def last_before(self, line: int) -> int | None:
        """The last selected line before `line`."""
        found = self.mask.rfind(1, 0, max(0, line))
        return None if found < 0 else found

    def __and__(self, other: Selection) -> Selection:
        """What both select; lines that one of them does not know yet are not selected."""
        both = bytearray(max(len(self.mask), len(other.mask)))
        for number in range(min(len(self._before), len(other._before)) - 1):
            if self._before[number] < self._before[number + 1] and other._before[number] < other._before[number + 1]:
                part = slice(number * _STRIDE, (number + 1) * _STRIDE)
                mask = and_masks(self.mask[part], other.mask[part])
                both[part.start : part.start + len(mask)] = mask
        return Selection(both)


def count_of(mask: bytes | bytearray) -> int:
    """How many lines a mask selects; as quick for many as for few."""
    return int.from_bytes(mask, "little").bit_count()


def and_masks(one: bytes | bytearray, two: bytes | bytearray) -> bytes:
    """The masks combined, as long as the longer one. Big numbers do it a machine word at a time."""
    size = max(len(one), len(two))
    return (int.from_bytes(one, "little") & int.from_bytes(two, "little")).to_bytes(size, "little")


def or_masks(one: bytes | bytearray, two: bytes | bytearray) -> bytes:
    """What either mask holds, as long as the longer one."""
    size = max(len(one), len(two))
    return (int.from_bytes(one, "little") | int.from_bytes(two, "little")).to_bytes(size, "little")
