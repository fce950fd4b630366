"""Long lines folded to a width, and moving by rows of the screen over lines that take one row or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import split_graphemes

if TYPE_CHECKING:
    from collections.abc import Callable

_NARROWEST = 8
_MOST_MARKS = 64
"""Characters that are combined with one."""
Piece = tuple[int, int]
"""From which character to which."""


def folded(text: str, width: int) -> list[Piece]:
    """Pieces of `text` of at most `width` cells, cut behind a space where one is in the second half of a row."""
    width = max(width, _NARROWEST)
    pieces: list[Piece] = []
    at = 0
    while (stop := _stop(text, at, width)) < len(text):
        space = text.rfind(" ", (at + stop) // 2, stop)
        stop = stop if space < 0 else _behind(text, space)
        pieces.append((at, stop))
        at = stop
    return [*pieces, (at, len(text))]


def _stop(text: str, at: int, width: int) -> int:
    """Behind the last character from `at` on that still fits. Only what may fit is measured: a line may be long."""
    size = width + 1
    if text[at : at + size].isascii():
        return min(at + width, len(text))
    while True:
        part = text[at : at + size]
        spans, _ = split_graphemes(part)
        whole = spans if at + size >= len(text) else spans[:-1]  # the last one may go on behind the part
        cells, stop = 0, 0
        for _, end, cell_count in whole:
            cells += cell_count
            if cells > width:
                return at + (stop or end)
            stop = end
        if at + size >= len(text):
            return len(text)
        size *= 2


def _behind(text: str, space: int) -> int:
    """Behind a space and the marks that are combined with it."""
    if text[space : space + 2].isascii():
        return space + 1
    spans, _ = split_graphemes(text[space : space + _MOST_MARKS])
    return space + spans[0][1]


class Spot(NamedTuple):
    """A row of the log, and how many of its rows on the screen are above."""

    row: int
    skip: int = 0


def moved(spot: Spot, by: int, row_count: int, height_of: Callable[[int], int]) -> Spot:
    """`by` rows of the screen further down, or up where it is negative; no further than the log's first and last."""
    row, at = spot.row, spot.skip + by
    while at < 0 and row > 0:
        row -= 1
        at += height_of(row)
    while row < row_count and at >= height_of(row):
        at -= height_of(row)
        row += 1
    if row < row_count:
        return Spot(row, max(at, 0))
    return Spot(row_count - 1, height_of(row_count - 1) - 1) if row_count else Spot(0)
