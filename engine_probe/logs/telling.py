"""The records of a log that tell how its loads went: of a small log all, of a big one those around errors.

A gigabyte is never read record by record: the index says where to look (roots_windows.py). Between the two, what a
server prints over and over is left out (quiet_runs.py), where that leaves little.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from engine_probe.logs.line_ends import with_line_ends
from engine_probe.logs.records import Reader, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.records import Record
    from engine_probe.logs.roots_windows import Windows

WHOLE_BYTES = 256 << 10
"""Up to this size all is read: the index would cost more than it saves."""
_END_LINES = 1_000
"""Of a big log's end all is read: how it ends decides."""
_MIDDLING_BYTES = 4 << 20
_MOST_LINES = 3_000
"""More lines than that take longer than the index."""
_STEP_SECONDS = 0.1


def telling_records(file: int, go_on: Callable[[], None] = lambda: None) -> list[Record]:
    """Of the regular file behind the descriptor, which is closed. Lines count from 1. Raises OSError.

    `go_on` is asked every now and then while a big log is read; what it raises ends the reading.
    """
    file = with_line_ends(file)
    size = os.fstat(file).st_size
    if size <= _MIDDLING_BYTES:
        records = _of_content(os.pread(file, size, 0), is_small=size <= WHOLE_BYTES)
        if records is not None:
            os.close(file)
            return records
    records = list(_of_big_log(file, go_on))
    return sorted(records, key=lambda one: (one.first_line, one.last_line))


def _of_content(content: bytes, *, is_small: bool) -> list[Record] | None:
    """None: too many of its lines may tell something."""
    if is_small:
        return read_text([content])
    from engine_probe.logs.quiet_runs import other_lines  # noqa: PLC0415 - a small log needs none of it

    stretches = list(other_lines(content))
    if sum(len(lines) for _, lines in stretches) > _MOST_LINES:
        return None
    return sorted(_of_stretches(stretches), key=lambda one: (one.first_line, one.last_line))


def _of_stretches(stretches: Sequence[tuple[int, list[bytes]]]) -> Iterator[Record]:
    reader = Reader()
    for first, lines in stretches:
        for number, line in enumerate(lines, first):
            yield from reader.feed(number, line.decode("utf-8", "replace"))
    yield from reader.finish()


def _of_big_log(file: int, go_on: Callable[[], None]) -> Iterator[Record]:
    from engine_probe.logs.index import LogIndex  # noqa: PLC0415 - other logs need none of it
    from engine_probe.logs.roots_windows import Windows  # noqa: PLC0415

    log = LogIndex(file)
    try:
        while not log.advance(_STEP_SECONDS):
            go_on()
        windows, reader = Windows(log), Reader()
        end = max(0, log.line_count - _END_LINES)
        ranges = _ranges(log, windows, go_on)
        numbers = chain.from_iterable(range(lines.start, min(lines.stop, end)) for lines in ranges)
        for number in chain(numbers, range(end, log.line_count)):
            yield from reader.feed(number + 1, log.bytes_of(number).decode("utf-8", "replace"))
        yield from reader.finish()
    finally:
        log.close()


def _ranges(log: LogIndex, windows: Windows, go_on: Callable[[], None]) -> Iterator[range]:
    for block in _blocks_of_last_loads(log):
        go_on()
        yield from windows.of_block(block)


def _blocks_of_last_loads(log: LogIndex) -> range:
    """From the last loads on, as many as there are models: of each model only the last one counts."""
    begins = [line for line, stage in log.stage_changes() if stage == "config"]
    models = len({name for _, name in log.models()})
    if models == 0 or len(begins) <= models:
        return range(len(log.blocks))
    return range(log.blocks.number_of(begins[-models]), len(log.blocks))
