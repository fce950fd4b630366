"""All facts of one thing on the monitor, each with its unit and its source, or why it is not known."""

from __future__ import annotations

import time
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known, Unknown
from tui.widgets.clean_text import clean
from tui.widgets.words import cell, gib, lines, part, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

_UNITS = {
    "gib": "GiB",
    "percent": "%",
    "watts": "W",
    "celsius": "°C",
    "mhz": "MHz",
    "second": "MiB/s",
}
_ENDINGS = ("_gib", "_percent", "_watts", "_celsius", "_mhz", "_mib_per_second")
_NAME_CELLS, _VALUE_CELLS = 26, 24
_ONE = {"processes": "process", "slices": "slice", "disks": "disk", "memory": "memory split"}
_TIMES = ("started", "stage_since", "state_since")


def rows_of(thing: Any) -> list[tuple[str, str, str]]:
    """(name, value, source) of each field of a dataclass; of those that hold others, their fields too."""
    rows: list[tuple[str, str, str]] = []
    for one in fields(thing):
        value = getattr(thing, one.name)
        if isinstance(value, (Known, Unknown)):
            rows.append(_fact(one.name, value))
        elif one.name in _TIMES:
            rows.append((_words(one.name), _moment(value), ""))
        elif isinstance(value, tuple):
            rows += _several(one.name, value)
        elif value is not None and value != "":
            rows.append((_words(one.name), _plain(value), ""))
    return rows


def _several(name: str, values: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    if values and is_dataclass(values[0]):
        return [
            (f"{_ONE.get(name, name)} {number}: {label}", value, source)
            for number, one in enumerate(values)
            for label, value, source in rows_of(one)
        ]
    if values and isinstance(values[0], tuple):
        held = [(index, *_fact("held_gib", fact)) for index, fact in values]
        return [(f"GPU {index}: {label}", value, source) for index, label, value, source in held]
    return [(_words(name), " ".join(map(str, values)) or "none", "")]


def _fact(name: str, fact: Known | Unknown) -> tuple[str, str, str]:
    label, unit = _label_and_unit(name)
    if isinstance(fact, Unknown):
        return label, "?", f"not known: {fact.reason}"
    return label, f"{_plain(fact.value, is_size=unit == 'GiB')} {unit}".strip(), f"{fact.source}: {fact.origin}"


def _label_and_unit(name: str) -> tuple[str, str]:
    for ending in _ENDINGS:
        if name.endswith(ending):
            return _words(name.removesuffix(ending)), _UNITS[ending.rpartition("_")[2]]
    return _words(name), ""


def _plain(value: object, *, is_size: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return gib(value) if is_size else f"{value:,.1f}".removesuffix(".0")
    return str(value)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("gpu", "GPU").replace("kv", "KV").replace("rss", "RSS").replace("pss", "PSS")


def _moment(value: float | None) -> str:
    return "?" if value is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))


def draw_facts(rows: Sequence[tuple[str, str, str]], width: int) -> Content:
    """Where a value is long, or the place narrow, the source stands below it."""
    return lines([line for row in rows for line in _drawn(clean(row[0]), clean(row[1]), clean(row[2]), width)])


def _drawn(name: str, value: str, source: str, width: int) -> list[Content]:
    label = part(cell(name, _NAME_CELLS), "$quiet")
    style, room = "$warning" if value == "?" else "", width - _NAME_CELLS
    if len(value) < _VALUE_CELLS and _VALUE_CELLS + len(source) <= room:
        return [label + part(cell(value, _VALUE_CELLS), style) + part(source, "$quiet")]
    first, *more = wrapped(value, room, style=style) or [part("")]
    below = [part(" " * _NAME_CELLS) + row for row in more]
    return [label + first, *below, *(wrapped(source, width, _NAME_CELLS, "$quiet") if source else [])]


def reasons_of(thing: Any) -> str:
    """What is not known of it and why, in one line; each reason once."""
    by_reason: dict[str, list[str]] = {}
    for one in fields(thing):
        value = getattr(thing, one.name)
        if isinstance(value, Unknown):
            by_reason.setdefault(value.reason, []).append(_label_and_unit(one.name)[0])
    return "; ".join(f"{', '.join(names)} not known: {reason}" for reason, names in by_reason.items())
