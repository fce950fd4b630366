"""Long lines folded to a width, and moving by rows of the screen over lines that take one row or many."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import split_graphemes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NARROWEST = 8
Piece = tuple[int, int]
"""From which character to which."""


def folded(text: str, width: int) -> list[Piece]:
    """Pieces of `text` of at most `width` cells, cut behind a space where one is in the second half of a row."""
    width = max(width, _NARROWEST)
    if text.isascii():
        return _cut(text, width, range(len(text) + 1), range(len(text) + 1))
    spans, _ = split_graphemes(text)
    starts, cells = [0], [0]
    for _, end, size in spans:
        starts.append(end)
        cells.append(cells[-1] + size)
    return _cut(text, width, starts, cells)


def _cut(text: str, width: int, starts: Sequence[int], cells: Sequence[int]) -> list[Piece]:
    """`starts`: where each grapheme begins, and the end; `cells`: how many cells stand before it."""
    pieces: list[Piece] = []
    at, last = 0, len(starts) - 1
    while cells[last] - cells[at] > width:
        stop = max(bisect_right(cells, cells[at] + width, at, last) - 1, at + 1)
        space = text.rfind(" ", (starts[at] + starts[stop]) // 2, starts[stop])
        stop = stop if space < 0 else bisect_right(starts, space, at, stop)
        pieces.append((starts[at], starts[stop]))
        at = stop
    return [*pieces, (starts[at], starts[last])]


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
