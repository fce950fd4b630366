"""Where in a large log the lines of a process begin, by the time that it was started: a few reads for any size."""

from __future__ import annotations

import os
import re
import time

_STAMP = re.compile(rb"\d\d-\d\d \d\d:\d\d:\d\d")
_CLOSE_ENOUGH = 64 << 10
_LOOK_BYTES = 16 << 10


def stamp_of(seconds: float) -> bytes:
    """As vLLM prints a time: without a year, in the host's zone."""
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds)).encode()


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
