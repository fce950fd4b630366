"""The scanned blocks of one file in order, whether they were scanned here or by helpers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine_probe.logs.index_blocks import BLOCK_BYTES, Cutter
from engine_probe.logs.index_helper import scan_block, start_helpers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.index_blocks import Cut
    from engine_probe.logs.index_helper import Helper, ScannedBlock
    from engine_probe.logs.index_scan import Scanner

_LONG_SECONDS = 0.008
_LEAST_BLOCK_BYTES = 1 << 14


class Parts:
    """Scans the first part of a file and then joins what its helpers found; without any, all is the first part."""

    def __init__(self, file: int, scanner: Scanner, *, may_be_helped: bool) -> None:
        self.file = file
        self._scanner = scanner
        self._cutter = Cutter(file)
        self._cutter.block_bytes = _LEAST_BLOCK_BYTES
        self._may_be_helped = may_be_helped
        self._helpers: list[Helper] = []
        """Those that still scan, in the order of their parts."""
        self._joining: Iterator[ScannedBlock] | None = None

    @property
    def position(self) -> int:
        """Behind the last whole line that was given."""
        return self._cutter.position

    @property
    def goes_on(self) -> bool:
        """There is more to come although `next` may just have given nothing, or an unfinished line."""
        return self._joining is not None or bool(self._helpers) or self._cutter.is_inside_a_line

    def next(self, until: float) -> ScannedBlock | None:
        """The next block; None at the end of the file, or while a helper is waited for, until `until` at most."""
        if self._may_be_helped:
            self._may_be_helped = False
            self._helpers = start_helpers(self.file)
            self._stop_at_next_part()
        if self._joining is None and self._helpers and self._cutter.position == self._helpers[0].start:
            helper = self._helpers[0]
            if not helper.is_done(0.0):
                helper.is_done(until - time.monotonic())
                return None
            self._join(helper)
        return self._next_joined() or self._next_scanned()

    def _next_joined(self) -> ScannedBlock | None:
        block = None if self._joining is None else next(self._joining, None)
        if block is None:
            self._joining = None
        else:
            self._cutter.position = block.end
        return block

    def _next_scanned(self) -> ScannedBlock | None:
        start = self._cutter.position
        cut = self._cutter.next()
        if self._helpers and start < self._helpers[0].start and (cut is None or not cut.is_whole):
            self.end()  # the file has become so short that their parts are gone
        return None if cut is None else self._scanned(start, cut)

    def _scanned(self, start: int, cut: Cut) -> ScannedBlock:
        """Blocks that take long, because no two of their lines are alike, are made smaller: a key is waiting."""
        began = time.thread_time()
        block = scan_block(self._scanner, start, cut)
        seconds = time.thread_time() - began
        if seconds > _LONG_SECONDS:
            self._cutter.block_bytes = max(_LEAST_BLOCK_BYTES, self._cutter.block_bytes // 4)
        elif seconds < _LONG_SECONDS / 8:
            self._cutter.block_bytes = min(BLOCK_BYTES, self._cutter.block_bytes * 2)
        return block

    def _join(self, helper: Helper) -> None:
        """Take over what a helper found; where that is nothing, or for another release, its part is scanned here."""
        answer = helper.answer() if helper.version == self._scanner.version else None
        helper.end()
        del self._helpers[0]
        self._stop_at_next_part()
        if answer is not None:
            self._scanner.version = answer.version
            numbers = bytes(self._scanner.processes.number(name or None, pid) for name, pid in answer.processes)
            self._joining = answer.blocks(numbers.ljust(256, b"\0"))

    def _stop_at_next_part(self) -> None:
        self._cutter.stop = self._helpers[0].start if self._helpers else None

    def end(self) -> None:
        """End the helpers; what they would have scanned is scanned here."""
        for helper in self._helpers:
            helper.end()
        self._helpers, self._joining, self._may_be_helped = [], None, False
        self._stop_at_next_part()
