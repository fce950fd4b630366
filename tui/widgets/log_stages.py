"""The stages of the load that is looked at, with how long each took by the log's own times."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from engine_probe.logs.lines import read_line
from engine_probe.stage_names import STAGES
from playbooks.session import StageTime
from tui.log_loads import cause_of_load, end_of_load, has_error_behind, load_at
from tui.widgets.stage_strip import draw_stages
from tui.widgets.words import Words, part

if TYPE_CHECKING:
    from tui.opened_log import OpenedLog

_STAMP = re.compile(r"(\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
State = Literal["not reached", "running", "done", "failed"]
_LOOKED_AT = 40
"""Lines behind a stage's first that are looked at for a time: a bare line has none."""


def stage_times(log: OpenedLog, line: int) -> tuple[StageTime, ...]:
    """Of the load at `line`; seconds are None where the log does not tell."""
    changes = load_at(log, line)
    if not changes:
        return ()
    first: dict[str, int] = {}
    seconds: dict[str, float | None] = {}
    for at, (start, stage) in enumerate(changes):
        first.setdefault(stage, start)
        if at + 1 < len(changes):
            seconds[stage] = _sum(seconds.get(stage, 0.0), _between(log, start, changes[at + 1][0]))
    last, failed = changes[-1][1], _failed_stage(log, changes)
    states: dict[str, State] = dict.fromkeys(first, "done")
    if failed is not None:
        states[failed] = "failed"
    elif last != "serving":
        states[last] = "running"
    return tuple(StageTime(stage, states.get(stage, "not reached"), seconds.get(stage)) for stage in STAGES)


def _failed_stage(log: OpenedLog, changes: list[tuple[int, str]]) -> str | None:
    """The stage of the root cause; until causes are known, the last stage where an error stands behind its line."""
    end, last = end_of_load(log, changes), changes[-1][1]
    cause = cause_of_load(log, changes[0][0], end)
    if cause is not None:
        return cause.stage or last
    if log.causes_are_known or last == "serving":
        return None
    return last if has_error_behind(log, changes[-1][0], end) else None


def _sum(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else one + two


def _between(log: OpenedLog, start: int, stop: int) -> float | None:
    begin, end = _time_at(log, start), _time_at(log, stop)
    return None if begin is None or end is None or end < begin else (end - begin).total_seconds()


def _time_at(log: OpenedLog, start: int) -> datetime | None:
    """vLLM prints no year: any one does for a difference."""
    for line in log.index.lines(start, start + _LOOKED_AT):
        read = read_line(line.text)
        found = _STAMP.search(read.time or read.stamp or "")
        if found:
            try:
                return datetime.strptime(f"2000-{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007
            except ValueError:
                return None
    return None


class LogStages(Words):
    """One line; computed again only when the load is another or goes on."""

    DEFAULT_CSS = "LogStages { height: 1; padding: 0 1; }"
    _known: tuple[object, tuple[StageTime, ...]] | None = None

    def draw(self, log: OpenedLog, line: int) -> None:
        changes = load_at(log, line)
        state = (
            log.generation,
            changes,
            log.causes_are_known,
            log.derived_at_count if changes == load_at(log, 1 << 60) else 0,
        )
        if self._known is None or self._known[0] != state:
            self._known = (state, stage_times(log, line))
        stages = self._known[1]
        width = self.size.width - 2
        self.show(draw_stages(stages, width, self.glyphs) if stages else part("no load stage seen", "$quiet"))
