"""Which records belong to which load attempt, where several models or several starts share one log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.logs.layers import layer_of_process

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.logs.records import Record

_MODEL_IN_ARGS = re.compile(
    r"^(?:non-default )?args: .*?(?:['{, (]model'?(?:: |=)|'model_tag': )'(?P<model>[^']+)'", re.DOTALL
)
_NUMBER = re.compile(r"\d+$")
_Pid = tuple[str | None, int]
_Engine = tuple[str | None, int | None]


@dataclass
class Group:
    """The records of one attempt, in the order of the log."""

    source: str | None
    records: list[Record] = field(default_factory=list)
    model: str | None = None
    pid: int | None = None
    is_server: bool = False
    has_banner: bool = False
    engines: set[_Engine] = field(default_factory=set)
    """Process tag and pid."""
    has_frontend_pid: bool = False

    def add(self, record: Record) -> None:
        self.records.append(record)
        told = record.facts.get("engine.model")
        if told is not None and (self.model is None or record.enters == "engine_build"):
            self.model = str(told)
        elif self.model is None and (args := _MODEL_IN_ARGS.match(record.message)):
            self.model = args["model"]
        layer = layer_of_process(record.process or "")
        self.is_server |= layer == "frontend" or record.format == "uvicorn" or _is_banner(record)
        if record.pid is not None and not record.is_process_inferred:
            if layer == "frontend" and not self.has_frontend_pid:
                self.pid, self.has_frontend_pid = record.pid, True
            elif layer == "engine" and self.pid is None:
                self.pid = record.pid


def grouped(records: Iterable[Record]) -> list[Group]:
    """The attempts that `records` tell of, in the order in which they begin."""
    grouping = Grouping()
    for record in sorted(records, key=lambda one: (one.first_line, one.last_line)):
        grouping.take(record)
    return grouping.in_order()


class Grouping:
    """Fed records in the order of their first lines."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._of_pid: dict[_Pid, Group] = {}
        self._last: dict[str | None, Group] = {}
        """Of each container: the group of its last record."""

    def in_order(self) -> list[Group]:
        """The attempts so far, in the order in which they begin."""
        return sorted((one for one in self.groups if one.records), key=lambda one: one.records[0].first_line)

    def take(self, record: Record) -> None:
        if _is_banner(record):
            group = self._of_banner(record)
        elif _is_engine(record):
            group = self._of_engine(record)
        else:
            group = self._of_other(record)
        if (pid := _pid_of(record)) is not None and not record.is_process_inferred:
            self._of_pid[pid] = group
        self._last[record.source] = group
        group.add(record)

    def _of_banner(self, record: Record) -> Group:
        """A front end begins. What it printed before its banner is its own."""
        pid = _pid_of(record)
        last = self._last.get(record.source)
        known = self._of_pid.get(pid) if pid is not None else last
        if known is None and last is not None and last.pid is None:
            known = last
        if known is not None and not known.has_banner and not known.engines and not _has_failed(known):
            known.has_banner = True
            return known
        if known is not None:  # the same pid again: a container was started anew
            self._of_pid = {one: group for one, group in self._of_pid.items() if group is not known}
        group = self._new(record)
        group.has_banner = True
        return group

    def _of_engine(self, record: Record) -> Group:
        """An engine begins: of the attempt that has none yet and wants this model, or beside its data-parallel kin."""
        key = (record.process, record.pid)
        model = record.facts.get("engine.model")
        mine = [group for group in reversed(self.groups) if group.source == record.source]
        waiting = [group for group in mine if not group.engines and not _has_failed(group)]
        fitting = [group for group in waiting if model is None or group.model in (None, model)]
        kin = [group for group in mine if _are_kin(group.engines, key) and group.model in (None, model)]
        group = next(iter([*fitting, *waiting[:1], *kin]), None) or self._new(record)
        group.engines.add(key)
        return group

    def _of_other(self, record: Record) -> Group:
        pid, last = _pid_of(record), self._last.get(record.source)
        known = self._of_pid.get(pid) if pid is not None else None
        mine = [group for group in reversed(self.groups) if group.source == record.source]
        layer = layer_of_process(record.process or "")
        if record.enters == "weight_load" and (model := record.facts.get("engine.model")) is not None:
            named = next((group for group in mine if group.model == model), None)
            if named is not None and known is not None and named is not known and layer == "worker":
                _move(pid, known, named)  # what the worker printed before it told its model
            known = named or known
        elif known is None and layer == "worker":
            known = next((group for group in mine if group.engines), None)
        elif known is None and layer == "frontend":
            known = last if last is not None and not last.has_frontend_pid else self._new(record)
        return known or last or self._new(record)

    def _new(self, record: Record) -> Group:
        group = Group(record.source)
        self.groups.append(group)
        return group


def _pid_of(record: Record) -> _Pid | None:
    return (record.source, record.pid) if record.process is not None and record.pid is not None else None


def _move(pid: _Pid | None, old: Group, new: Group) -> None:
    moved = [record for record in old.records if _pid_of(record) == pid]
    old.records = [record for record in old.records if _pid_of(record) != pid]
    new.records = sorted([*new.records, *moved], key=lambda one: (one.first_line, one.last_line))


def _is_banner(record: Record) -> bool:
    return record.enters == "config" and "engine.vllm_version" in record.facts


def _is_engine(record: Record) -> bool:
    return record.enters == "engine_build" and "engine.vllm_version" in record.facts


def _has_failed(group: Group) -> bool:
    """Whether the group's last word was an uncaught exception: what comes next is another start."""
    last = group.records[-1] if group.records else None
    return last is not None and bool(last.chains) and last.format is None


def _are_kin(engines: set[_Engine], other: _Engine) -> bool:
    """Whether `other` is another engine of the same data-parallel group: the same tag with another number."""
    tag = _NUMBER.sub("", other[0] or "")
    return bool(tag) and all(one[0] != other[0] and _NUMBER.sub("", one[0] or "") == tag for one in engines)
