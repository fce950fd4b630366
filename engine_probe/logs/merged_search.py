"""A search over several logs that is shown in their merged order, found a bit at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.index_selection import Selection

if TYPE_CHECKING:
    from engine_probe.logs.index_search import Search
    from engine_probe.logs.merged_order import Order

_SHARE_SECONDS = 0.005


class MergedSearch:
    """Each log is searched in its own order; marks are merged as far as all are searched. Like `Search` to use."""

    def __init__(self, order: Order, searches: list[Search]) -> None:
        self._order, self._searches = order, searches
        self._start_over()

    def _start_over(self) -> None:
        self._generation = self._order.generation
        self._mask = bytearray()
        self._done = [0] * len(self._searches)
        """How many lines of each log have their marks in the mask."""
        self._last = [-1] * len(self._searches)

    @property
    def searched_lines(self) -> int:
        return len(self._mask)

    @property
    def count(self) -> int:
        return self._mask.count(1)

    def selection(self) -> Selection:
        """Matching lines among those that were searched; all others count as not matching."""
        return Selection(self._mask.ljust(len(self._order), b"\0"))

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Search for about `seconds`; True when all lines of now are searched. Call it again when there are more."""
        if self._generation != self._order.generation:
            self._start_over()
        until = time.monotonic() + seconds
        waiting = set(range(len(self._searches)))
        while waiting:
            source = min(waiting, key=self._reach)
            if self._searches[source].advance(min(seconds, _SHARE_SECONDS)):
                waiting.discard(source)
            if time.monotonic() >= until:
                break
        self._merge()
        return not waiting

    def _reach(self, source: int) -> int:
        """Up to where the merged lines of `source` are searched."""
        return self._order.line_of(source, self._searches[source].searched_lines)

    def _merge(self) -> None:
        start = len(self._mask)
        stop = max(start, min(self._reach(source) for source in range(len(self._searches))))
        self._mark_last_again()
        marks = [
            search.marks(done, taken)
            for search, done, taken in zip(self._searches, self._done, self._order.taken, strict=True)
        ]
        self._mask += self._order.laid_out(marks, start, stop)
        for source in range(len(self._searches)):
            added = self._order.column.count(source, start, stop)
            if added:
                self._done[source] += added
                self._last[source] = self._order.column.rfind(source, start, stop)

    def _mark_last_again(self) -> None:
        """The last line of a log may have been unfinished."""
        for search, done, last in zip(self._searches, self._done, self._last, strict=True):
            if done and (mark := search.marks(done - 1, done)):
                self._mask[last : last + 1] = mark
