"""One line of a case's events.jsonl ⇄ what it tells: what the state machine was fed, and from where it began.

`event` is an event's own kind, `decision:ApplyFix`, `done:RevisionWritten`, or one of `begun`, `resumed`, `left`,
`playbook` and `lines`, which this file describes.
"""

from __future__ import annotations

import dataclasses
import json
import time as clock
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine_probe import events
from engine_probe.events import Event
from engine_probe.redact import mask
from playbooks import decisions
from playbooks.plain import UnreadableError, from_plain, to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from playbooks.decisions import Decision
    from playbooks.effects import Done
    from playbooks.library import Loaded
    from playbooks.session import Session

    Playbook = Callable[[str], Loaded | None]
    Masked = Callable[[str], str]


@dataclass(frozen=True)
class Begun:
    """Where a case begins, or goes on after it was cut off (`is_resumed`)."""

    session: Session
    pid: int
    since: float
    """When that process began, in seconds since the epoch: another one may get its number."""
    file: str | None
    """The deployment's, with all links followed."""
    is_resumed: bool = False
    time: float = field(default_factory=clock.time)


@dataclass(frozen=True)
class Kept:
    """A playbook as it was: it may be another later, or gone."""

    id: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Lines:
    """So many lines of a load's log, which told the session nothing. `are_lost`: some of them would have."""

    model: str | None
    count: int
    are_lost: bool = False


@dataclass(frozen=True)
class Left:
    """The console let go of the case before its end."""

    time: float


@dataclass(frozen=True)
class At:
    """A decision, or what came of an effect, with its time."""

    time: float
    one: Decision | Done


Line = Event | At | Begun | Kept | Lines | Left


def line_of(one: Line, masked: Masked = mask) -> str:
    """One line of JSON, without the line end."""
    return json.dumps(_content(one, masked), ensure_ascii=False, separators=(",", ":"))


def _content(one: Line, masked: Masked) -> dict[str, Any]:
    if isinstance(one, Event):
        values = {name.name: getattr(one, name.name) for name in dataclasses.fields(one)}
        return {"event": one.event, **to_plain(values, masked)}
    if isinstance(one, Kept):
        return {"event": "playbook", "id": one.id, "spec": one.spec}
    if isinstance(one, At):
        kind = "decision" if is_decision(one.one) else "done"
        values = to_plain(one.one, masked)
        name = values.pop("$")
        return {"event": f"{kind}:{name}", "time": one.time, **values}
    values = to_plain(one, masked)
    values.pop("$")
    if isinstance(one, (Lines, Left)):
        return {"event": type(one).__name__.lower(), **values}
    values.pop("is_resumed", None)
    return {"event": "resumed" if one.is_resumed else "begun", **values}


def is_decision(one: object) -> bool:
    return type(one).__module__ == decisions.__name__


def read_line(text: str, playbook: Playbook) -> Line:
    """What one line tells. Raises UnreadableError for what this release does not know, or what is no JSON."""
    try:
        content = json.loads(text)
        name = content.pop("event")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError("a line that is no JSON object with `event`") from error
    if name in ("begun", "resumed"):
        return _begun({**content, "is_resumed": name == "resumed"}, playbook)
    if name == "playbook":
        return Kept(str(content.get("id")), content.get("spec") or {})
    if name == "left":
        return Left(float(content.get("time", 0)))
    if name == "lines":
        return Lines(content.get("model"), int(content.get("count", 0)), bool(content.get("are_lost")))
    if name.startswith(("decision:", "done:")):
        at = content.pop("time", 0.0)
        one: Any = from_plain({"$": name.partition(":")[2], **content}, playbook)
        return At(at, one)
    event = events.decode(json.dumps({"event": name, **content}))
    if event.event != name:
        raise UnreadableError(f"{name} is no event that this release knows")
    return event


def _begun(content: dict[str, Any], playbook: Playbook) -> Begun:
    known = {one.name for one in dataclasses.fields(Begun)}
    try:
        return Begun(**{key: from_plain(value, playbook) for key, value in content.items() if key in known})
    except TypeError as error:
        raise UnreadableError(f"where the case begins: {error}") from error
