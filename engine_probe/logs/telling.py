"""The records of a log that tell how its loads went: of a small log all, of a big one those around errors.

A gigabyte is never read record by record: the index says where to look (roots_windows.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.logs.records import Reader, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.records import Record

WHOLE_BYTES = 256 << 10
"""Up to this size all is read: the index would cost more than it saves."""


def telling_records(file: int) -> list[Record]:
    """Of the regular file behind the descriptor, which is closed. Lines count from 1. Raises OSError."""
    if os.fstat(file).st_size <= WHOLE_BYTES:
        with os.fdopen(file, "rb") as content:
            return read_text([content.read()])
    records = list(_of_big_log(file))
    return sorted(records, key=lambda one: (one.first_line, one.last_line))


def _of_big_log(file: int) -> Iterator[Record]:
    from engine_probe.logs.index import LogIndex  # noqa: PLC0415 - a small log needs none of it
    from engine_probe.logs.roots_windows import Windows  # noqa: PLC0415

    log = LogIndex(file)
    try:
        while not log.advance(1.0):
            pass
        windows, reader = Windows(log), Reader()
        for block in range(len(log.blocks)):
            for lines in windows.of_block(block):
                for number in lines:
                    text = log.bytes_of(number).decode("utf-8", "replace")
                    yield from reader.feed(number + 1, text)
        yield from reader.finish()
    finally:
        log.close()
