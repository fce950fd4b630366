"""Tracebacks of several logs, folded in their merged order."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

from engine_probe.logs.index_search import BATCH_SECONDS
from engine_probe.logs.merged_order import only

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine_probe.logs.folds import Fold, Folds
    from engine_probe.logs.merged_order import Order

    Span = tuple[int, int]


class MergedFolds:
    """Like `Folds` to use: each log is looked at by itself. Lines of other logs may stand between those of a fold."""

    def __init__(self, order: Order, folds: list[Folds]) -> None:
        self._order, self._folds = order, folds
        self._firsts: list[dict[int, int]] = []
        """Of each log: first line of a fold → where it stands, which never changes."""
        self._generation = -1
        self._spans_of: object = None
        self._spans: list[list[tuple[Span, Span]]] = []

    @property
    def changes(self) -> int:
        """Grows whenever the folds are no longer the same."""
        return self._order.generation + sum(folds.changes for folds in self._folds)

    def __len__(self) -> int:
        return sum(len(folds) for folds in self._folds)

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Look for about `seconds`; True when all lines of now are looked at. Call it again when there are more."""
        are_done = [folds.advance(seconds / len(self._folds)) for folds in self._folds]
        return all(are_done)

    def fold_at(self, line: int) -> Fold | None:
        """The fold that begins in `line` or hides it where it is closed."""
        if not 0 <= line < len(self._order):
            return None
        source, number = self._order.locate(line)
        fold = self._folds[source].fold_at(number)
        if fold is None:
            return None
        first, last = self._place(source, fold.first_line, fold.last_line)
        return replace(fold, first_line=first, last_line=last, cause_line=self._order.line_of(source, fold.cause_line))

    def spans(self) -> list[Span]:
        """(first line, last line) of each fold."""
        return sorted(place for pairs in self._pairs() for _, place in pairs)

    def shown_mask(self, opened: Collection[int] = ()) -> bytes:
        """1 for each line that is shown, 0 for the folded ones; `opened`: first lines of open folds."""
        mask = bytearray(b"\1") * len(self._order)
        for source, pairs in enumerate(self._pairs()):
            shown = self._folds[source].shown_mask({own[0] for own, place in pairs if place[0] in opened})
            for (first, last), place in pairs:
                if 0 in shown[first : last + 1]:
                    self._lay(mask, source, place, shown[first : last + 1])
        return bytes(mask)

    def _lay(self, mask: bytearray, source: int, place: Span, shown: bytes) -> None:
        """Put what is shown of one log's lines where they stand."""
        first, last = place
        if last - first + 1 == len(shown):
            mask[first : last + 1] = shown
            return
        column = self._order.column[first : last + 1]
        for at, one in zip(compress(range(first, last + 1), column.translate(only(source))), shown, strict=False):
            mask[at] = one

    def _pairs(self) -> list[list[tuple[Span, Span]]]:
        """Of each log: (first, last) line of a fold in it and in the order; only those that have begun there."""
        state = (self.changes, len(self._order))
        if state != self._spans_of:
            self._spans_of = state
            self._spans = [
                [(span, self._place(source, *span)) for span in folds.spans() if span[0] < self._order.taken[source]]
                for source, folds in enumerate(self._folds)
            ]
        return self._spans

    def _place(self, source: int, first: int, last: int) -> Span:
        if self._generation != self._order.generation:
            self._generation, self._firsts = self._order.generation, [{} for _ in self._folds]
        known = self._firsts[source]
        if first not in known:
            known[first] = self._order.line_of(source, first)
        at, count = known[first], last - first + 1
        if self._order.column.count(source, at, at + count) == count:
            return at, at + count - 1
        return at, min(self._order.line_of(source, last), len(self._order) - 1)
