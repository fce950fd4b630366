"""One log that is looked at: indexed and followed a step at a time, with what is wanted, what is found, and counts.

Nothing here draws and nothing here waits: `step` works for some milliseconds and says whether there is more to do.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from engine_probe.logs.folds import Folds
from engine_probe.logs.follow import FollowedLog
from engine_probe.logs.index import open_log
from engine_probe.logs.index_search import compile_pattern
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.merged import MergedIndex
from engine_probe.logs.roots import Roots
from engine_probe.logs.spooled import open_sources
from tui.log_errors import ErrorLines
from tui.log_folding import Folding
from tui.log_found import Found
from tui.log_rows import Rows
from tui.log_wanted import WantedLines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from engine_probe.logs.folds import Fold
    from engine_probe.logs.follow import Break, Follower
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.index_search import Search
    from engine_probe.logs.index_selection import Selection
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.merged_search import MergedSearch
    from engine_probe.logs.roots import Cause
    from engine_probe.logs.sources import Source

STEP_SECONDS = 0.02
_REST = 10
"""A derived value that took a while to compute is left alone for ten times as long."""
_PIECE_LINES = 500
_WANT_SECONDS = 0.03
"""For another filter, before it goes on between keys."""


class OpenedLog:
    """`followed` says what happens to what `index` reads; `label` is how a person calls the log.

    `sources`: short names, where several are merged. `close` closes it all.
    """

    def __init__(
        self, index: LogIndex | MergedIndex, followed: Follower, label: str, sources: Sequence[str] = ()
    ) -> None:
        self.index = index
        self.label = label
        self.sources = tuple(sources)
        self._followed = followed
        self.wanted = Wanted()
        self.has_been_read = False
        """Whether the end of the file has been reached since it was opened or cut."""
        self.generation = 0
        """Changes when line numbers no longer mean the same lines."""
        self.stage_changes: list[tuple[int, str]] = []
        self.models: list[str] = []
        """Names of all models that were loaded, in order."""
        self._folds = index.folds() if isinstance(index, MergedIndex) else Folds(index)
        self._roots = index.roots() if isinstance(index, MergedIndex) else Roots(index)
        self._errors = ErrorLines(index, self._roots)
        self.folding = Folding(self._folds)
        self._folded_of: object = None
        self._selection: Selection | None = None
        self._rows = Rows(index, None, followed)
        self.wants_causes = False
        """Whether root causes are looked for at once, not only when there is nothing else to do."""
        self.causes_are_known = False
        self._wanted_lines = WantedLines(index)
        self._selected_for: object = None
        self.derived_at_count = self._stages_at = -1
        """How many lines the filter, and the stages, are of."""
        self._not_before = 0.0
        self.pattern: re.Pattern[str] | None = None
        """What is searched for."""
        self._search: Search | MergedSearch | None = None
        self._search_text = ""
        self.narrows = False
        """Only lines that match are wanted."""
        self._matches: Selection | None = None
        self._matches_of = (-1, -1)
        self._search_is_complete = False

    @classmethod
    def of_file(cls, path: Path, label: str = "") -> OpenedLog:
        """A file, also one that is still being written. Raises InputError when it is none that can be read."""
        index = open_log(path)
        return cls(index, FollowedLog(path, index), label or path.name)

    @classmethod
    def of_sources(cls, sources: Sequence[Source], stdin: int = 0) -> OpenedLog:
        """Files, programs and standard input (read from `stdin`), followed. Raises InputError where one is none."""
        opened = open_sources(sources, stdin=stdin)
        if len(opened) == 1:
            label = opened[0].name if sources[0].kind == "file" else sources[0].label
            return cls(opened[0].log, opened[0].followed, "standard input" if label == "-" else label)
        merged = MergedIndex(opened)
        names = [one.name for one in opened]
        return cls(merged, merged, " + ".join(names) if len(names) < 3 else f"{len(names)} logs", names)

    @property
    def shown_label(self) -> str:
        """One of several logs may be shown alone."""
        source = self.wanted.source
        return self.label if source is None else f"{self.sources[source]}, {source + 1} of {len(self.sources)}"

    def close(self) -> None:
        self._followed.close()

    # Working

    def step(self, seconds: float = STEP_SECONDS) -> bool:
        """Go on with whatever there is to do; True when there is more."""
        breaks = self._followed.poll()
        if any(happened.kind == "cut" for happened in breaks):
            self._forget()
        if self.index.advance(seconds):
            self.has_been_read = True
        if self._search is not None:
            self._search_is_complete = self._search.advance(seconds / 2) and self.index.is_complete
        has_more = not self.index.is_complete
        has_more |= not self._folds.advance(seconds / 2)
        has_more |= self._derive() or not (self._search is None or self._search_is_complete)
        if self.wants_causes or not has_more:
            self.causes_are_known = self._roots.advance(seconds / 2) and self.index.is_complete
            has_more |= not self.causes_are_known
        return has_more

    def _forget(self) -> None:
        self.generation += 1
        self._errors.told = ()
        self.has_been_read = False
        self._selection, self._matches = None, None
        self.folding.forget()
        self._fold()
        self._wanted_lines.forget()
        self.derived_at_count = self._stages_at = -1
        self._not_before = 0.0
        self._matches_of = (-1, -1)
        self.stage_changes, self.models = [], []
        self.causes_are_known = False

    def _derive(self, seconds: float = STEP_SECONDS) -> bool:
        """Filter, counts and stages of the lines that came; one piece at a call. True when there are more."""
        began, lines = time.monotonic(), self._wanted_lines
        if not lines.is_selected:
            if began < self._not_before:
                return False
            if not lines.select(seconds):
                return True
            self._select()
        elif not lines.is_counted:
            lines.count(seconds)
        elif self._stages_at != self.index.line_count:
            self._find_stages()
        else:
            return self._fold_again(began)
        self._rest(began)
        return True

    def _fold_again(self, began: float) -> bool:
        """Other lines are hidden by now."""
        if self._folded_of != self.folding.state and began >= self._not_before:
            self._fold()
            self._rest(began)
        return False

    def _rest(self, began: float) -> None:
        self._not_before = max(self._not_before, time.monotonic()) + _REST * (time.monotonic() - began)

    def _select(self) -> None:
        self._selection = self._wanted_lines.selection()
        self.derived_at_count = self.index.line_count
        self._selected_for = self.wanted, self._search_text if self.narrows else None
        self._fold()

    @property
    def is_derived(self) -> bool:
        """Whether filter, counts and stages are of all lines that are indexed."""
        lines, is_folded = self._wanted_lines, self._folded_of == self.folding.state
        return lines.is_selected and lines.is_counted and is_folded and self._stages_at == self.index.line_count

    def _fold(self) -> None:
        self._folded_of = self.folding.state
        self._rows = Rows(self.index, self.folding.shown(self._selection), self._followed)

    def _find_stages(self) -> None:
        self._stages_at = self.index.line_count
        self.stage_changes = self.index.stage_changes()
        self.models = list(dict.fromkeys(name for _, name in self.index.models()))

    @property
    def counts(self) -> dict[str, int]:
        """Lines of each layer, by all other filters."""
        return self._wanted_lines.counts

    @property
    def indexed_percent(self) -> int:
        size = self.index.size_bytes
        if self.has_been_read or size == 0:
            return 100
        return min(99, self.index.indexed_bytes * 100 // size)

    @property
    def changed_at(self) -> float | None:
        """When its file was last written to, in seconds since 1970; None where it is not one file that is followed."""
        with suppress(OSError):  # closed
            return os.fstat(self._followed.log.file).st_mtime if isinstance(self._followed, FollowedLog) else None
        return None

    # Rows: the wanted lines, and a row for each break

    @property
    def is_filtered(self) -> bool:
        return self.narrows or self.wanted != Wanted()

    def want(self, wanted: Wanted) -> None:
        """What is shown stays as it is until the lines are found: at once, but for a log of a gigabyte."""
        self.wanted = wanted
        self._want_anew()

    def narrow(self, is_on: bool) -> None:
        """Whether only lines that match what is searched for are wanted."""
        self.narrows = is_on and self._search is not None
        self._want_anew()

    def _want_anew(self) -> None:
        self._wanted_lines.want(self.wanted, self._search if self.narrows else None)
        self._not_before, self._matches_of = 0.0, (-1, -1)
        self._derive(_WANT_SECONDS)

    @property
    def wanted_count(self) -> int:
        return self.index.line_count if self._selection is None else len(self._selection)

    @property
    def breaks(self) -> list[Break]:
        return self._followed.breaks

    @property
    def state_of_rows(self) -> object:
        """While it is the same, rows are only added."""
        return self.generation, self._selected_for, self._folded_of, len(self.breaks)

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def rows(self, start: int, stop: int) -> list[LogLine | Break]:
        """What stands in these rows."""
        return self._rows.read(start, stop)

    def row_of(self, line: int) -> int:
        """The row of a line, of the closed traceback that hides it, or where it would stand."""
        return self._rows.row_of(self.seen_as(line))

    def line_at(self, row: int) -> int:
        """The line in a row; of a break, the one behind it."""
        return self._rows.line_at(row)

    @property
    def all_wanted(self) -> Rows:
        """The wanted lines, as if no traceback were closed."""
        return Rows(self.index, self._selection, self._followed)

    def pieces(self) -> list[range]:
        """Rows of `all_wanted` in ranges that are quickly read."""
        count = len(self.all_wanted)
        return [range(at, min(at + _PIECE_LINES, count)) for at in range(0, count, _PIECE_LINES)]

    # Tracebacks: closed to one row, or open

    def seen_as(self, line: int) -> int:
        """The line itself, or the first one of the closed traceback that hides it."""
        fold = self.closed_at(line)
        return line if fold is None or self._is_headless(fold) else fold.first_line

    def closed_at(self, line: int) -> Fold | None:
        fold = self.folding.fold_at(line)
        return fold if fold is not None and self.folding.is_closed(fold) else None

    def _is_headless(self, fold: Fold) -> bool:
        return not self.is_wanted(fold.first_line)

    def is_wanted(self, line: int) -> bool:
        """Whether the filter lets it through."""
        wanted = self._selection
        return wanted is None or (line < wanted.line_count and wanted.mask[line] == 1)

    def hidden_count(self, fold: Fold) -> int:
        """Wanted lines that are not seen while it is closed."""
        if self._selection is None:
            return fold.hidden
        lines = slice(fold.first_line + 1, fold.last_line + 1)
        shown = self._rows.selection
        return self._selection.mask[lines].count(1) - (0 if shown is None else shown.mask[lines].count(1))

    def turn(self, fold: Fold) -> None:
        """Open it, or close it."""
        self.folding.turn(fold)
        self._fold()

    def turn_all(self) -> None:
        self.folding.turn_all()
        self._fold()

    def fold_lines(self, is_on: bool) -> None:
        """Off where all lines are to be seen as they are."""
        self.folding.turn_on(is_on)
        self._fold()

    # Finding: each returns a line, None where there is none; at the end it goes on at the other end

    def search(self, text: str) -> None:
        """An empty text ends it. Raises re.error where it is no regular expression."""
        self.pattern = re.compile(text) if text else None
        self._search = self.index.search(compile_pattern(text)) if text else None
        self._search_text = text
        self._search_is_complete = False
        self._matches, self._matches_of = None, (-1, -1)
        if self.narrows:
            self.narrow(bool(text))

    def found(self, marked: int | None) -> Found | None:
        matches = self._shown_matches()
        if matches is None:
            return None
        is_match = marked is not None and marked < matches.line_count and matches.mask[marked]
        at = matches.row_of(marked) + 1 if is_match and marked is not None else 0
        return Found(self._search_text, len(matches), at, self._search_is_complete)

    def _shown_matches(self) -> Selection | None:
        if self._search is None:
            return None
        state = (self._search.searched_lines, self.derived_at_count)
        if self._matches is None or self._matches_of != state:
            matches = self._search.selection()
            self._matches = matches if self._selection is None else matches & self._selection
            self._matches_of = state
        return self._matches

    def tail(self, count: int) -> list[tuple[int, str]]:
        """(number of its log, text) of the last lines, before they are indexed."""
        if isinstance(self.index, MergedIndex):
            return self.index.tail(count)
        return [(0, text) for text in self.index.tail(count)]

    def next_match(self, line: int) -> int | None:
        matches = self._shown_matches()
        if matches is None:
            return None
        found = matches.next_from(line + 1)
        return matches.next_from(0) if found is None else found

    def last_match(self, line: int) -> int | None:
        matches = self._shown_matches()
        if matches is None:
            return None
        found = matches.last_before(line)
        return matches.last_before(matches.line_count) if found is None else found

    def tell_causes(self, lines: Iterable[int]) -> None:
        """Lines that a diagnosis found: errors from now on, also where they have no such level."""
        self._errors.told = tuple(lines)

    def next_error(self, line: int) -> int | None:
        return self._errors.behind(line, self._selection)

    def last_error(self, line: int) -> int | None:
        return self._errors.before(line, self._selection)

    def causes_between(self, line: int, stop: int) -> list[Cause]:
        """Root causes from `line` to `stop`, as far as they are known."""
        return [cause for cause in self._roots.causes if line <= cause.line < stop]

    def next_cause(self, line: int) -> int | None:
        """Of those found so far."""
        found = self._roots.next_from(line + 1)
        return self._roots.next_from(0) if found is None else found

    def next_stage(self, line: int) -> int | None:
        starts = [first for first, _ in self.stage_changes]
        return next((first for first in starts if first > line), starts[0] if starts else None)
