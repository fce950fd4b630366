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
_Key = tuple[str | None, str | None, int | None]


@dataclass
class Group:
    """The records of one attempt, in the order of the log."""

    source: str | None
    records: list[Record] = field(default_factory=list)
    model: str | None = None
    pid: int | None = None
    is_server: bool = False
    has_banner: bool = False
    engines: set[_Key] = field(default_factory=set)

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

    has_frontend_pid: bool = False


def grouped(records: Iterable[Record]) -> list[Group]:
    """The attempts that `records` tell of, in the order in which they begin."""
    grouping = _Grouping()
    for record in sorted(records, key=lambda one: (one.first_line, one.last_line)):
        grouping.take(record)
    return grouping.groups


class _Grouping:
    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._of_process: dict[_Key, Group] = {}
        self._last: dict[str | None, Group] = {}
        """Of each container: the group of its last record."""

    def take(self, record: Record) -> None:
        key = (record.source, record.process, record.pid)
        if _is_banner(record):
            group = self._of_banner(record, key)
        elif _is_engine(record):
            group = self._of_engine(record, key)
        else:
            group = self._of_other(record, key)
        if record.process is not None and record.pid is not None and not record.is_process_inferred:
            self._of_process[key] = group
        self._last[record.source] = group
        group.add(record)

    def _of_banner(self, record: Record, key: _Key) -> Group:
        """A front end begins. What it printed before its banner is its own."""
        known = self._of_process.get(key) if record.pid is not None else self._last.get(record.source)
        if known is None and record.pid is not None:
            last = self._last.get(record.source)
            known = last if last is not None and last.pid is None else None
        if known is not None and not known.has_banner and not known.engines and not _has_failed(known):
            known.has_banner = True
            return known
        if known is not None:  # the same process tag and pid again: a container was started anew
            self._of_process = {one: group for one, group in self._of_process.items() if group is not known}
        group = self._new(record)
        group.has_banner = True
        return group

    def _of_engine(self, record: Record, key: _Key) -> Group:
        """An engine begins: of the attempt that has none yet and wants this model, or beside its data-parallel kin."""
        model = record.facts.get("engine.model")
        mine = [group for group in reversed(self.groups) if group.source == record.source]
        waiting = [group for group in mine if not group.engines and not _has_failed(group)]
        fitting = [group for group in waiting if model is None or group.model in (None, model)]
        kin = [group for group in mine if _are_kin(group.engines, key) and group.model in (None, model)]
        group = next(iter([*fitting, *waiting[:1], *kin]), None) or self._new(record)
        group.engines.add(key)
        return group

    def _of_other(self, record: Record, key: _Key) -> Group:
        known = self._of_process.get(key) if record.process is not None else None
        last = self._last.get(record.source)
        model = record.facts.get("engine.model")
        if model is not None and record.enters == "weight_load":
            named = [one for one in reversed(self.groups) if one.source == record.source and one.model == model]
            return next(iter(named), known or last) or self._new(record)
        if known is None and record.process is not None and layer_of_process(record.process) == "worker":
            begun = [one for one in reversed(self.groups) if one.source == record.source and one.engines]
            known = next(iter(begun), None)
        if known is None and record.process is not None and layer_of_process(record.process) == "frontend":
            known = last if last is not None and not last.has_frontend_pid else None
            return known or self._new(record)
        return known or last or self._new(record)

    def _new(self, record: Record) -> Group:
        group = Group(record.source)
        self.groups.append(group)
        return group


def _is_banner(record: Record) -> bool:
    return record.enters == "config" and "engine.vllm_version" in record.facts


def _is_engine(record: Record) -> bool:
    return record.enters == "engine_build" and "engine.vllm_version" in record.facts


def _has_failed(group: Group) -> bool:
    """Whether the group's last word was an uncaught exception: what comes next is another start."""
    last = group.records[-1] if group.records else None
    return last is not None and bool(last.chains) and last.format is None


def _are_kin(engines: set[_Key], key: _Key) -> bool:
    """Whether `key` is another engine of the same data-parallel group: the same tag with another number."""
    tag = _NUMBER.sub("", key[1] or "")
    return bool(tag) and all(
        one != key and one[1] != key[1] and _NUMBER.sub("", one[1] or "") == tag for one in engines
    )
