"""The stages of the load that is looked at, with how long each took by the log's own times."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from engine_probe.logs.lines import read_line
from engine_probe.stage_names import STAGES
from playbooks.session import StageTime
from tui.log_loads import (
    cause_of_load,
    changes_at,
    count_loads,
    end_of_load,
    has_error_behind,
    load_at,
    source_at,
)
from tui.widgets.clean_text import clean
from tui.widgets.stage_strip import draw_stages
from tui.widgets.words import Words, apart, part

if TYPE_CHECKING:
    from textual.content import Content

    from tui.opened_log import OpenedLog
    from tui.themes.glyphs import Glyphs

_STAMP = re.compile(r"(\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
State = Literal["not reached", "running", "done", "failed"]
_LOOKED_AT = 40
"""Lines behind a stage's first that are looked at for a time: a bare line has none."""
_SEVERAL = 2


def stage_times(log: OpenedLog, line: int) -> tuple[StageTime, ...]:
    """Of the load at `line`; seconds are None where the log does not tell. Empty where it tells of no load."""
    changes = load_at(log, line)
    failed = _failed_stage(log, changes, line)
    if not changes and failed is None:
        return ()
    first: dict[str, int] = {}
    seconds: dict[str, float | None] = {}
    for at, (start, stage) in enumerate(changes):
        first.setdefault(stage, start)
        if at + 1 < len(changes):
            seconds[stage] = _sum(seconds.get(stage, 0.0), _between(log, start, changes[at + 1][0]))
    states: dict[str, State] = dict.fromkeys(first, "done")
    if failed is not None:
        states[failed] = "failed"
    elif changes[-1][1] != "serving":
        states[changes[-1][1]] = "running"
    return tuple(StageTime(stage, states.get(stage, "not reached"), seconds.get(stage)) for stage in STAGES)


def _failed_stage(log: OpenedLog, changes: list[tuple[int, str]], line: int) -> str | None:
    """The stage of the root cause; until causes are known, the last stage where an error stands behind its line.

    `config` where neither the log nor the cause tells a stage.
    """
    last = changes[-1][1] if changes else "config"
    cause = cause_of_load(log, changes, line)
    if cause is not None:
        return cause.stage or last
    if not changes or log.causes_are_known or last == "serving":
        return None
    return last if has_error_behind(log, changes[-1][0], end_of_load(log, changes)) else None


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


def draw_load(stages: tuple[StageTime, ...], loads: tuple[int, int], whose: str, width: int, glyphs: Glyphs) -> Content:
    """One line; of several `loads`, how many there are and failed, and the log that this is of, where that fits."""
    row = draw_stages(stages, width, glyphs) if stages else part("no load stage seen", "$quiet")
    count, failed = loads
    if count < _SEVERAL:
        return row
    told = part(f"{count} loads", "$quiet") + part(f", {failed} failed" if failed else "", "$error")
    for right in (part(f"{clean(whose)} · ", "$quiet") + told, told):
        space = width - right.cell_length - 2
        for shown in (stages, _without_unreached_end(stages)):
            left = draw_stages(shown, space, glyphs) if shown else row
            if space > 0 and left.cell_length <= space and not left.plain.endswith("…"):
                return apart(left, right, width)
    return row


def _without_unreached_end(stages: tuple[StageTime, ...]) -> tuple[StageTime, ...]:
    """How many loads there are tells more than that serving was not reached."""
    return stages[:-1] if stages and stages[-1].state == "not reached" else stages


class LogStages(Words):
    """One line; computed again only when the load is another or goes on."""

    DEFAULT_CSS = "LogStages { height: 1; padding: 0 1; }"
    _known: tuple[object, tuple[StageTime, ...]] | None = None
    _counted: tuple[object, tuple[int, int]] | None = None

    def draw(self, log: OpenedLog, line: int) -> None:
        """`line`: what is looked at; behind the last one, the end."""
        source, changes = source_at(log, line), load_at(log, line)
        is_last = not changes or changes[-1] == changes_at(log, line)[-1]
        count = log.derived_at_count if is_last else 0
        state = (log.generation, changes, source, log.causes_are_known, count, changes or line)
        if self._known is None or self._known[0] != state:
            self._known = (state, stage_times(log, line))
        whose = log.sources[source] if log.sources else ""
        self.show(draw_load(self._known[1], self._loads(log), whose, self.size.width - 2, self.glyphs))

    def _loads(self, log: OpenedLog) -> tuple[int, int]:
        """Of all logs, where several are shown."""
        if not log.sources or log.wanted.source is not None:
            return 0, 0
        state = (log.generation, log.derived_at_count, len(log.stage_changes), log.causes_are_known)
        if self._counted is None or self._counted[0] != state:
            self._counted = (state, count_loads(log))
        return self._counted[1]
