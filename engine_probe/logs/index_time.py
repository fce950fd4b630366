"""Times in log lines and in what a person asks for.

vLLM prints no year and no zone, and a log that goes over New Year goes backwards: times are compared as text of
month, day and clock, and a bound without a date holds on every day.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from engine_probe.logs.index_stamps import Ends

_STAMP_OF_LINE = re.compile(rb"\n(?:[^\n]{0,160}?(\d\d-\d\d)[ T](\d\d:\d\d:\d\d))?")
_DATE_AND_CLOCK = re.compile(r"(?:\d{4}-)?(\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?", re.ASCII)
_CLOCK = re.compile(r"(\d\d:\d\d)(:\d\d)?", re.ASCII)
_AGO = re.compile(r"(\d+)(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Bound:
    """`stamp` is `MM-DD HH:MM:SS`, or `HH:MM:SS` for a time of any day."""

    stamp: bytes

    @property
    def has_date(self) -> bool:
        return len(self.stamp) > 8

    def of(self, day: bytes, clock: bytes) -> bytes:
        """What to compare with `stamp`."""
        return day + b" " + clock if self.has_date else clock


@dataclass(frozen=True)
class Span:
    """From `since` to `until`, both included; None is open."""

    since: Bound | None = None
    until: Bound | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    @property
    def has_dates(self) -> bool:
        return all(bound is None or bound.has_date for bound in (self.since, self.until))

    def holds(self, day: bytes, clock: bytes) -> bool:
        return self.side(day, clock) == 0

    def side(self, day: bytes, clock: bytes) -> int:
        """-1 before the span, 0 in it, 1 behind it."""
        if self.since is not None and self.since.of(day, clock) < self.since.stamp:
            return -1
        return int(self.until is not None and self.until.of(day, clock) > self.until.stamp)


class TimeFilter:
    """Says of each line whether it is in a span; a line without a time goes with the one before it."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._known: dict[tuple[bytes, bytes], bool] = {}
        self.last = span.since is None
        """Of the last line; before the first time of a log, what has no beginning holds."""

    def mask(self, block: bytes) -> bytes:
        """One byte a line of a block that begins with the line end before it."""
        mask = bytearray()
        for stamp in _STAMP_OF_LINE.findall(block):
            if stamp[0]:
                held = self._known.get(stamp)
                if held is None:
                    held = self._known[stamp] = self.span.holds(*stamp)
                self.last = held
            mask.append(self.last)
        return bytes(mask)


class BlockTimes:
    """Earliest and latest time of each block, so that lines are looked at only where a span begins and ends."""

    def __init__(self) -> None:
        self._ends: list[Ends | None] = []

    def add(self, ends: Ends | None) -> None:
        self._ends.append(ends)

    def drop_last(self) -> None:
        self._ends.pop()

    def verdict(self, number: int, span: Span) -> bool | None:
        """Whether all lines of a block are in `span`, or none; None: they must be looked at.

        Processes write past one another, so the blocks before and behind must agree.
        """
        around = [ends for ends in self._ends[max(0, number - 1) : number + 2] if ends is not None]
        if number == 0 or self._ends[number] is None or len(around) < 2:
            return None  # the first lines of a log may be before its first time
        days = {day for ends in around for day in (ends[0], ends[2])}
        if len(days) > 1 and not span.has_dates:
            return None
        sides = {span.side(*stamp) for ends in around for stamp in (ends[:2], ends[2:])}
        return sides == {0} if len(sides) == 1 else None


def parse_time(text: str, option: str, now: float | None = None) -> Bound:
    """A bound from `HH:MM[:SS]`, `MM-DD [HH:MM[:SS]]`, `YYYY-MM-DD …` or an age such as `10m`. Raises InputError."""
    at_end = ":59" if option == "--until" else ":00"
    if found := _CLOCK.fullmatch(text):
        return Bound((found[1] + (found[2] or at_end)).encode())
    if found := _DATE_AND_CLOCK.fullmatch(text):
        clock = found[2] or ("23:59" if option == "--until" else "00:00")
        return Bound(f"{found[1]} {clock}{found[3] or at_end}".encode())
    if found := _AGO.fullmatch(text):
        moment = (time.time() if now is None else now) - int(found[1]) * _SECONDS[found[2]]
        try:
            return Bound(time.strftime("%m-%d %H:%M:%S", time.localtime(moment)).encode())
        except (OverflowError, ValueError, OSError):
            pass
    raise InputError(f"{option} {text}: no time; write 10:11, 10:11:12, 03-02 10:11, 2026-03-02, or an age such as 10m")
