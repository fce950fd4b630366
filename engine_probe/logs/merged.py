"""Several logs as one, in the order of their times; to use like `LogIndex`. A line's number is its merged place.

While logs are read for the first time only what is certain is merged: up to the earliest time that one of them has
reached. What comes later is appended as it comes, a late line too, so a number never changes. Lines at one time keep
the order of the logs. A log that tells no time stands behind all that was there when it was first read.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.folds import Folds
from engine_probe.logs.index_classes import LEVEL_BITS, LEVELS
from engine_probe.logs.index_scan import Columns
from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.index_selection import Selection, and_masks
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.merged_columns import MergedColumns
from engine_probe.logs.merged_folds import MergedFolds
from engine_probe.logs.merged_order import MOST_SOURCES, only
from engine_probe.logs.merged_reading import Reading
from engine_probe.logs.merged_roots import MergedRoots
from engine_probe.logs.merged_search import MergedSearch
from engine_probe.logs.merged_times import stamp_in
from engine_probe.logs.roots import Roots

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

    from engine_probe.logs.follow import Break
    from engine_probe.logs.index_scan import Process
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.merged_reading import NamedLog

_READING = 0.7
"""Of a step's time; the rest is for what was read."""
_ERRORS = frozenset({"ERROR", "CRITICAL"})


class MergedIndex:
    """Its own `Follower` too: `poll` looks at all logs. `close` closes them. Raises InputError for too many."""

    def __init__(self, logs: Sequence[NamedLog], *, whole_lines: bool = False) -> None:
        """`whole_lines`: an unfinished last line is waited for."""
        if len(logs) > MOST_SOURCES:
            raise InputError(f"{len(logs)} logs are named; at most {MOST_SOURCES} can be merged")
        self.logs = tuple(logs)
        self._reading = Reading(self.logs, whole_lines=whole_lines)
        self._order = self._reading.order
        self._columns = MergedColumns([one.log for one in self.logs], self._order)
        self.breaks: list[Break] = []
        self._unplaced: list[tuple[int, Break]] = []
        """Breaks with the number of their log, whose lines before are not merged yet."""
        self.is_complete = False

    # Reading

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Read and merge for about `seconds`; True when all that is there by now is merged. Call again later."""
        self.is_complete = self._reading.advance(time.monotonic() + seconds * _READING)
        self._columns.fill()
        self._place_breaks()
        return self.is_complete

    @property
    def line_count(self) -> int:
        """Lines merged so far."""
        return len(self._columns)

    @property
    def indexed_bytes(self) -> int:
        return sum(one.log.indexed_bytes for one in self.logs)

    @property
    def size_bytes(self) -> int:
        return sum(one.log.size_bytes for one in self.logs)

    @property
    def processes(self) -> list[Process]:
        """All processes seen so far; the first stands for lines whose process is not known."""
        return self._columns.processes.known

    # Following

    @property
    def has_begun(self) -> bool:
        return all(one.followed.has_begun for one in self.logs)

    def poll(self) -> list[Break]:
        """Look at all logs. Where one was cut, the merge starts over; the break says which."""
        new = [(source, happened) for source, one in enumerate(self.logs) for happened in one.followed.poll()]
        cut = [self._named(source, happened, 0) for source, happened in new if happened.kind == "cut"]
        if cut:
            self._start_over()
        else:
            self._unplaced += new
        return cut + self._place_breaks()

    def _start_over(self) -> None:
        self._reading.start_over()
        self._columns.clear()
        self.is_complete = False
        self.breaks.clear()
        self._unplaced = [(at, happened) for at, one in enumerate(self.logs) for happened in one.followed.breaks]

    def _place_breaks(self) -> list[Break]:
        """A break stands before the line that follows it in its log, or at the end where there is none yet."""
        taken, is_live = self._order.taken, self._reading.is_live
        ready = [one for one in self._unplaced if one[1].line < taken[one[0]] + is_live]
        placed = [self._named(at, happened, self._order.line_of(at, happened.line)) for at, happened in ready]
        if placed:
            self._unplaced = [one for one in self._unplaced if one not in ready]
            self.breaks.extend(placed)
            self.breaks.sort(key=lambda happened: happened.line)
        return placed

    def _named(self, source: int, happened: Break, line: int) -> Break:
        return replace(happened, line=line, source=self.logs[source].name)

    def close(self) -> None:
        for one in self.logs:
            one.followed.close()

    # Lines

    def place_of(self, line: int) -> tuple[int, int]:
        """The number of the log, and the line's number in it."""
        return self._order.locate(line)

    def line_of(self, source: int, number: int) -> int:
        """Where a line of one log stands; the end where it is not in yet."""
        return self._order.line_of(source, number)

    @property
    def taken(self) -> list[int]:
        """How many lines of each log are merged."""
        return list(self._order.taken)

    def lines(self, start: int, stop: int) -> list[LogLine]:
        return self.lines_at(range(max(0, start), min(stop, self.line_count)))

    def lines_at(self, numbers: Iterable[int]) -> list[LogLine]:
        """The lines of these numbers; empty text where a file no longer holds one."""
        wanted = list(numbers)
        found = self.own_lines_at(wanted)
        return [line._replace(number=number) for number, line in zip(wanted, found, strict=True)]

    def own_lines_at(self, numbers: Iterable[int]) -> list[LogLine]:
        """The same with the numbers that they have in their own logs."""
        return [
            self.logs[source].log.lines_at((number,))[0]._replace(source=source)
            for source, number in map(self._order.locate, numbers)
        ]

    def bytes_of(self, number: int) -> bytes:
        """The line as it is on disk, without its end; of an overlong one only the start."""
        source, own_number = self._order.locate(number)
        return self.logs[source].log.bytes_of(own_number)

    def tail(self, count: int) -> list[tuple[int, str]]:
        """(number of its log, text) of the last lines by time, before they are indexed: for a first look."""
        tails = [self._stamped_tail(source, count) for source in range(len(self.logs))]
        return [(source, text) for _, source, text in heapq.merge(*tails, key=lambda one: one[:2])][-count:]

    def _stamped_tail(self, source: int, count: int) -> Iterator[tuple[str, int, str]]:
        latest = ""
        for text in self.logs[source].log.tail(count):
            latest = max(latest, stamp_in(text))
            yield latest, source, text

    # Choosing

    def filter(self, wanted: Wanted) -> Selection:
        """The lines that are wanted, among those merged so far."""
        found = wanted.mask(self._columns.columns, self.processes)
        if wanted.source is not None:
            found = and_masks(found, self._order.column.translate(only(wanted.source)))
        rest = replace(wanted, levels=None, layers=None, stages=None, processes=None, rank=None, source=None)
        if rest != Wanted():  # the logs themselves know
            masks = [one.log.filter(rest).mask for one in self.logs]
            found = and_masks(found, self._order.laid_out(masks, 0, self.line_count))
        return Selection(found)

    def search(self, pattern: re.Pattern[bytes]) -> MergedSearch:
        """A search that goes on with each `advance`, also in lines that come later."""
        return MergedSearch(self._order, [one.log.search(pattern) for one in self.logs])

    def folds(self) -> MergedFolds:
        return MergedFolds(self._order, [Folds(one.log) for one in self.logs])

    def roots(self) -> MergedRoots:
        return MergedRoots(self._order, [Roots(one.log) for one in self.logs])

    def next_error(self, line: int, among: Selection | None = None) -> int | None:
        """The first line behind `line` that begins an error record; of those in `among` where it is given."""
        errors = self._errors(among)
        found = errors.next_from(line + 1)
        while found is not None and self._goes_on(found):
            found = errors.next_from(found + 1)
        return found

    def has_error(self, source: int, start: int, stop: int) -> bool:
        """Whether a line of one log, among those from `start` to `stop`, is an error's."""
        part = Columns(*(column[start:stop] for column in self._columns.columns))
        errors = Wanted(levels=_ERRORS).mask(part, self.processes)
        return 1 in and_masks(errors, self._order.column[start:stop].translate(only(source)))

    def last_error(self, line: int, among: Selection | None = None) -> int | None:
        """The last line before `line` that begins an error record; of those in `among` where it is given."""
        errors = self._errors(among)
        found = errors.last_before(line)
        while found is not None and self._goes_on(found):
            found = errors.last_before(found)
        return found

    def _errors(self, among: Selection | None) -> Selection:
        errors = self.filter(Wanted(levels=_ERRORS))
        return errors if among is None else errors & among

    def _goes_on(self, line: int) -> bool:
        """Whether `line` is a later line of the error above it in its log."""
        source, number = self._order.locate(line)
        if number == 0:
            return False
        log = self.logs[source].log
        code = log.columns(number - 1, number).codes[0]
        return LEVELS[code & LEVEL_BITS] in _ERRORS and log.repeats(number)

    def stage_changes(self) -> list[tuple[int, str]]:
        """(line, stage) wherever one of the logs comes to another stage, in order."""
        return self._columns.stage_changes()

    def models(self) -> list[tuple[int, str]]:
        """(first line, model) of each stretch of one model's lines in its log, in order."""
        taken = self._order.taken
        return sorted(
            (self._order.line_of(source, line), name)
            for source, one in enumerate(self.logs)
            for line, name in one.log.models()
            if line < taken[source]
        )
