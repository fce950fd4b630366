"""The load attempts in a log: which model, which stages and how long, how it ended, and the exception at the root.

Several models may load at once and one may start again in the same log. Stages are intervals: a log may visit them in
another order and processes overlap, so no failure is ever read from their order.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from engine_probe.logs.clock import elapsed_s, seconds_in_year
from engine_probe.logs.covers import Wrappers, read_wrappers
from engine_probe.logs.endings import Ending, ending_of
from engine_probe.logs.frames import stage_of_chains
from engine_probe.logs.grouping import Group, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Value
    from engine_probe.logs.records import Record
    from engine_probe.logs.tracebacks import Raised

Outcome = Literal["failed", "healthy", "incomplete"]


class Interval(NamedTuple):
    """One visit to a stage. `seconds` None: the lines carry no time. `process` None: the load as a whole."""

    stage: str
    first_line: int
    last_line: int
    seconds: float | None
    process: str | None = None
    pid: int | None = None


class Attempt(NamedTuple):
    """One try to load one model."""

    model: str | None
    pid: int | None
    """Of the front end, else of the engine."""
    version: str | None
    source: str | None
    first_line: int
    last_line: int
    outcome: Outcome
    stage: str | None
    """Where the root was printed; the last stage reached, where nothing failed."""
    visits: tuple[Interval, ...]
    """The load as a whole, in the order of the log; each ends where the next begins."""
    by_process: tuple[Interval, ...]
    facts: Mapping[str, Value]
    root: Raised | None = None
    """The earliest exception that is no cover message; None where none was printed."""
    root_record: Record | None = None
    """Where the root stands: the record of `root`, or the message that is all there is."""
    records: tuple[Record, ...] = ()

    def seconds(self) -> dict[str, float | None]:
        """Seconds by stage, all visits together, in the order first reached; None where the lines carry no time."""
        total: dict[str, float | None] = {}
        for visit in self.visits:
            so_far = total.get(visit.stage, 0.0)
            total[visit.stage] = None if so_far is None or visit.seconds is None else so_far + visit.seconds
        return total


def attempts(records: Iterable[Record], covers: Wrappers | None = None) -> list[Attempt]:
    """The attempts in `records`, in the order in which they begin."""
    covers = covers or read_wrappers()
    return [_attempt_of(group, covers) for group in grouped(records)]


def _attempt_of(group: Group, covers: Wrappers) -> Attempt:
    records = group.records
    ending = ending_of(records, covers, is_server=group.is_server)
    facts = {name: value for record in records for name, value in record.facts.items()}
    visits = _visits(records)
    version = facts.get("engine.vllm_version")
    return Attempt(
        model=group.model,
        pid=group.pid,
        version=None if version is None else str(version),
        source=group.source,
        first_line=records[0].first_line,
        last_line=max(record.last_line for record in records),
        outcome=ending.outcome,
        stage=_stage_at(ending, visits, records),
        visits=visits,
        by_process=_by_process(records),
        facts=facts,
        root=ending.root,
        root_record=ending.record,
        records=tuple(records),
    )


def _stage_at(ending: Ending, visits: tuple[Interval, ...], records: list[Record]) -> str | None:
    """The stage that the frames of the root tell, else the one under way where it was printed; the last one."""
    if ending.record is not None:
        is_marker = ending.record.role not in (None, "error")
        told = stage_of_chains(ending.record.chains) or (ending.record.stage if is_marker else None)
        if told is not None:
            return told
    line = ending.record.first_line if ending.record is not None else records[-1].last_line
    reached = [visit.stage for visit in visits if visit.first_line <= line]
    if reached:
        return reached[-1]
    # what dies before its first message dies while it is read and configured
    return "config" if ending.outcome == "failed" else None


def _visits(records: list[Record]) -> tuple[Interval, ...]:
    entered: list[tuple[str, int, float | None]] = []
    first = next((record for record in records if record.stage is not None), None)
    if first is not None and first.stage is not None:
        entered.append((first.stage, first.first_line, _time_at(records, first)))
    for record in records:
        if record.enters is not None and (not entered or entered[-1][0] != record.enters):
            entered.append((record.enters, record.first_line, _time_at(records, record)))
    return _intervals(entered, records, None, None)


def _by_process(records: list[Record]) -> tuple[Interval, ...]:
    of_process: dict[tuple[str | None, int | None], list[Record]] = {}
    for record in records:
        if record.process is not None:
            of_process.setdefault((record.process, record.pid), []).append(record)
    found: list[Interval] = []
    for (process, pid), own in of_process.items():
        entered: list[tuple[str, int, float | None]] = []
        for record in own:
            if record.enters is not None and (not entered or entered[-1][0] != record.enters):
                entered.append((record.enters, record.first_line, _time_at(own, record)))
        found += _intervals(entered, own, process, pid)
    return tuple(found)


def _intervals(
    entered: list[tuple[str, int, float | None]], records: list[Record], process: str | None, pid: int | None
) -> tuple[Interval, ...]:
    if not entered:
        return ()
    last = max(record.last_line for record in records)
    end = next((time for record in reversed(records) if (time := seconds_in_year(record.time)) is not None), None)
    found = []
    for (stage, line, time), (_, next_line, next_time) in zip(
        entered, [*entered[1:], ("", last + 1, end)], strict=True
    ):
        seconds = None if time is None or next_time is None else elapsed_s(time, next_time)
        found.append(Interval(stage, line, max(line, next_line - 1), seconds, process, pid))
    return tuple(found)


def _time_at(records: list[Record], record: Record) -> float | None:
    """The record's own time, else that of the record with a time that is nearest before it, else after it."""
    own = seconds_in_year(record.time)
    if own is not None:
        return own
    before = (one for one in reversed(records) if one.first_line < record.first_line)
    after = (one for one in records if one.first_line > record.first_line)
    return next((time for one in chain(before, after) if (time := seconds_in_year(one.time)) is not None), None)
