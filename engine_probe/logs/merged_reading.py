"""Reads several logs so that none gets far ahead of the others' times, and puts their lines in order."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.logs.merged_order import Order
from engine_probe.logs.merged_times import LAST, Era, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.follow import Follower
    from engine_probe.logs.index import LogIndex

_BEFORE_ALL = -LAST


@dataclass(frozen=True)
class NamedLog:
    """One of several logs; `name` is short and its own."""

    name: str
    log: LogIndex
    followed: Follower


class Reading:
    """`order` grows with each `advance`."""

    def __init__(self, logs: Sequence[NamedLog], *, whole_lines: bool) -> None:
        self._logs = logs
        self._whole_lines = whole_lines
        self.order = Order(len(logs))
        self.start_over()

    def start_over(self) -> None:
        era = Era()
        self.order.clear()
        self._timelines = [Timeline(one.log, era) for one in self._logs]
        self._is_read = [False] * len(self._logs)
        """Whether all that was there at first is."""
        self._has_begun = False
        self.is_live = False
        """All was read that was there: what comes now is new."""

    def advance(self, until: float) -> bool:
        """True when all that is there by now is in order."""
        if not self.is_live:
            self._read_first(until)
        is_done = self.is_live and self._read_new(until)
        for timeline in self._timelines:
            timeline.forget_taken()
        return is_done

    def _read_first(self, until: float) -> None:
        if not self._has_begun:  # helpers of all start to work
            self._has_begun = True
            for one in self._logs:
                one.log.advance(0.0)
        while True:
            behind = self._take_certain(until)
            if behind is None:
                self.is_live = all(self._is_read) and all(line.next_time is None for line in self._timelines)
                return
            if not self._read_on(behind, until) or time.monotonic() >= until:
                return

    def _read_on(self, source: int, until: float) -> bool:
        """More of one log; False when there is none yet."""
        log, timeline = self._logs[source].log, self._timelines[source]
        before = timeline.line_count
        if timeline.read(self._stop(source), until) and timeline.line_count == before:
            log.advance(max(0.0, until - time.monotonic()))
            timeline.read(self._stop(source), until)
        if log.is_complete and timeline.line_count == self._stop(source) and self._logs[source].followed.has_begun:
            self._is_read[source] = True
            timeline.has_no_time()
        return self._is_read[source] or timeline.line_count > before

    def _stop(self, source: int) -> int:
        """Up to where lines can be taken: an unfinished one only where nothing follows it by now."""
        log = self._logs[source].log
        return log.line_count if log.is_complete and not self._whole_lines else log.whole_line_count

    def _read_new(self, until: float) -> bool:
        share = max(0.0, until - time.monotonic()) / len(self._logs)
        is_done = True
        for source, one in enumerate(self._logs):
            is_done &= one.log.advance(share)
            is_done &= self._timelines[source].read(self._stop(source), time.monotonic() + share)
        while self._take_certain(time.monotonic() + 1.0) is not None:
            pass
        return is_done

    def _take_certain(self, until: float) -> int | None:
        """Take the earliest stretches up to where a log must be read on, and return it; None at the end, or `until`."""
        waiting = [
            (self._earliest(source), source)
            for source in range(len(self._logs))
            if not self._is_read[source] or self._timelines[source].next_time is not None
        ]
        heapq.heapify(waiting)
        while waiting:
            _, source = waiting[0]
            timeline = self._timelines[source]
            if timeline.next_time is None:
                return source
            heapq.heappop(waiting)
            moment, other = waiting[0] if waiting else (LAST, len(self._logs))
            self.order.append(source, timeline.take(moment, included=source < other))
            if not self._is_read[source] or timeline.next_time is not None:
                heapq.heappush(waiting, (self._earliest(source), source))
            if time.monotonic() >= until:
                break
        return None

    def _earliest(self, source: int) -> int:
        """The time of the first line of a log that is not taken, or than which none can be earlier."""
        timeline = self._timelines[source]
        moment = timeline.reached if timeline.next_time is None else timeline.next_time
        return _BEFORE_ALL if moment is None else moment
