"""How a row of a log looks: columns, then text in which what a search found stands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from tui.themes.palette import LAYER_LETTERS

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from rich.style import Style

    from tui.themes.glyphs import Glyphs
    from tui.widgets.log_view_rows import ShownRow
    from tui.widgets.log_view_wrap import Piece

    Styled = Callable[[str], Style]

_TAG_CELLS, _WIDE_TAG_CELLS = 4, 16
_CLOCK_CELLS, _SIGN_CELLS = 9, 2
_WIDE, _NARROW = 110, 40
"""With fewer cells than the second, the text alone is shown, with its sign."""
_MOST_MATCHES = 1000
"""In one line; more are found all the same, but not all stand out."""


def source_cells(names: Sequence[str]) -> int:
    """For the names of several logs, and a space."""
    return max(map(cell_len, names), default=-1) + 1


def _padded(text: str, cells: int) -> str:
    return text + " " * (cells - cell_len(text))


def is_wide(width: int) -> bool:
    """Whether there is room for long names and tags."""
    return width >= _WIDE


def columns_cells(width: int, source: int = 0) -> int:
    """How many cells `draw_columns` takes; `source` are those of `source_cells`."""
    if width < _NARROW:
        return _SIGN_CELLS
    return _CLOCK_CELLS + source + (_WIDE_TAG_CELLS if width >= _WIDE else _TAG_CELLS) + _SIGN_CELLS


def draw_columns(
    row: ShownRow,
    width: int,
    glyphs: Glyphs,
    styled: Styled,
    source: int = 0,
    *,
    is_marked: bool = False,
    day: str = "",
) -> list[Segment]:
    """A marked row has a sign behind its clock, which is seen without colours too. `day`, a new one, is its clock."""
    sign = {"error": glyphs.failed, "warn": "!"}.get(row.level, " ")
    if width < _NARROW:
        return [Segment(f"{glyphs.running if is_marked else sign} ", styled(row.level))]
    letter = LAYER_LETTERS.get(row.layer, " ")
    if width >= _WIDE:
        tag = f"{letter} {row.process[: _WIDE_TAG_CELLS - 3]}".ljust(_WIDE_TAG_CELLS)
    else:
        tag = f"{letter}{row.rank}"[: _TAG_CELLS - 1].ljust(_TAG_CELLS)
    return [
        Segment(f"{day or row.clock:8}", styled("break" if day else "clock")),
        Segment(glyphs.running if is_marked else " ", styled("clock")),
        *(
            [Segment(glyphs.text(row.source + " " * (source - cell_len(row.source))), styled("clock"))]
            if source
            else []
        ),
        Segment(glyphs.text(tag), styled(row.layer)),
        Segment(f"{sign} ", styled(row.level)),
    ]


def hidden_words(row: ShownRow) -> str:
    """What stands at the end of a closed traceback."""
    return f"  (+{row.hidden:,} line{'' if row.hidden == 1 else 's'})" if row.hidden else ""


def draw_break(words: str, width: int, glyphs: Glyphs, style: Style) -> Strip:
    line = glyphs.line_open
    return Strip([Segment(glyphs.text(f"{line * 2} {words} ".ljust(width, line)), style)])


def matches_in(text: str, pattern: re.Pattern[str] | None) -> list[Piece]:
    """Where `pattern` matches, as far as it matches anything."""
    if pattern is None:
        return []
    found = (match.span() for match, _ in zip(pattern.finditer(text), range(_MOST_MATCHES), strict=False))
    return [(start, end) for start, end in found if end > start]


def draw_piece(text: str, piece: Piece, matches: Sequence[Piece], style: Style, found: Style) -> list[Segment]:
    """`found` is how matches look."""
    start, stop = piece
    segments, at = [], start
    for begin, end in matches:
        if end > start and begin < stop:
            segments += [Segment(text[at:begin], style), Segment(text[max(begin, start) : min(end, stop)], found)]
            at = min(end, stop)
    return [segment for segment in (*segments, Segment(text[at:stop], style)) if segment.text]
