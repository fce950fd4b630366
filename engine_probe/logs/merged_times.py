"""The times of one log's lines, as stretches of lines at one time: what several logs are merged by.

A line without a time goes with the line before it, those before the first time with that time. A log's own order is
kept: a time before the one above it counts as that one, and more than half a year back is the next year.
"""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_left, bisect_right
from itertools import groupby
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import CONTINUES, without_colours

if TYPE_CHECKING:
    from engine_probe.logs.index import LogIndex

LAST = (1 << 62) - 1
"""The time of lines whose log tells none: behind all others."""
_STAMP = rb"(?:\d{4}-)?(\d\d-\d\d[ T]\d\d:\d\d:\d\d)"
_AT_START = re.compile(rb'\n(?:(?:\([^()\n]{1,160}\) ){0,2}(?:[A-Z]{4,8}:? |\{"asctime": ")?\[?' + _STAMP + rb")?")
_ANYWHERE = re.compile(rb"\n(?:[^\n]{0,160}?" + _STAMP + rb")?")
_DAY = 86_400
_YEAR = 12 * 31 * _DAY
"""Only the order counts, so every month has 31 days."""
_MOST_REMEMBERED = 10_000
_MOST_CONSUMED = 4096


class Era:
    """The time at which the first of several logs begins: the others' years, which nobody prints, are next to it."""

    def __init__(self) -> None:
        self.first: int | None = None

    def year_of(self, moment: int) -> int:
        """-1, 0 or 1."""
        if self.first is None:
            self.first = moment
        return round((self.first - moment) / _YEAR)


class Timeline:
    """Stretches of one log that are read and not taken yet; `reached` is the time that no later line goes behind."""

    def __init__(self, log: LogIndex, era: Era) -> None:
        self._log, self._era = log, era
        self._pattern = _AT_START
        self._ends, self._times = array("Q"), array("q")
        self._consumed = 0
        """Stretches that are taken."""
        self._minutes: dict[bytes, int | None] = {}
        self._year = 0
        self.line_count = 0
        """Lines whose times are read."""
        self.reached: int | None = None

    # Reading

    def read(self, stop: int, until: float) -> bool:
        """The times of the lines before `stop`, a block at a time; False when `until` came first."""
        while self.line_count < stop:
            self._read_block(stop)
            if time.monotonic() >= until:
                return self.line_count >= stop
        return True

    def _read_block(self, stop: int) -> None:
        number = self._log.blocks.number_of(self.line_count)
        lines = self._log.blocks.lines_of(number)
        content = b"\n" + without_colours(self._log.blocks.content(number))
        stamps: list[bytes] = self._pattern.findall(content)
        if self._pattern is _AT_START and not any(stamps):
            stamps = self._look_anywhere(content, lines)
        elif self._pattern is _ANYWHERE:
            stamps = self._of_records(stamps, lines)
        behind = min(lines.stop, stop)
        self._add(stamps[self.line_count - lines.start : behind - lines.start])
        self._extend(behind)  # what can no longer be read has no time

    def _look_anywhere(self, content: bytes, lines: range) -> list[bytes]:
        """Behind what a container or a person put in front of the lines; where that is so, it is so to the end."""
        stamps = self._of_records(_ANYWHERE.findall(content), lines)
        if any(stamps):
            self._pattern = _ANYWHERE
        return stamps

    def _of_records(self, stamps: list[bytes], lines: range) -> list[bytes]:
        """A bare line may speak of any time."""
        codes = self._log.columns(lines.start, lines.stop).codes
        return [b"" if code & CONTINUES else stamp for stamp, code in zip(stamps, codes, strict=False)]

    def _add(self, stamps: list[bytes]) -> None:
        for stamp, same in groupby(stamps):
            behind = self.line_count + len(list(same))
            moment = self._moment(stamp) if stamp else None
            if moment is not None:
                self._advance_to(moment)
            self._extend(behind)

    def _extend(self, behind: int) -> None:
        """The lines up to `behind` are at the time that is reached."""
        if self.reached is not None and behind > self.line_count:
            if self._consumed < len(self._times) and self._times[-1] == self.reached:
                self._ends[-1] = behind
            else:
                self._ends.append(behind)
                self._times.append(self.reached)
        self.line_count = behind

    def _advance_to(self, moment: int) -> None:
        if self.reached is None:
            self._year = self._era.year_of(moment)
            self.reached = moment + self._year * _YEAR
            return
        if self.reached == LAST:
            return
        ahead = moment + self._year * _YEAR - self.reached
        if ahead < -_YEAR // 2:
            self._year += 1
            ahead += _YEAR
        elif ahead > _YEAR - _DAY:  # processes write past one another at New Year too
            return
        self.reached += max(ahead, 0)

    def _moment(self, stamp: bytes) -> int | None:
        """Seconds since the year began; None for what only looks like a time."""
        minute = stamp[:11]
        if minute not in self._minutes:
            if len(self._minutes) >= _MOST_REMEMBERED:
                self._minutes.clear()
            self._minutes[minute] = _seconds_of(minute)
        seconds = self._minutes[minute]
        return None if seconds is None else seconds + int(stamp[12:])

    def has_no_time(self) -> None:
        """All is read that was there. Where no line told a time, none ever will count."""
        if self.reached is None:
            self.reached = LAST
            if self.line_count:
                self._ends.append(self.line_count)
                self._times.append(LAST)

    # Taking

    @property
    def next_time(self) -> int | None:
        """Of the first stretch that is not taken; None when all are."""
        return self._times[self._consumed] if self._consumed < len(self._times) else None

    def take(self, moment: int, *, included: bool) -> int:
        """Take the stretches before `moment`, or at it too; returns the line behind them."""
        bisect = bisect_right if included else bisect_left
        self._consumed = bisect(self._times, moment, self._consumed)
        return self._ends[self._consumed - 1]

    def forget_taken(self) -> None:
        if self._consumed > _MOST_CONSUMED or self._consumed == len(self._times):
            del self._times[: self._consumed], self._ends[: self._consumed]
            self._consumed = 0


def _seconds_of(minute: bytes) -> int | None:
    month, day, hour = int(minute[:2]), int(minute[3:5]), int(minute[6:8])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24):
        return None
    return ((month * 31 + day) * 24 + hour) * 3600 + int(minute[9:]) * 60


def stamp_in(text: str) -> str:
    """`MM-DD HH:MM:SS` of a single line; empty where it tells none."""
    found = _ANYWHERE.match(b"\n" + text.encode("utf-8", "replace"))
    return found[1].replace(b"T", b" ").decode() if found and found[1] else ""
