"""Frozen values of a session ⇄ what JSON can hold, so that a case on disk gives back what the state machine was fed.

A dataclass or named tuple is an object with `$`, its class, and the fields that are not as by default. Lists come
back as tuples. What is not of use offline is left out: how a command was written, a log's records, look-ups.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.events import Event, decode
from engine_probe.redact import mask
from playbooks.facts import lookup_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from playbooks.library import Loaded

_TAG = "$"
_MODULES = (
    "engine_probe.facts",
    "engine_probe.launch",
    "engine_probe.requests",
    "engine_probe.model_files.adapters",
    "engine_probe.logs.attempts",
    "engine_probe.logs.records",
    "engine_probe.logs.tracebacks",
    "playbooks.claims",
    "playbooks.progress",
    "playbooks.session",
    "playbooks.missing",
    "playbooks.diagnosis",
    "playbooks.decisions",
    "playbooks.effects",
)
_LEFT_OUT = frozenset(
    {
        ("Launch", "written"),
        ("Attempt", "records"),
        ("Record", "chains"),
        ("FoundCause", "lookup"),
        ("Raised", "frames"),
    }
)
_LONGEST_TEXT = 20_000


class UnreadableError(Exception):
    """A recorded value that this release cannot make sense of; str() says which."""


def to_plain(value: Any, masked: Callable[[str], str] = mask) -> Any:
    """`value` for JSON, all of its texts through `masked`."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return masked(value[:_LONGEST_TEXT])
    if isinstance(value, (Enum, Path)):
        return {_TAG: type(value).__name__, "value": value.value} if isinstance(value, Enum) else _path(value, masked)
    return _of_many(value, masked)


def _path(value: Path, masked: Callable[[str], str]) -> dict[str, str]:
    return {_TAG: "Path", "value": masked(str(value))}


def _of_many(value: Any, masked: Callable[[str], str]) -> Any:
    if isinstance(value, Event):
        content = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {_TAG: "Event", "value": {"event": value.event, **to_plain(content, masked)}}
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        fields = {name: to_plain(one, masked) for name, one in _told(value).items()}
        return {_TAG: type(value).__name__, **fields}
    if hasattr(value, "items"):
        return {masked(str(key)): to_plain(one, masked) for key, one in value.items()}
    return [to_plain(one, masked) for one in value]


def _told(value: Any) -> dict[str, Any]:
    """The fields that say something: not as by default, and of use offline. Of a playbook its id."""
    kind = type(value)
    found = {}
    for name, default in _fields(kind).items():
        one = getattr(value, name)
        if (kind.__name__, name) in _LEFT_OUT or (default is not _NEEDED and one == default):
            continue
        found[name] = one.id if kind.__name__ == "FoundCause" and name == "playbook" and one is not None else one
    return found


_NEEDED = object()


def _fields(kind: type) -> Mapping[str, Any]:
    """The fields of a dataclass or named tuple with their defaults."""
    if not dataclasses.is_dataclass(kind):
        defaults = kind._field_defaults  # type: ignore[attr-defined]
        return {name: defaults.get(name, _NEEDED) for name in kind._fields}  # type: ignore[attr-defined]
    found = {}
    for one in dataclasses.fields(kind):
        made = _NEEDED if one.default_factory is dataclasses.MISSING else one.default_factory()
        found[one.name] = made if one.default is dataclasses.MISSING else one.default
    return found


def from_plain(value: Any, playbook: Callable[[str], Loaded | None]) -> Any:
    """The value again. Raises UnreadableError for what this release does not know."""
    if isinstance(value, list):
        return tuple(from_plain(one, playbook) for one in value)
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: from_plain(one, playbook) for key, one in value.items()}
    name = value[_TAG]
    if name == "Path":
        return Path(value["value"])
    if name == "Event":
        return decode(json.dumps(value["value"]))
    fields = {key: from_plain(one, playbook) for key, one in value.items() if key != _TAG}
    return _made(name, fields, playbook)


def _made(name: str, fields: dict[str, Any], playbook: Callable[[str], Loaded | None]) -> Any:
    kind = _kinds().get(name)
    if kind is None:
        raise UnreadableError(f"{name} is nothing that this release knows")
    if name == "FoundCause":
        fields["playbook"] = playbook(fields["playbook"]) if fields.get("playbook") else None
        fields["lookup"] = lookup_for(None, fields.get("captured", {}))
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise UnreadableError(f"{name}: {error}") from error


@cache
def _kinds() -> Mapping[str, type]:
    found: dict[str, type] = {}
    for module in map(import_module, _MODULES):
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and (dataclasses.is_dataclass(kind) or issubclass(kind, (tuple, Enum))):
                found.setdefault(name, kind)
    return found
