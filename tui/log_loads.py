"""The loads that a log tells of: one of a model from its `config` on, in the log that it was printed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.merged import MergedIndex

if TYPE_CHECKING:
    from engine_probe.logs.roots import Cause
    from tui.opened_log import OpenedLog

    Changes = list[tuple[int, str]]


def load_at(log: OpenedLog, line: int) -> Changes:
    """(first line, stage) of the load that `line` belongs to: from its `config` to the next one's."""
    changes = _changes_of_its_log(log, line)
    begins = [at for at, (_, stage) in enumerate(changes) if stage == "config"]
    behind = next((at for at in begins if changes[at][0] > line and at > 0), len(changes))
    begin = max((at for at in begins if at < behind), default=0)
    return changes[begin:behind]


def _changes_of_its_log(log: OpenedLog, line: int) -> Changes:
    index = log.index
    if not isinstance(index, MergedIndex) or not log.stage_changes:
        return log.stage_changes
    source, _ = index.place_of(min(line, index.line_count - 1))
    return [change for change in log.stage_changes if index.place_of(change[0])[0] == source]


def end_of_load(log: OpenedLog, changes: Changes) -> int:
    """The line behind a load that `load_at` gave."""
    of_log = _changes_of_its_log(log, changes[-1][0])
    at = of_log.index(changes[-1]) + 1
    return of_log[at][0] if at < len(of_log) else log.index.line_count


def has_error_behind(log: OpenedLog, line: int, stop: int) -> bool:
    """Whether an error stands between, in the log that `line` is of."""
    if isinstance(log.index, MergedIndex):
        return log.index.has_error(log.index.place_of(line)[0], line + 1, stop)
    found = log.index.next_error(line)
    return found is not None and found < stop


def cause_of_load(log: OpenedLog, line: int, stop: int) -> Cause | None:
    """The first root cause from `line` to `stop`, in the log that `line` is of; None while none is known."""
    index, found = log.index, log.causes_between(line, stop)
    if isinstance(index, MergedIndex):
        source = index.place_of(line)[0]
        found = [cause for cause in found if index.place_of(cause.line)[0] == source]
    return found[0] if found else None
