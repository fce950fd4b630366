"""The scanned blocks of one file in order, whether their lines were numbered here or by helpers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from engine_probe.logs.index_blocks import BLOCK_BYTES, Cutter, read_at
from engine_probe.logs.index_helper import start_helpers
from engine_probe.logs.index_keys import cleaned
from engine_probe.logs.index_scan import Numbering
from engine_probe.logs.index_stamps import ends_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.index_helper import Helper
    from engine_probe.logs.index_prescan import PreScanned
    from engine_probe.logs.index_scan import Scanned, Scanner
    from engine_probe.logs.index_stamps import Ends

_LONG_SECONDS = 0.004
_LEAST_BLOCK_BYTES = 1 << 14


@dataclass(frozen=True)
class ScannedBlock:
    """What is known of a block before it is joined to those before it."""

    start: int
    end: int
    scanned: Scanned
    times: Ends | None
    is_whole: bool = True
    """False: its one line may go on."""


class Parts:
    """Scans a file from its start, and takes over what helpers have done where it meets them."""

    def __init__(self, file: int, scanner: Scanner, *, may_be_helped: bool) -> None:
        self.file = file
        self._scanner = scanner
        self._cutter = Cutter(file)
        self._cutter.block_bytes = _LEAST_BLOCK_BYTES
        self._may_be_helped = may_be_helped
        self._is_ready = False
        self._helpers: list[Helper] = []
        """In the order of their parts; all that is behind the position."""
        self._joining: Iterator[ScannedBlock] | None = None

    @property
    def position(self) -> int:
        """Behind the last whole line that was given."""
        return self._cutter.position

    @property
    def goes_on(self) -> bool:
        """There is more to come although `next` may just have given nothing, or an unfinished line."""
        return not self._is_ready or self._joining is not None or bool(self._helpers) or self._cutter.is_inside_a_line

    def next(self) -> ScannedBlock | None:
        """The next block; None at the end of the file, and while there is something to do before the first."""
        if not self._is_ready:
            self._get_ready()
        if not self._is_ready:
            return None
        return self._next_joined() or self._next_scanned()

    def _get_ready(self) -> None:
        if self._may_be_helped:
            self._may_be_helped = False
            self._helpers = start_helpers(self.file)
        else:
            self._is_ready = self._scanner.get_ready()

    def _next_joined(self) -> ScannedBlock | None:
        block = None if self._joining is None else next(self._joining, None)
        if block is None:
            self._joining = self._meet_helper()
            block = None if self._joining is None else next(self._joining, None)
        if block is not None:
            self._cutter.position = block.end
        return block

    def _meet_helper(self) -> Iterator[ScannedBlock] | None:
        """The blocks of the chunk that begins here, where a helper has done it."""
        while self._helpers and self._helpers[0].stop <= self.position:
            self._helpers.pop(0).end()
        self._cutter.stop = self._helpers[0].done_from(self.position) if self._helpers else None
        if not self._helpers or self._cutter.stop != self.position:
            return None
        return self._joined(self._helpers[0].chunk(self.position))

    def _joined(self, blocks: list[PreScanned]) -> Iterator[ScannedBlock]:
        numbering = Numbering([])
        for block in blocks:
            if block.begins_anew:
                numbering = Numbering([])
            numbering.keys += block.new
            scanned = self._scanner.say(
                numbering, block.numbers, partial(self._content, block), has_objects=block.has_objects
            )
            yield ScannedBlock(block.start, block.end, scanned, block.times)

    def _content(self, block: PreScanned) -> bytes:
        return cleaned(b"\n" + read_at(self.file, block.start, block.end - block.start).removesuffix(b"\n"))

    def _next_scanned(self) -> ScannedBlock | None:
        """Blocks that take long, because no two of their lines are alike, are made smaller: a key is waiting."""
        start = self._cutter.position
        cut = self._cutter.next()
        if (cut is None or not cut.is_whole) and not self._cutter.is_inside_a_line:
            self.end()  # the file has become so short that the helpers' parts are gone
        if cut is None:
            return None
        began = time.thread_time()
        scanned = self._scanner.scan(cut.content) if cut.is_whole else self._scanner.scan_unfinished(cut.content)
        block = ScannedBlock(start, cut.end, scanned, ends_of(cut.content), cut.is_whole)
        seconds = time.thread_time() - began
        if seconds > _LONG_SECONDS:
            self._cutter.block_bytes = max(_LEAST_BLOCK_BYTES, self._cutter.block_bytes // 4)
        elif seconds < _LONG_SECONDS / 4:
            self._cutter.block_bytes = min(BLOCK_BYTES, self._cutter.block_bytes * 2)
        return block

    def end(self) -> None:
        """End the helpers; what they have not done, or it was not taken over yet, is scanned here."""
        for helper in self._helpers:
            helper.end()
        self._helpers, self._joining, self._may_be_helped = [], None, False
        self._cutter.stop = None
