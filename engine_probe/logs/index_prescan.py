"""What a helper runs: numbers the lines of a part of a log, from its end towards its start, chunk by chunk.

It knows no meanings, so it starts with a handful of modules and its numbers hold for any release. Each chunk is one
frame on standard output; who started it reads them while they come.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.index_blocks import BLOCK_BYTES, Cutter, read_at
from engine_probe.logs.index_keys import Keyer, cleaned
from engine_probe.logs.index_stamps import ends_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.index_keys import Key
    from engine_probe.logs.index_stamps import Ends

CHUNK_BYTES = 1 << 20
FRAME = struct.Struct("<QQQ")
"""Start and end of a chunk in the log, and how many bytes of the frame follow."""


class PreScanned(NamedTuple):
    """A block whose lines are numbered; see `index_keys.Keyed`, of which the last four are."""

    start: int
    end: int
    times: Ends | None
    numbers: bytes | list[int]
    new: list[tuple[Key, bytes]]
    begins_anew: bool
    has_objects: bool


def prescan(keyer: Keyer, start: int, end: int, content: bytes) -> PreScanned:
    """`content` as a `Cut` has it."""
    return PreScanned(start, end, ends_of(content), *keyer.key(cleaned(content)))


def line_start(file: int, place: int) -> int | None:
    """Where the first line behind `place` begins; None when none begins within a block."""
    found = read_at(file, place, BLOCK_BYTES).find(b"\n")
    return None if found < 0 else place + found + 1


def chunks(file: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The part from `start` to `stop`, both where lines begin, in chunks of whole lines; the last one first."""
    end, place = stop, stop
    while end > start:
        place -= CHUNK_BYTES
        begin = start if place <= start else line_start(file, place)
        if begin is not None and begin < end:
            yield begin, end
            end = begin


def prescan_chunk(file: int, start: int, end: int) -> list[PreScanned] | None:
    """None where a line is longer than a block, or the file has become shorter."""
    keyer, cutter = Keyer(), Cutter(file, start, end)
    blocks = []
    place = start
    while (cut := cutter.next()) is not None and cut.is_whole and cut.end - place < BLOCK_BYTES:
        blocks.append(prescan(keyer, place, cut.end, cut.content))
        place = cut.end
    return blocks if place == end else None


def run(arguments: list[str]) -> None:
    """The helper: descriptor, start, stop, and the process that it ends with."""
    file, start, stop, parent = map(int, arguments)
    for begin, end in chunks(file, start, stop):
        blocks = prescan_chunk(file, begin, end)
        if blocks is None or os.getppid() != parent:
            return  # what is missing is scanned by who reads this
        body = marshal.dumps([tuple(block) for block in blocks])
        sys.stdout.buffer.write(FRAME.pack(begin, end, len(body)) + body)
        sys.stdout.buffer.flush()
