"""The lines of a log that are wanted, and how many there would be of each layer; brought up to date a bit at a time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import LAYERS
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.merged import MergedIndex

if TYPE_CHECKING:
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.index_filter import Filtering
    from engine_probe.logs.index_search import Search
    from engine_probe.logs.index_selection import Selection
    from engine_probe.logs.merged_search import MergedSearch

    Index = LogIndex | MergedIndex


class _AtOnce:
    """What `Filtering` does, of several logs in one: those are filtered in one go."""

    def __init__(self, index: MergedIndex, wanted: Wanted) -> None:
        self._index, self._wanted = index, wanted
        self._selection: Selection | None = None

    def advance(self, _seconds: float) -> bool:
        self._selection = self._index.filter(self._wanted)
        return True

    @property
    def count(self) -> int:
        return 0 if self._selection is None else len(self._selection)

    def selection(self) -> Selection:
        return self._selection or self._index.filter(self._wanted)


def _filtering(index: Index, wanted: Wanted, *, counts_only: bool = False) -> Filtering | _AtOnce:
    return (
        _AtOnce(index, wanted) if isinstance(index, MergedIndex) else index.filtering(wanted, counts_only=counts_only)
    )


class WantedLines:
    """`want` something, then `advance` until it says that all is known; again when the log has grown."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.counts: dict[str, int] = {}
        """Lines of each layer, by all other filters."""
        self.want(Wanted())

    def want(self, wanted: Wanted, matching: Search | MergedSearch | None = None) -> None:
        """Selection and counts stay those of before until they are made anew. `matching`: only what it found."""
        self._wanted, self._matching = wanted, matching
        self._selected_of = self._counted_of = self._counting_of = (-1, -1, -1)
        self._to_count: list[str] = []
        is_all = wanted == Wanted() and matching is None
        self._filtering = None if is_all else _filtering(self._index, wanted)
        self._counting = {
            layer: _filtering(
                self._index, replace(wanted, layers=frozenset({layer})), counts_only=self._matching is None
            )
            for layer in LAYERS
        }

    def forget(self) -> None:
        """All lines of the log are others now."""
        self.counts = {}
        self.want(self._wanted, self._matching)

    @property
    def _state(self) -> tuple[int, int, int]:
        """What selection and counts depend on."""
        found = self._matching
        return self._index.line_count, *((0, 0) if found is None else (found.searched_lines, found.count))

    @property
    def is_selected(self) -> bool:
        """Whether the last `select` came to the end of what there is now."""
        return self._selected_of == self._state

    @property
    def is_counted(self) -> bool:
        return self._counted_of == self._state

    def select(self, seconds: float) -> bool:
        """Go on for about `seconds`; True when `selection` can give all lines of now."""
        if self._filtering is None or self._filtering.advance(seconds):
            self._selected_of = self._state
        return self.is_selected

    def selection(self) -> Selection | None:
        """None: all lines, also those that come later."""
        return None if self._filtering is None else self._found_by(self._filtering)

    def _found_by(self, filtering: Filtering | _AtOnce) -> Selection:
        selection = filtering.selection()
        return selection if self._matching is None else selection & self._matching.selection()

    def count(self, seconds: float) -> bool:
        """Go on with the counts for about `seconds`; True when all are those of now."""
        until = time.monotonic() + seconds
        if not self._to_count:
            self._to_count, self._counting_of = list(LAYERS), self._state
        while self._to_count:
            filtering = self._counting[self._to_count[-1]]
            if not filtering.advance(max(0.0, until - time.monotonic())):
                return False
            count = filtering.count if self._matching is None else len(self._found_by(filtering))
            self.counts[self._to_count.pop()] = count
            if time.monotonic() >= until:
                break
        if not self._to_count:
            self._counted_of = self._counting_of
        return self.is_counted
