"""How `logs --merge` prints: the lines of all sources in the order of their times, then what comes, as it comes."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.merged import MergedIndex
from engine_probe.logs.spooled import SpooledLog, open_sources

if TYPE_CHECKING:
    import re

    from engine_probe.logs.follow import Break, Follower
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.index_wanted import Wanted
    from engine_probe.logs.sources import Source
    from tui.commands.logs_print import Printer

_LOOK_SECONDS, _WAIT_SECONDS = 0.2, 0.05
_PIECE_LINES = 1000


class MergedReader:
    """Reads sources and hands the wanted lines to the printer, in order."""

    def __init__(
        self,
        sources: list[Source],
        wanted: Wanted,
        pattern: re.Pattern[bytes] | None,
        printer: Printer,
        *,
        follow: bool,
    ) -> None:
        """Raises InputError where a source cannot be read."""
        self._sources, self._wanted, self._printer, self._follow = sources, wanted, printer, follow
        self._merged = MergedIndex(open_sources(sources, follow=follow), whole_lines=follow)
        self._search = None if pattern is None else self._merged.search(pattern)
        self._looked_at = 0
        """Merged lines that are printed, or not wanted."""
        self._printed = [0] * len(sources)
        """The same for each source: after a cut the merge starts over, and nothing is printed twice."""

    def run(self) -> int:
        """Until all sources have ended. Raises InputError where a program failed; all it printed is printed first."""
        try:
            self._read_all()
            failures = [
                f"{source.label}: {why}" for source, why in zip(self._sources, self._failures(), strict=True) if why
            ]
        finally:
            self._merged.close()
        if failures:
            raise InputError("\n".join(failures))
        return 0

    def _read_all(self) -> None:
        state = (0, 0)
        while True:
            is_over = all(self._is_over(one.followed) for one in self._merged.logs)
            breaks = self._look() if self._follow else []
            is_complete = self._merged.advance()
            if is_complete:
                self._print()
                self._print_breaks(breaks)
                if is_over:
                    return
            last, state = state, (self._merged.indexed_bytes, self._merged.line_count)
            if state == last:
                time.sleep(_LOOK_SECONDS if is_complete else _WAIT_SECONDS)

    def _is_over(self, followed: Follower) -> bool:
        return followed.has_ended if isinstance(followed, SpooledLog) else not self._follow

    def _failures(self) -> list[str | None]:
        followed = [one.followed for one in self._merged.logs]
        return [one.failure if isinstance(one, SpooledLog) else None for one in followed]

    def _look(self) -> list[Break]:
        breaks = self._merged.poll()
        for happened in breaks:
            if happened.kind == "cut":
                self._looked_at = 0
                self._printed[self._number_of(happened)] = 0
        return breaks

    def _number_of(self, happened: Break) -> int:
        return [one.name for one in self._merged.logs].index(happened.source)

    def _print_breaks(self, breaks: list[Break]) -> None:
        for happened in breaks:
            if happened.kind != "ended":  # that is seen, or said at the end
                self._printer.broken(self._sources[self._number_of(happened)], replace(happened, source=""))

    def _print(self) -> None:
        count = self._merged.line_count
        if self._looked_at == count:
            return
        shown = self._merged.filter(self._wanted)
        if self._search is not None:
            while not self._search.advance():
                pass
            shown &= self._search.selection()
        first = shown.row_of(self._looked_at)
        for start in range(first, len(shown), _PIECE_LINES):
            self._print_lines(self._merged.lines_at(shown.rows(start, start + _PIECE_LINES)))
        self._looked_at = count
        self._printed = self._merged.taken

    def _print_lines(self, lines: list[LogLine]) -> None:
        own = [line._replace(number=self._merged.place_of(line.number)[1]) for line in lines]
        new = [line for line in own if line.number >= self._printed[line.source]]
        for source, together in groupby(new, key=lambda line: line.source):
            self._printer.lines(self._sources[source], list(together))
