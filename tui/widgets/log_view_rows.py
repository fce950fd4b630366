"""A line of an indexed log as the viewer shows it: clean, in columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.index_wanted import rank_of
from engine_probe.logs.layers import layer_of_record
from engine_probe.logs.lines import read_line
from tui.widgets.clean_text import MOST_CHARACTERS, clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.folds import Fold
    from engine_probe.logs.follow import Break
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.lines import Line
    from tui.themes.glyphs import Glyphs

LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "WARN": "warn", "ERROR": "error", "CRITICAL": "error"}
_CLOCK = re.compile(r"(?:(\d\d-\d\d)[ T])?(\d\d:\d\d:\d\d)")


class ShownRow(NamedTuple):
    """`text` is the message, `raw` the whole line; `number` is None for what is no line of the index."""

    number: int | None
    clock: str
    layer: str
    process: str
    level: str
    text: str
    raw: str
    is_break: bool = False
    source: str = ""
    """The name of its log, where several are merged."""
    fold: Fold | None = None
    """The traceback that begins in this row."""
    hidden: int = 0
    """Its lines that are not seen; 0 where it is open."""
    day: str = ""
    """Such as `11-30`, where it says one."""

    @property
    def style(self) -> str:
        """How the text looks."""
        return "debug" if self.hidden and self.fold is not None and self.fold.is_wrapper else self.level

    @property
    def rank(self) -> str:
        rank = rank_of(self.process)
        return "" if rank is None else str(rank)


def row_of_line(line: LogLine, most: int = MOST_CHARACTERS, sources: Sequence[str] = ()) -> ShownRow:
    """At most so many characters of it. `sources` are the names of the logs, where several are merged."""
    raw = clean(line.text, most)
    row = _row(line.number, raw, read_line(raw), line.layer, line.process, line.level)
    return row._replace(source=sources[line.source]) if sources else row


def folded_row(row: ShownRow, fold: Fold, hidden: int, glyphs: Glyphs) -> ShownRow:
    """The first row of a traceback: closed, with so many lines hidden, or open where it is 0."""
    if not hidden:
        return row._replace(fold=fold, text=f"{glyphs.opened} {row.text}")
    words = "wrapper: " if fold.is_wrapper else ""
    return row._replace(fold=fold, hidden=hidden, level="error", text=f"{glyphs.running} {words}{clean(fold.text)}")


def row_of_text(text: str, source: str = "") -> ShownRow:
    """A line that is not indexed yet."""
    raw = clean(text)
    read = read_line(raw)
    layer = layer_of_record(read, read.message, (), None, None, read.process)
    return _row(None, raw, read, layer, read.process, read.level)._replace(source=source)


def row_of_break(happened: Break) -> ShownRow:
    return ShownRow(None, "", "unknown", "", "info", happened.words, happened.words, is_break=True)


def _row(number: int | None, raw: str, read: Line, layer: str, process: str | None, level: str | None) -> ShownRow:
    found = _CLOCK.search(read.time or read.stamp or "")
    day, clock = ("", "") if found is None else (found[1] or "", found[2])
    text = f"{read.file.rpartition('/')[2]}: {read.message}" if read.file else read.message
    return ShownRow(number, clock, layer, process or "", LEVELS.get(level or "", "info"), text, raw, day=day)
