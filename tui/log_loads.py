"""The loads that a log tells of: one of a model from its `config` on, in the log that it was printed to."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from engine_probe.logs.merged import MergedIndex

if TYPE_CHECKING:
    from engine_probe.logs.roots import Cause
    from tui.opened_log import OpenedLog

    Changes = list[tuple[int, str]]

_END = 1 << 60
"""Behind the last line of any log."""


def load_at(log: OpenedLog, line: int) -> Changes:
    """(first line, stage) of the load that `line` belongs to: from its `config` to the next one's.

    Where one of several logs is shown alone, of that log. Empty where no line of it tells a stage.
    """
    loads = _cut(changes_at(log, line))
    return next((load for load in reversed(loads) if load[0][0] <= line), loads[0] if loads else [])


def changes_at(log: OpenedLog, line: int) -> Changes:
    """Those of all loads in the log that `line` is of, or that is shown alone."""
    return _changes_of(log, source_at(log, line))


def source_at(log: OpenedLog, line: int) -> int:
    """The number of the log that is shown alone, else of the one that `line` is of."""
    if log.wanted.source is not None:
        return log.wanted.source
    count = log.index.line_count
    return _source_of(log, min(line, count - 1)) if count else 0


def _changes_of(log: OpenedLog, source: int) -> Changes:
    if not isinstance(log.index, MergedIndex):
        return log.stage_changes
    return [change for change in log.stage_changes if _source_of(log, change[0]) == source]


def _cut(changes: Changes) -> list[Changes]:
    """Into loads: one begins at each `config`."""
    begins = [at for at, (_, stage) in enumerate(changes) if stage == "config" and at > 0]
    bounds = [0, *begins, len(changes)] if changes else []
    return [changes[begin:end] for begin, end in pairwise(bounds)]


def end_of_load(log: OpenedLog, changes: Changes) -> int:
    """The line behind a load that `load_at` gave."""
    of_log = changes_at(log, changes[-1][0])
    at = of_log.index(changes[-1]) + 1
    return of_log[at][0] if at < len(of_log) else log.index.line_count


def has_error_behind(log: OpenedLog, line: int, stop: int) -> bool:
    """Whether an error stands between, in the log that `line` is of."""
    if isinstance(log.index, MergedIndex):
        return log.index.has_error(_source_of(log, line), line + 1, stop)
    found = log.index.next_error(line)
    return found is not None and found < stop


def cause_of_load(log: OpenedLog, changes: Changes, line: int) -> Cause | None:
    """The first root cause of a load that `load_at` gave for `line`; of a load without stages, the nearest before.

    None while none is known.
    """
    source = source_at(log, line)
    if not changes:
        causes = _causes_of(log, source, 0, _END)
        return next((cause for cause in reversed(causes) if cause.line <= line), causes[0] if causes else None)
    is_first = changes_at(log, line)[0] == changes[0]
    found = _causes_of(log, source, 0 if is_first else changes[0][0], end_of_load(log, changes))
    return found[0] if found else None


def _causes_of(log: OpenedLog, source: int, line: int, stop: int) -> list[Cause]:
    return [cause for cause in log.causes_between(line, stop) if _source_of(log, cause.line) == source]


def count_loads(log: OpenedLog) -> tuple[int, int]:
    """All loads of all logs, and how many of them failed; a cause in a log that tells no stage is a load."""
    changes: dict[int, Changes] = defaultdict(list)
    for change in log.stage_changes:
        changes[_source_of(log, change[0])].append(change)
    causes: dict[int, list[int]] = defaultdict(list)
    for cause in log.causes_between(0, _END):
        causes[_source_of(log, cause.line)].append(cause.line)
    count = failed = 0
    for source in changes.keys() | causes.keys():
        loads, lines = _cut(changes[source]), causes[source]
        begins = [load[0][0] for load in loads[1:]]
        count += len(loads) or len(lines)
        failed += len({bisect_right(begins, line) for line in lines}) if loads else len(lines)
    return count, failed


def _source_of(log: OpenedLog, line: int) -> int:
    return log.index.place_of(line)[0] if isinstance(log.index, MergedIndex) else 0
