"""Finds where error records begin, forwards and backwards, without a look at lines that are no errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import CONTINUES, LEVEL_BITS, LEVELS
from engine_probe.logs.index_keys import without_colours
from engine_probe.logs.index_selection import and_masks

if TYPE_CHECKING:
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.index_selection import Selection

_ERRORS = ("ERROR", "CRITICAL")
_IS_ERROR = bytes(code & LEVEL_BITS < len(LEVELS) and LEVELS[code & LEVEL_BITS] in _ERRORS for code in range(256))
_BEGINS_ERROR = bytes(is_error and not code & CONTINUES for code, is_error in enumerate(_IS_ERROR))
_RECORD_PREFIX = re.compile(rb"[^\]\n]{0,160}\]")
_WINDOW_LINES = 1 << 16
_MOST_REPEATS = 1000
"""Lines that repeat the prefix of the line above, which are looked up on disk; then a line counts as a record."""


class Errors:
    """Of one log; of the lines in `among` where it is given."""

    def __init__(self, log: LogIndex, among: Selection | None) -> None:
        self._log = log
        self._among = among
        self._repeats = 0

    def next_from(self, line: int) -> int | None:
        """The first record that begins at `line` or behind it."""
        for start in range(max(0, line), self._log.line_count, _WINDOW_LINES):
            mask = self._mask(start, start + _WINDOW_LINES)
            at = mask.find(1)
            while at >= 0:
                if not self._goes_on(start + at):
                    return start + at
                at = mask.find(1, at + 1)
        return None

    def last_before(self, line: int) -> int | None:
        """The last record that begins before `line`."""
        stop = min(line, self._log.line_count)
        while stop > 0:
            start = max(0, stop - _WINDOW_LINES)
            mask = self._mask(start, stop)
            at = mask.rfind(1)
            while at >= 0:
                if not self._goes_on(start + at):
                    return start + at
                at = mask.rfind(1, 0, at)
            stop = start
        return None

    def _mask(self, start: int, stop: int) -> bytes:
        among = None if self._among is None else self._among.mask[start:stop]
        if among is not None and 1 not in among:
            return b""
        errors = bytes(self._log.columns(start, stop).codes.translate(_BEGINS_ERROR))
        return errors if among is None or 1 not in errors else and_masks(errors, among)

    def _goes_on(self, line: int) -> bool:
        """Whether `line` is a later line of the error record above it: every line of a record repeats its prefix."""
        if line == 0 or self._repeats >= _MOST_REPEATS or not self._is_error(line - 1):
            return False
        self._repeats += 1
        return self.repeats(line)

    def _is_error(self, line: int) -> bool:
        is_among = self._among is None or (line < self._among.line_count and self._among.mask[line] == 1)
        return is_among and _IS_ERROR[self._log.columns(line, line + 1).codes[0]] == 1

    def repeats(self, line: int) -> bool:
        """Whether `line` is bare, or has the whole prefix of the line above it; not for the first."""
        if self._log.columns(line, line + 1).codes[0] & CONTINUES:
            return True
        lines = (without_colours(self._log.bytes_of(number)) for number in (line, line - 1))
        here, above = (_RECORD_PREFIX.match(text) for text in lines)
        return here is not None and above is not None and here[0] == above[0]
