"""Which tracebacks of a log are closed to one row, and which lines that leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.index_selection import Selection, and_masks

if TYPE_CHECKING:
    from engine_probe.logs.folds import Fold, Folds
    from engine_probe.logs.merged_folds import MergedFolds


class Folding:
    """All are closed, or all are open, but for those that were turned."""

    def __init__(self, folds: Folds | MergedFolds) -> None:
        self._folds = folds
        self._turned: set[int] = set()
        self._all_open = False
        self._version = 0
        self.is_on = True
        """Off: all lines are shown, and nothing is said of tracebacks."""

    @property
    def state(self) -> tuple[int, int, bool]:
        """Differs whenever other lines are hidden."""
        return self._folds.changes, self._version, self.is_on

    @property
    def has_folds(self) -> bool:
        return self.is_on and bool(self._folds)

    def turn_on(self, is_on: bool) -> None:
        self.is_on = is_on

    def forget(self) -> None:
        """Line numbers mean other lines now."""
        self._turned.clear()
        self._version += 1

    def fold_at(self, line: int) -> Fold | None:
        """The traceback that `line` belongs to, open or closed."""
        return self._folds.fold_at(line) if self.is_on else None

    def is_closed(self, fold: Fold) -> bool:
        return self.is_on and (fold.first_line in self._turned) == self._all_open

    def turn(self, fold: Fold) -> None:
        """Open it, or close it."""
        self._turned ^= {fold.first_line}
        self._version += 1

    def turn_all(self) -> None:
        """Open all, or close all."""
        self._all_open = not self._all_open
        self.forget()

    def shown(self, wanted: Selection | None) -> Selection | None:
        """The wanted lines that no closed fold hides; of a fold whose first line is not wanted, none is hidden."""
        if not self.has_folds or (self._all_open and not self._turned):
            return wanted
        spans = self._folds.spans()
        opened = {first for first, _ in spans} - self._turned if self._all_open else set(self._turned)
        if wanted is not None:
            opened |= _headless(spans, wanted.mask)
        mask = self._folds.shown_mask(opened)
        return Selection(mask if wanted is None else and_masks(mask, wanted.mask))


def _headless(spans: list[tuple[int, int]], wanted: bytes) -> set[int]:
    """First lines of folds that would take wanted lines away, because nothing stands for them."""
    behind = len(wanted)
    return {
        first
        for first, last in spans
        if first < behind and not wanted[first] and wanted.find(1, first + 1, last + 1) >= 0
    }
