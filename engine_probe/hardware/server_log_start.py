"""Times in a log beside those of this host: where the lines of a process begin, and when one was printed."""

from __future__ import annotations

import os
import re
import time

from engine_probe.logs.clock import seconds_in_year

_STAMP = re.compile(rb"\d\d-\d\d \d\d:\d\d:\d\d")
_CLOSE_ENOUGH = 64 << 10
_LOOK_BYTES = 16 << 10
_YEAR_SECONDS = 366 * 86_400.0
"""As `seconds_in_year` counts."""
_SLACK_SECONDS = 5.0
_LONGEST_LOAD_SECONDS = 86_400.0


def stamp_of(seconds: float) -> bytes:
    """As vLLM prints a time: without a year, in the host's zone."""
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds)).encode()


def moment_of(stamp: str | None, started: float | None, now: float) -> float | None:
    """Seconds since the epoch of a time in a log; None where it cannot be of this host's zone and this process."""
    told = seconds_in_year(stamp)
    today = seconds_in_year(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)))
    if told is None or today is None:
        return None
    age = (today - told + _YEAR_SECONDS / 2) % _YEAR_SECONDS - _YEAR_SECONDS / 2
    oldest = _LONGEST_LOAD_SECONDS if started is None else now - started + _SLACK_SECONDS
    return min(now - age, now) if -_SLACK_SECONDS <= age <= oldest else None


def start_of(file: int, size: int, seconds: float | None) -> int:
    """An offset before the first line at or after `seconds`; 0 where that cannot be told."""
    if seconds is None:
        return 0
    wanted = stamp_of(seconds)
    low, high = 0, size
    while high - low > _CLOSE_ENOUGH:
        middle = (low + high) // 2
        found = _STAMP.search(os.pread(file, _LOOK_BYTES, middle))
        if found is None:
            return low  # without times nothing more is known
        if _is_before(found[0], wanted):
            low = middle
        else:
            high = middle
    return low


def _is_before(stamp: bytes, wanted: bytes) -> bool:
    """More than half a year apart, the later one is of the year before."""
    months_apart = abs(int(stamp[:2]) - int(wanted[:2]))
    return stamp > wanted if months_apart > 6 else stamp < wanted
