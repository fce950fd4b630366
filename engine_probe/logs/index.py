"""A log of any size, opened at once: bytes stay on disk, three bytes a line say level, layer, process and stage.

log = open_log(path)
while not log.advance():           # about 20 ms each, so that a key is never kept waiting
    ...
shown = log.filter(Wanted(levels=frozenset({"ERROR"})))
log.lines_at(shown.rows(0, 50))
"""

from __future__ import annotations

import copy
import os
import time
from typing import TYPE_CHECKING

from engine_probe.logs.index_blocks import BLOCK_BYTES, Blocks, read_at
from engine_probe.logs.index_errors import Errors
from engine_probe.logs.index_filter import Filtering
from engine_probe.logs.index_parts import Parts
from engine_probe.logs.index_resolve import Resolver
from engine_probe.logs.index_scan import Columns, Scanner
from engine_probe.logs.index_search import BATCH_SECONDS, Search
from engine_probe.logs.index_stream import LogLine, line_of
from engine_probe.logs.index_stretches import Models, Stages
from engine_probe.logs.index_text import readable
from engine_probe.logs.index_time import BlockTimes
from engine_probe.logs.opening import open_file

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from pathlib import Path

    from engine_probe.logs.index_classes import Classify
    from engine_probe.logs.index_parts import ScannedBlock
    from engine_probe.logs.index_processes import Process
    from engine_probe.logs.index_selection import Selection
    from engine_probe.logs.index_time import TimeFilter
    from engine_probe.logs.index_wanted import Wanted


def open_log(path: Path, classify: Classify | None = None) -> LogIndex:
    """Open `path` without reading it. Raises InputError when it is no file that can be read."""
    return LogIndex(open_file(path), classify)


class LogIndex:
    """The lines of one log, in the order in which they were written; several files after rotation."""

    def __init__(self, file: int, classify: Classify | None = None) -> None:
        self._files = [file]
        self._scanner = Scanner(classify)
        self._columns = (bytearray(), bytearray(), bytearray())
        self._blocks = Blocks()
        self._times = BlockTimes()
        self._stages, self._models = Stages(), Models()
        self._start_over(may_be_helped=classify is None)

    def _start_over(self, *, may_be_helped: bool = False) -> None:
        self.is_complete = False
        """Whether the last `advance` came to the end of the file."""
        self._parts = Parts(self._files[-1], self._scanner, may_be_helped=may_be_helped)
        self._resolver = Resolver(self.processes)
        self._before_last: Resolver | None = None
        """What the unfinished last line was resolved from; None when the last line is finished."""

    # Reading

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Index for about `seconds`; True when all that the file holds by now is indexed. Call again when it grew."""
        self.is_complete = self._advance(time.monotonic() + seconds)
        return self.is_complete

    def _advance(self, until: float) -> bool:
        while True:
            self._drop_unfinished()
            block = self._parts.next()
            if block is not None:
                if not block.is_whole:
                    self._before_last = copy.copy(self._resolver)
                self._add(block)
            is_done = (block is None or not block.is_whole) and not self._parts.goes_on
            if is_done or time.monotonic() >= until:
                return is_done

    def _add(self, block: ScannedBlock) -> None:
        found, models = block.scanned
        columns = self._resolver.resolve(found)
        self._models.add(self.line_count, models)
        self._stages.add(self.line_count, columns)
        for column, part in zip(self._columns, columns, strict=True):
            column.extend(part)
        self._blocks.add(self.file, block.start, block.end, len(found.codes))
        self._times.add(block.times)

    def _drop_unfinished(self) -> None:
        if self._before_last is not None:
            self._resolver, self._before_last = self._before_last, None
            self._blocks.drop_last()
            self._times.drop_last()
            for column in self._columns:
                del column[-1:]
            self._models.drop_from(self.line_count)
            self._stages.drop_from(self.line_count)

    @property
    def line_count(self) -> int:
        """Lines indexed so far, an unfinished last one included."""
        return len(self._columns[0])

    @property
    def whole_line_count(self) -> int:
        """Without an unfinished last line."""
        return self.line_count - (self._before_last is not None)

    def columns(self, start: int, stop: int) -> Columns:
        """Of the lines `start` to `stop`."""
        return Columns(*(column[start:stop] for column in self._columns))

    @property
    def file(self) -> int:
        """The descriptor of the newest file."""
        return self._files[-1]

    def copied_files(self) -> list[int]:
        """Descriptors, the caller's own, of the files that hold the lines, oldest first."""
        return [os.dup(file) for file in self._files]

    @property
    def blocks(self) -> Blocks:
        """Where the indexed lines are, for what reads on as the log grows: `Search`, `Folds`."""
        return self._blocks

    @property
    def indexed_bytes(self) -> int:
        """Of the newest file."""
        return self._parts.position

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._files[-1]).st_size

    @property
    def processes(self) -> list[Process]:
        """All processes seen so far; the first stands for lines whose process is not known."""
        return self._scanner.processes.known

    def continue_with(self, file: int) -> None:
        """The log goes on in another file: it was rotated."""
        while not self.advance(1.0):
            pass
        self._files.append(file)
        resolver = self._resolver
        self._start_over()
        self._resolver = resolver

    def forget(self) -> None:
        """The file was cut: what was indexed of it can no longer be read. All lines go, older files' too."""
        self._parts.end()
        for file in self._files[:-1]:
            os.close(file)
        del self._files[:-1]
        for column in self._columns:
            column.clear()
        self._blocks.clear()
        self._times = BlockTimes()
        self._stages, self._models = Stages(), Models()
        self._start_over()

    def close(self) -> None:
        self._parts.end()
        for file in self._files:
            os.close(file)
        self._files.clear()

    def tail(self, count: int) -> list[str]:
        """The last lines of the file, before they are indexed: for a first look at a log of any size."""
        size = self.size_bytes
        start = max(0, size - BLOCK_BYTES)
        content = read_at(self._files[-1], start, BLOCK_BYTES)
        lines = content.removesuffix(b"\n").split(b"\n") if content else []
        if start > 0 and len(lines) > 1:
            del lines[0]  # it began earlier
        return [readable(line) for line in lines[-count:]] if count > 0 else []

    def lines(self, start: int, stop: int) -> list[LogLine]:
        return self.lines_at(range(max(0, start), min(stop, self.line_count)))

    def lines_at(self, numbers: Iterable[int]) -> list[LogLine]:
        """The lines of these numbers; empty text where the file no longer holds one."""
        return [self._line(number) for number in numbers]

    def _line(self, number: int) -> LogLine:
        code, owner, stage = (column[number] for column in self._columns)
        return line_of(number, self.bytes_of(number), code, self.processes[owner].name, stage)

    def bytes_of(self, number: int) -> bytes:
        """The line as it is on disk, without its end; of an overlong one only the start."""
        block = self._blocks.number_of(number)
        lines = self._blocks.read(block)
        at = number - self._blocks.lines_of(block).start
        return lines[at] if at < len(lines) else b""

    # Choosing

    def filter(self, wanted: Wanted) -> Selection:
        """The lines that are wanted, among those indexed so far, in one go; see `filtering`."""
        filtering = self.filtering(wanted)
        while not filtering.advance():
            pass
        return filtering.selection()

    def filtering(self, wanted: Wanted, *, counts_only: bool = False) -> Filtering:
        """A filter that goes on with each `advance`, also in lines that come later."""
        return Filtering(self, wanted, counts_only=counts_only)

    def mask_of_block(self, number: int, times: TimeFilter) -> bytes:
        """1 for each line of a block that is in the span of `times`, which has seen the blocks before."""
        count = len(self._blocks.lines_of(number))
        verdict = self._times.verdict(number, times.span)
        if verdict is None:
            mask = times.mask(b"\n" + self._blocks.content(number))[:count]
        else:
            mask, times.last = bytes((verdict,)) * count, verdict
        return mask.ljust(count, bytes((times.last,)))

    def search(self, pattern: re.Pattern[bytes]) -> Search:
        """A search that goes on with each `advance`, also in lines that come later."""
        return Search(self._blocks, pattern)

    def next_error(self, line: int, among: Selection | None = None) -> int | None:
        """The first line behind `line` that begins an error record; of those in `among` where it is given."""
        return Errors(self, among).next_from(line + 1)

    def last_error(self, line: int, among: Selection | None = None) -> int | None:
        """The last line before `line` that begins an error record; of those in `among` where it is given."""
        return Errors(self, among).last_before(line)

    def repeats(self, line: int) -> bool:
        """Whether `line` is bare, or has the whole prefix of the line above it; not for the first."""
        return Errors(self, None).repeats(line)

    def stage_changes(self) -> list[tuple[int, str]]:
        """(first line, stage) of each stretch of lines in one stage, in order."""
        return self._stages.changes()

    def models(self) -> list[tuple[int, str]]:
        """(first line, model) of each stretch of one model's lines; a load's first lines count to the one it tells."""
        return self._models.stretches(self._stages)
