"""Finds the lines that are wanted, a bit at a time, so that a filter of any size never keeps a key waiting."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.index_selection import Selection, and_masks, count_of
from engine_probe.logs.index_time import TimeFilter
from engine_probe.logs.index_wanted import Wanted, is_model, mask_by

if TYPE_CHECKING:
    from engine_probe.logs.index import LogIndex

_PIECE_LINES = 1 << 16


class Filtering:
    """Goes on with each `advance`, also in lines that come later.

    `counts_only`: no mask is kept; `selection` cannot be asked for.
    """

    def __init__(self, log: LogIndex, wanted: Wanted, *, counts_only: bool = False) -> None:
        self.wanted = wanted
        self._log = log
        self._counts_only = counts_only
        self._start_over()

    def _start_over(self) -> None:
        self._generation = self._log.blocks.generation
        self._models: list[tuple[int, str]] = []
        self._times = TimeFilter(self.wanted.span)
        self._mask = bytearray()
        self._filtered = self._count = self._block = 0
        self._tail = b""
        """Of lines that may change yet: it is made anew each time."""

    @property
    def filtered_lines(self) -> int:
        return self._filtered + len(self._tail)

    @property
    def count(self) -> int:
        """Wanted lines among those that were filtered."""
        return self._count + self._tail.count(1)

    def selection(self) -> Selection:
        """Wanted lines; those that were not filtered yet count as not wanted."""
        rest = bytes(max(0, self._log.line_count - self.filtered_lines))
        return Selection(b"".join((self._mask, self._tail, rest)))

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Filter for about `seconds`; True when all lines of now are filtered. Call it again when there are more."""
        until = time.monotonic() + seconds
        self._look_at_log()
        self._tables = self.wanted.tables(self._log.processes)
        self._tail = b""
        settled = self._settled
        while self._filtered < settled:
            piece = self._next_piece(settled, self._times)
            if not self._counts_only:
                self._mask += piece
            self._count += count_of(piece)
            self._filtered += len(piece)
            if time.monotonic() >= until:
                return False
        self._add_tail()
        return True

    def _look_at_log(self) -> None:
        models = self._log.models() if self.wanted.model is not None else []
        is_extended = models[: len(self._models)] == self._models and all(
            line >= self._filtered for line, _ in models[len(self._models) :]
        )
        if self._generation != self._log.blocks.generation or not is_extended:
            self._start_over()
        self._models = models

    @property
    def _settled(self) -> int:
        """Lines that stay as they are. Whether a block is in a span depends on the one behind it, when it is whole."""
        whole = self._log.whole_line_count
        if self.wanted.span:
            blocks = self._log.blocks
            return blocks.lines_of(blocks.number_of(whole - 1)).start if whole else 0
        return whole

    def _add_tail(self) -> None:
        times, block, filtered = copy.copy(self._times), self._block, self._filtered
        parts = []
        while self._filtered < self._log.line_count:
            parts.append(self._next_piece(self._log.line_count, times))
            self._filtered += len(parts[-1])
        self._tail = b"".join(parts)
        self._block, self._filtered = block, filtered

    def _next_piece(self, stop: int, times: TimeFilter) -> bytes:
        """The mask of the next lines; of one block's where their times are asked for."""
        if self.wanted.span:
            lines = self._log.blocks.lines_of(self._block)
        else:
            lines = range(self._filtered, min(stop, self._filtered + _PIECE_LINES))
        mask = mask_by(self._tables, self._log.columns(lines.start, lines.stop))
        if self.wanted.model is not None:
            mask = and_masks(mask, self._of_model(lines, self.wanted.model))
        if self.wanted.span:
            mask = and_masks(mask, self._log.mask_of_block(self._block, times))
            self._block += 1
        return mask

    def _of_model(self, lines: range, model: str) -> bytes:
        mask = bytearray()
        ends = [*(first for first, _ in self._models[1:]), lines.stop]
        for (first, name), end in zip(self._models, ends, strict=False):
            start, stop = max(first, lines.start), min(end, lines.stop)
            mask += bytes((is_model(name, model),)) * (stop - start)
        return bytes(mask).ljust(len(lines), b"\0")
