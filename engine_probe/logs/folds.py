"""Tracebacks of a log, each folded to the line of its cause; found as the log is indexed, a bit at a time.

folds = Folds(log)
while not folds.advance():
    ...
shown = Selection(folds.shown_mask(opened={fold.first_line}))
"""

from __future__ import annotations

import copy
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.index_selection import or_masks
from engine_probe.logs.index_text import readable
from engine_probe.logs.joining import is_alone, is_blank, owner_of
from engine_probe.logs.lines import read_line
from engine_probe.logs.open_traceback import OpenTraceback, QuickReader, begins_traceback, in_one_line
from engine_probe.logs.tracebacks import START, chains_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.joining import Owner

_BEGINS = b"Traceback (most recent call last)"
_MOST_LINES_OF_A_TEXT = 8
_STALE_AFTER_LINES = 500
"""As in records.py: a writer that was silent for so long has ended its record."""
_LINES_BETWEEN_LOOKS = 64
"""At the clock."""
_MOST_MARKS = 255
_IS_SHOWN = b"\1" + bytes(_MOST_MARKS)


@dataclass(frozen=True)
class Fold:
    """One traceback, with all that is chained to it. Where it is closed, `first_line` stands for all its lines."""

    first_line: int
    last_line: int
    """Lines of other processes may stand between; they are not hidden."""
    cause_line: int
    """Of the innermost exception that is no cover message; of the last exception where all are."""
    hidden: int
    """Lines that are not shown while it is closed: all but the first."""
    is_wrapper: bool
    """All its exceptions only say that something else went wrong."""
    text: str
    """`ValueError: what was raised`, secrets masked."""


class Folds(Sequence[Fold]):
    """The folds found so far, in the order of their first lines.

    In memory: one byte a line up to the last fold, and 18 bytes a fold. Texts are read when they are asked for.
    """

    def __init__(self, log: LogIndex, covers: Wrappers | None = None) -> None:
        self._log = log
        self._blocks = log.blocks
        self._covers = covers or read_wrappers()
        self.changes = 0
        """Grows whenever the folds are no longer the same."""
        self._start_over()

    def _start_over(self) -> None:
        self._generation = self._blocks.generation
        self._firsts, self._lasts, self._causes, self._hidden = (array("I") for _ in range(4))
        self._wrappers, self._marks_of = bytearray(), bytearray()
        self._marks = bytearray()
        """0 for a line that no fold hides, else the mark of the fold that does."""
        self._next_mark = 1
        self._open: dict[Owner, OpenTraceback] = {}
        self._has_returns = False
        self._read = QuickReader()
        self._block = self._offset = self._line = 0
        self._provisional: tuple[int, OpenTraceback] | None = None
        """A last line that may go on, and the traceback that it was counted to."""
        self.changes += 1

    # Reading

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Look for about `seconds`; True when all lines of now are looked at. Call it again when there are more."""
        if self._generation != self._blocks.generation:
            self._start_over()
        self._take_back_last_line()
        until = time.monotonic() + seconds
        while self._block < self._whole_blocks:
            if not self._read_block(until):
                return False
        self._look_at_last_line()
        for traceback in self._open.values():
            if traceback.is_changed:
                self._publish(traceback)
        return True

    @property
    def _whole_blocks(self) -> int:
        return len(self._blocks) - (self._log.whole_line_count < self._log.line_count)

    def _read_block(self, until: float) -> bool:
        """Read on in the block; False when time is over before its end."""
        content = self._blocks.content(self._block)
        lines = self._blocks.lines_of(self._block)
        if self._offset == 0:
            self._line = lines.start
        for _ in range(_LINES_BETWEEN_LOOKS):
            if not self._open:
                self._skip_to_next(content)
            if self._offset > len(content) or self._line >= lines.stop:
                self._block, self._offset = self._block + 1, 0
                break
            end = content.find(b"\n", self._offset)
            end = len(content) if end < 0 else end
            self._take(self._line, content[self._offset : end])
            self._offset, self._line = end + 1, self._line + 1
        self._close_stale()
        return time.monotonic() < until

    def _skip_to_next(self, content: bytes) -> None:
        found = content.find(_BEGINS, self._offset)
        if found < 0:
            self._offset = len(content) + 1
            return
        start = content.rfind(b"\n", self._offset, found) + 1 or self._offset
        self._line += content.count(b"\n", self._offset, start)
        self._offset = start

    def _take(self, number: int, raw: bytes) -> None:
        """As `Reader.feed`, for records that begin with a traceback only."""
        line = self._read.read(raw)
        self._has_returns |= line.is_continued and line.format is not None
        owner = owner_of(line)
        known = self._open.get(owner)
        if known is not None and known.takes(line, self._has_returns):
            self._mark(known.add(number, line), known.mark)
            return
        if not is_blank(line) and is_alone(line):
            return
        if known is not None:
            self._close(owner)
        if begins_traceback(line):
            self._open[owner] = OpenTraceback(number, line, self._next_mark)
            self._next_mark = self._next_mark % _MOST_MARKS + 1

    def _mark(self, numbers: list[int], mark: int) -> None:
        if numbers:
            self._marks += bytes(max(0, numbers[-1] + 1 - len(self._marks)))
            for number in numbers:
                self._marks[number] = mark

    def _close_stale(self) -> None:
        oldest = self._line - _STALE_AFTER_LINES
        for owner in [owner for owner, one in self._open.items() if one.last_line < oldest]:
            self._close(owner)

    def _close(self, owner: Owner) -> None:
        traceback = self._open.pop(owner)
        if traceback.is_changed:
            self._publish(traceback)

    # An unfinished last line

    def _look_at_last_line(self) -> None:
        if self._block >= len(self._blocks) or not self._open:
            return
        number = self._blocks.lines_of(self._block).start
        line = QuickReader().read(self._blocks.content(self._block))
        known = self._open.get(owner_of(line))
        if known is not None and known.takes(line, self._has_returns):
            longer = copy.deepcopy(known)
            self._mark(longer.add(number, line), known.mark)
            self._publish(longer)
            known.is_changed = False
            self._provisional = (number, known)

    def _take_back_last_line(self) -> None:
        if self._provisional is None:
            return
        number, traceback = self._provisional
        self._provisional = None
        del self._marks[number:]
        for blank in range(traceback.last_line + 1, len(self._marks)):
            if self._marks[blank] == traceback.mark:
                self._marks[blank] = 0
        self._publish(traceback)

    # What was found

    def _publish(self, traceback: OpenTraceback) -> None:
        traceback.is_changed = False
        self.changes += 1
        at = bisect_left(self._firsts, traceback.first_line)
        if at == len(self._firsts) or self._firsts[at] != traceback.first_line:
            for column in (self._firsts, self._lasts, self._causes, self._hidden):
                column.insert(at, traceback.first_line)
            self._wrappers.insert(at, 0)
            self._marks_of.insert(at, traceback.mark)
        cause, is_wrapper = traceback.cause(self._covers)
        self._lasts[at], self._causes[at], self._hidden[at] = traceback.last_line, cause, traceback.hidden_count
        self._wrappers[at] = is_wrapper
        if not traceback.hidden_count:
            for one in (self._firsts, self._lasts, self._causes, self._hidden, self._wrappers, self._marks_of):
                del one[at]

    def __len__(self) -> int:
        return len(self._firsts)

    @overload
    def __getitem__(self, at: int) -> Fold: ...

    @overload
    def __getitem__(self, at: slice) -> list[Fold]: ...

    def __getitem__(self, at: int | slice) -> Fold | list[Fold]:
        if isinstance(at, slice):
            return [self._fold(one) for one in range(*at.indices(len(self)))]
        return self._fold(range(len(self))[at])

    def _fold(self, at: int) -> Fold:
        return Fold(
            self._firsts[at],
            self._lasts[at],
            self._causes[at],
            self._hidden[at],
            bool(self._wrappers[at]),
            self._text_of(at),
        )

    def _text_of(self, at: int) -> str:
        """What the line of the cause raised, with the lines that its message goes on for."""
        cause, last = self._causes[at], self._lasts[at]
        marks = self._marks[cause : min(last, cause + _MOST_LINES_OF_A_TEXT) + 1]
        numbers = [cause + one for one, mark in enumerate(marks) if mark == self._marks_of[at]]
        messages = [read_line(readable(self._log.bytes_of(number))).message for number in numbers]
        raised = [one for chain in chains_in([START, *messages]) for one in chain if one.at == 1]
        return in_one_line(raised[0].text if raised else "".join(messages[:1]))

    @property
    def folds(self) -> Sequence[Fold]:
        return self

    def spans(self) -> list[tuple[int, int]]:
        """(first line, last line) of each fold."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def fold_at(self, line: int) -> Fold | None:
        """The fold that begins in `line` or hides it where it is closed."""
        at = bisect_right(self._firsts, line) - 1
        if at >= 0 and self._firsts[at] == line:
            return self._fold(at)
        mark = self._marks[line] if 0 <= line < len(self._marks) else 0
        while mark and at >= 0:
            if self._marks_of[at] == mark and self._lasts[at] >= line:
                return self._fold(at)
            at -= 1
        return None

    def shown_mask(self, opened: Collection[int] = ()) -> bytes:
        """1 for each line of the log that is shown, 0 for the folded ones; `opened`: first lines of open folds."""
        mask = self._marks.translate(_IS_SHOWN)
        for first in opened:
            at = bisect_left(self._firsts, first)
            if at < len(self._firsts) and self._firsts[at] == first:
                lines = slice(first, self._lasts[at] + 1)
                is_own = bytes(self._marks_of[at]) + b"\1" + bytes(_MOST_MARKS - self._marks_of[at])
                mask[lines] = or_masks(mask[lines], self._marks[lines].translate(is_own))
        return bytes(mask).ljust(self._log.line_count, b"\1")
