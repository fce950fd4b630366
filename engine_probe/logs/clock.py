"""Seconds between the times that a log prints. vLLM's own has no year, so only differences mean something."""

from __future__ import annotations

import re

_TIME = re.compile(
    r"(?:\d{4}-)?(?P<month>\d\d)-(?P<day>\d\d)[ T]"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?"
)
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_YEAR_S = 366 * 86_400.0


def seconds_in_year(time: str | None) -> float | None:
    """Seconds since the year began, February having 29 days. None: no time, or one that is none."""
    found = _TIME.search(time) if time else None
    if found is None or not 1 <= int(found["month"]) <= 12:
        return None
    days = _DAYS_BEFORE[int(found["month"]) - 1] + int(found["day"]) - 1
    clock = int(found["hour"]) * 3600 + int(found["minute"]) * 60 + int(found["second"])
    return days * 86_400.0 + clock + (float(f"0.{found['part']}") if found["part"] else 0.0)


def elapsed_s(begin: float, end: float) -> float:
    """Seconds from `begin` to `end`, over New Year too; 0 where a clock went back a little."""
    difference = end - begin
    return difference + _YEAR_S if difference < -_YEAR_S / 2 else max(0.0, difference)
