"""The root causes of the loads that failed, in the merged order of several logs."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.logs.index_search import BATCH_SECONDS

if TYPE_CHECKING:
    from engine_probe.logs.merged_order import Order
    from engine_probe.logs.roots import Cause, Roots


class MergedRoots:
    """Like `Roots` to use: each log is looked at by itself."""

    def __init__(self, order: Order, roots: list[Roots]) -> None:
        self._order, self._roots = order, roots

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Look for about `seconds`; True when all lines of now are looked at."""
        are_done = [roots.advance(seconds / len(self._roots)) for roots in self._roots]
        return all(are_done)

    @property
    def causes(self) -> list[Cause]:
        """In the order of their lines."""
        taken = self._order.taken
        found = [
            replace(cause, line=self._order.line_of(source, cause.line))
            for source, roots in enumerate(self._roots)
            for cause in roots.causes
            if cause.line < taken[source]
        ]
        return sorted(found, key=lambda cause: cause.line)

    def next_from(self, line: int) -> int | None:
        """The first cause at `line` or behind it."""
        lines = [cause.line for cause in self.causes]
        at = bisect_left(lines, line)
        return lines[at] if at < len(lines) else None

    def last_before(self, line: int) -> int | None:
        lines = [cause.line for cause in self.causes]
        at = bisect_left(lines, line)
        return lines[at - 1] if at else None
