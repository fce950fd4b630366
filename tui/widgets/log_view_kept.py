"""The rows of a log that are drawn, or were a moment ago: read once, folded to the width, their matches found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from engine_probe.logs.follow import Break
from tui.widgets.clean_text import MOST_CHARACTERS
from tui.widgets.log_view_draw import columns_cells, hidden_words, is_wide, matches_in, source_cells
from tui.widgets.log_view_rows import ShownRow, folded_row, row_of_break, row_of_line, row_of_text
from tui.widgets.log_view_sources import column_names
from tui.widgets.log_view_wrap import Piece, folded

if TYPE_CHECKING:
    from engine_probe.logs.index_stream import LogLine
    from tui.opened_log import OpenedLog
    from tui.themes.glyphs import Glyphs

_MOST_KEPT = 2000
_READ_ROWS = 16
"""Rows that are read at once, where each is cut to what fits."""
_LOOKED_BACK = 50
"""Rows before one that are looked at for their day: a bare line has none."""
_MOST_WRAPPED = 1 << 16
"""Characters of a line that are shown where lines are wrapped."""


class Look(NamedTuple):
    """How rows are drawn: `width` for columns and text, `space` without a scroll bar."""

    is_as_printed: bool = False
    is_wrapped: bool = False
    width: int = 0
    space: int = 0


class KeptRows:
    """`update` before it is asked for rows, whenever the log or the look may have changed."""

    def __init__(self, log: OpenedLog, glyphs: Glyphs) -> None:
        self._log, self._glyphs = log, glyphs
        self.look = Look()
        self.tail: list[ShownRow] = []
        """The last lines of a log that is not read yet; in the place of all rows."""
        self.widest = 0
        self.version = 0
        """Grows when rows may have become others."""
        self._rows: dict[int, ShownRow] = {}
        self._pieces: dict[int, list[Piece]] = {}
        self._texts: dict[int, str] = {}
        self._matches: dict[int, list[Piece]] = {}
        self._names: tuple[str, ...] = ()
        """Of the logs, as the column has them."""
        self._state: object = None
        self._read_of = (0, 0)
        """How many rows and bytes there were."""

    def update(self, look: Look, tail_rows: int) -> None:
        """Rows keep their place while lines are only added; the last line may have been unfinished."""
        log = self._log
        self.version += look != self.look
        self.look = look
        state = (log.state_of_rows, bool(tail_rows), look, log.pattern)
        if state != self._state or len(self._rows) > _MOST_KEPT:
            self._state = state
            self._forget(list(self._rows))
        read_of = (log.row_count, log.index.indexed_bytes)
        if read_of != self._read_of:
            self._forget([row for row in self._rows if row >= self._read_of[0] - 1])
            self._read_of = read_of
        self._names = names = column_names(log.sources, is_wide(look.width))
        tail = log.tail(tail_rows) if tail_rows else []
        self.version += bool(tail or self.tail)
        self.tail = [row_of_text(text, names[at] if names else "") for at, text in tail]

    def _forget(self, rows: list[int]) -> None:
        self.version += bool(rows)
        for row in rows:
            del self._rows[row]
            for known in (self._pieces, self._texts, self._matches):
                known.pop(row, None)

    def __len__(self) -> int:
        return len(self.tail) or self._log.row_count

    def row(self, number: int) -> ShownRow | None:
        if self.tail:
            return self.tail[number] if number < len(self.tail) else None
        if number not in self._rows:
            count = 1 if self.look.is_wrapped else _READ_ROWS
            first = number - number % count
            for at, found in enumerate(self._log.rows(first, first + count), first):
                shown = row_of_break(found) if isinstance(found, Break) else self._row_of_line(found)
                self._rows.setdefault(at, shown)
                if not self.look.is_wrapped:
                    self.widest = max(self.widest, cell_len(shown.raw) + 2)
        return self._rows.get(number)

    def new_day(self, number: int) -> str:
        """The day of a row, where the last row before that has one is of another; else empty."""
        row = self.row(number)
        if row is None or not row.day:
            return ""
        before = (self.row(at) for at in range(number - 1, max(number - 1 - _LOOKED_BACK, -1), -1))
        days = (other.day for other in before if other is not None and other.day)
        return row.day if next(days, row.day) != row.day else ""

    def _row_of_line(self, line: LogLine) -> ShownRow:
        most = _MOST_WRAPPED if self.look.is_wrapped else MOST_CHARACTERS
        row = row_of_line(line, most, self._names)
        fold = self._log.folding.fold_at(line.number)
        if fold is None or fold.first_line != line.number:
            return row
        hidden = self._log.hidden_count(fold) if self._log.folding.is_closed(fold) else 0
        return folded_row(row, fold, hidden, self._glyphs)

    def text(self, number: int) -> str:
        """What of a row is shown as its text; a long one is made ready once, not at each look."""
        known = self._texts.get(number)
        row = self.row(number)
        if known is not None or row is None:
            return known or ""
        text = row.raw if self.look.is_as_printed else row.text
        text = self._glyphs.text(text + hidden_words(row) if self.look.is_wrapped else text)
        if number in self._rows:
            self._texts[number] = text
        return text

    @property
    def source_cells(self) -> int:
        """Of the column that says which log a line is of: none where it is clear."""
        return source_cells(self._names) if self._log.wanted.source is None else 0

    @property
    def columns_cells(self) -> int:
        """Cells in front of the text."""
        return 0 if self.look.is_as_printed else columns_cells(self.look.width, self.source_cells)

    def height(self, number: int) -> int:
        """Rows of the screen that it takes."""
        return len(self.pieces(number)) if self.look.is_wrapped else 1

    def pieces(self, number: int) -> list[Piece]:
        """What of its text stands in each row of the screen."""
        known = self._pieces.get(number)
        if known is not None:
            return known
        row = self.row(number)
        if row is None or row.is_break:
            return [(0, 0)]
        text = self.text(number)
        pieces = folded(text, self.look.space - self.columns_cells) if self.look.is_wrapped else [(0, len(text))]
        if number in self._rows:
            self._pieces[number] = pieces
        return pieces

    def matches(self, number: int) -> list[Piece]:
        """Where a search found something in its text."""
        known = self._matches.get(number)
        if known is None:
            known = matches_in(self.text(number), self._log.pattern)
            if number in self._rows:
                self._matches[number] = known
        return known
