"""Where the lines are: a list of blocks of whole lines, each a place in an open file. The bytes stay on disk.

Blocks are read with `pread`, never mapped: a file that is cut while mapped would end the process (SIGBUS).
"""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_right
from typing import NamedTuple

BLOCK_BYTES = 1 << 17
LONGEST_SHOWN_BYTES = 1 << 16
"""Of a longer line, only so much is read back."""
_STEP_BYTES = 1 << 20


class Cut(NamedTuple):
    """A piece of a file: whole lines, or one line that is longer than a block, or an unfinished last line.

    `content` begins with the line end before it and lacks its own; of an overlong line it holds only the start.
    """

    content: bytes
    end: int
    is_whole: bool


class Cutter:
    """Cuts one file into blocks, from `position` on; goes on where it stopped when the file has grown.

    `stop`, where given, is behind a line end: nothing from there on is read.
    """

    def __init__(self, file: int, position: int = 0, stop: int | None = None) -> None:
        self.file = file
        self.position = position
        self.stop = stop
        self.block_bytes = BLOCK_BYTES
        """May be set lower, where blocks take long to scan."""
        self._searched_to = 0

    def next(self) -> Cut | None:
        """The next block, None at the end of the file. An unfinished last line is not passed over."""
        size = self.block_bytes if self.stop is None else min(self.block_bytes, self.stop - self.position + 1)
        content = read_at(self.file, self.position - 1, size) if self.position else self._first(size)
        end = content.rfind(b"\n", 1)
        if end > 0:
            self.position += end
            return Cut(content[:end], self.position, is_whole=True)
        if len(content) <= 1:
            return None
        return (
            self._overlong(content[: LONGEST_SHOWN_BYTES + 1])
            if len(content) == self.block_bytes
            else self._rest(content)
        )

    def _first(self, size: int) -> bytes:
        return b"\n" + read_at(self.file, 0, size - 1)

    def _rest(self, content: bytes) -> Cut:
        return Cut(content, self.position + len(content) - 1, is_whole=False)

    def _overlong(self, head: bytes) -> Cut:
        """Look for the line's end a step at a time, so that an endless line blocks nobody."""
        place = _behind_hole(self.file, max(self._searched_to, self.position + self.block_bytes - 1))
        step = read_at(self.file, place, _STEP_BYTES)
        found = step.find(b"\n")
        if found < 0:
            self._searched_to = place + len(step)
            return Cut(head, self._searched_to, is_whole=False)
        self.position = place + found + 1
        return Cut(head, self.position, is_whole=True)

    @property
    def is_inside_a_line(self) -> bool:
        """The end of an overlong line is still being looked for, and more bytes are there."""
        return self._searched_to > self.position and bool(read_at(self.file, self._searched_to, 1))


def _behind_hole(file: int, place: int) -> int:
    """Where a sparse file holds bytes again. A hole has no line end, and may be terabytes: a log that was cut while its
    server went on writing at the old place begins with one."""
    try:
        return os.lseek(file, place, os.SEEK_DATA)
    except OSError as error:
        return os.fstat(file).st_size if error.errno == errno.ENXIO else place


class Blocks:
    """Line number → bytes."""

    def __init__(self) -> None:
        self.generation = 0
        """Changes when all lines are forgotten."""
        self.clear()

    def clear(self) -> None:
        self.generation += 1
        self._files: list[int] = []
        self._file_numbers = array("H")
        self._starts = array("Q")
        self._ends = array("Q")
        self._first_lines = array("Q", [0])  # one more than there are blocks: the last is the number of all lines
        self._cached: tuple[int, list[bytes]] = (-1, [])

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def line_count(self) -> int:
        return self._first_lines[-1]

    def add(self, file: int, start: int, end: int, lines: int) -> None:
        """A block of so many lines; `end` is behind its last line end."""
        if not self._files or self._files[-1] != file:
            self._files.append(file)
        self._file_numbers.append(len(self._files) - 1)
        self._starts.append(start)
        self._ends.append(end)
        self._first_lines.append(self.line_count + lines)

    def drop_last(self) -> None:
        for column in (self._file_numbers, self._starts, self._ends, self._first_lines):
            column.pop()
        self._cached = (-1, [])

    def number_of(self, line: int) -> int:
        """The block that holds `line`."""
        return bisect_right(self._first_lines, line) - 1

    def lines_of(self, number: int) -> range:
        return range(self._first_lines[number], self._first_lines[number + 1])

    def read(self, number: int) -> list[bytes]:
        """The lines of a block, without their ends; what cannot be read any more is missing at the end."""
        if self._cached[0] != number:
            self._cached = (number, self.content(number).split(b"\n"))
        return self._cached[1]

    def content(self, number: int) -> bytes:
        """The block's bytes without the last line end; of an overlong line only its start."""
        start, end = self._starts[number], self._ends[number]
        size = end - start if end - start <= BLOCK_BYTES else LONGEST_SHOWN_BYTES
        return read_at(self._files[self._file_numbers[number]], start, size).removesuffix(b"\n")


def read_at(file: int, offset: int, size: int) -> bytes:
    """Up to `size` bytes; nothing where the file has become unreadable, such as on a lost network share."""
    try:
        return os.pread(file, size, offset)
    except OSError:
        return b""
