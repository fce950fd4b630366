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
    from engine_probe.logs.index_selection import Selection
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
        self._told = [0] * len(sources)
        """How many breaks of each source are printed."""
        self.line_count = 0
        """Lines read, known at the end."""

    def run(self) -> int:
        """Until all sources have ended. Raises InputError where a program failed; all it printed is printed first."""
        try:
            self._read_all()
            failures = [
                f"{source.label}: {why}" for source, why in zip(self._sources, self._failures(), strict=True) if why
            ]
            self.line_count = self._merged.line_count
        finally:
            self._merged.close()
        if failures:
            raise InputError("\n".join(failures))
        return 0

    def _read_all(self) -> None:
        state = (0, 0)
        while True:
            is_over = all(self._is_over(one.followed) for one in self._merged.logs)
            if self._follow:
                self._look()
            is_complete = self._merged.advance()
            if is_complete:
                self._print()
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

    def _look(self) -> None:
        for happened in self._merged.poll():
            if happened.kind == "cut":
                self._looked_at = 0
                source = self._number_of(happened)
                self._printed[source] = self._told[source] = 0

    def _number_of(self, happened: Break) -> int:
        return [one.name for one in self._merged.logs].index(happened.source)

    def _print(self) -> None:
        """What was not printed yet, breaks in their places."""
        untold = self._untold()
        if self._looked_at == self._merged.line_count and not untold:
            return
        shown = self._merged.filter(self._wanted)
        if self._search is not None:
            while not self._search.advance():
                pass
            shown &= self._search.selection()
        for source, happened in untold:
            self._print_up_to(happened.line, shown)
            self._told[source] += 1
            if happened.kind != "ended":  # that is seen, or said at the end
                self._printer.broken(self._sources[source], replace(happened, source=""))
        self._print_up_to(self._merged.line_count, shown)
        self._printed = self._merged.taken

    def _untold(self) -> list[tuple[int, Break]]:
        told, untold = list(self._told), []
        for happened in self._merged.breaks:
            source = self._number_of(happened)
            if told[source] > 0:
                told[source] -= 1
            else:
                untold.append((source, happened))
        return untold

    def _print_up_to(self, line: int, shown: Selection) -> None:
        first, behind = shown.row_of(self._looked_at), shown.row_of(line)
        for start in range(first, behind, _PIECE_LINES):
            self._print_lines(self._merged.own_lines_at(shown.rows(start, min(behind, start + _PIECE_LINES))))
        self._looked_at = max(self._looked_at, line)

    def _print_lines(self, lines: list[LogLine]) -> None:
        new = [line for line in lines if line.number >= self._printed[line.source]]
        for source, together in groupby(new, key=lambda line: line.source):
            self._printer.lines(self._sources[source], list(together))
