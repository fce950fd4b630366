"""Finds the line of a time in a log of any size: by halves, so that only a few places of it are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.index_time import Bound, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.merged import MergedIndex

_STAMP = re.compile(r"(\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_LOOKED_AT_CHARACTERS = 200
_LOOKS = (1, 16, 256)
"""Lines around a place that are looked at for a time, until one has it."""

Stamp = tuple[str, str]
"""Day and clock."""


def asked_time(text: str) -> Bound | None:
    """What a person means by 10:11, 10:11:12, 03-02 10:11 and the like; None where it is no time."""
    try:
        return parse_time(text, "--since")
    except InputError:
        return None


def first_line_at(index: LogIndex | MergedIndex, bound: Bound, near: int) -> int | None:
    """The first line of that time or a later one; None where the log ends before. Without a date: on the day at `near`.

    A line without a time counts to the one before it. Where times go back, as from one log to another behind it, the
    line that is found is one of those at which that time is reached.
    """
    bound = _on_the_day_of(index, bound, near)
    low, high = 0, index.line_count
    while low < high:
        middle = (low + high) // 2
        stamp = stamp_at(index, middle)
        if stamp is not None and bound.of(stamp[0].encode(), stamp[1].encode()) >= bound.stamp:
            high = middle
        else:
            low = middle + 1
    return low if low < index.line_count else None


def _on_the_day_of(index: LogIndex | MergedIndex, bound: Bound, line: int) -> Bound:
    stamp = None if bound.has_date else stamp_at(index, line)
    return bound if stamp is None else Bound(stamp[0].encode() + b" " + bound.stamp)


def stamp_at(index: LogIndex | MergedIndex, line: int) -> Stamp | None:
    """Of the line, else of the nearest one before it, else behind it, as far as that is near."""
    for count in _LOOKS:
        found = _first_stamp(reversed(index.lines(max(0, line + 1 - count), line + 1)))
        if found is not None:
            return found
    return _first_stamp(index.lines(line, line + _LOOKS[-1]))


def _first_stamp(lines: Iterable[LogLine]) -> Stamp | None:
    for line in lines:
        found = _STAMP.search(line.text[:_LOOKED_AT_CHARACTERS])
        if found is not None:
            return found[1], found[2]
    return None
