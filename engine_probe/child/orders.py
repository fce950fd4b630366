"""The console's orders: one JSON object a line, checked before anything is done."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Union

_GRADES = ("dry", "warm", "cold")
_MOST_AT_ONCE = 1000


@dataclass(frozen=True)
class WarmOrder:
    """Import vLLM now, under `env`, with the model classes that the folders name."""

    model_dirs: list[str]
    env: dict[str, str]


@dataclass(frozen=True)
class LoadOrder:
    """Load one model. `hang_s`: seconds without progress after which it counts as hung; `conditions`: conditions.py."""

    model: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    grade: str
    keep_port: bool
    hang_s: float
    model_dirs: list[str]
    conditions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestOrder:
    """Send one HTTP request to a loaded model; without a body it is a GET."""

    model: str
    id: str
    path: str
    body: Any
    timeout_s: float


@dataclass(frozen=True)
class BurstOrder:
    """Send the same request from `at_once` threads, each again and again, for `seconds`."""

    model: str
    id: str
    path: str
    body: Any
    timeout_s: float
    at_once: int
    seconds: float


@dataclass(frozen=True)
class StopOrder:
    """End a load; with a reason it counts as failed."""

    model: str
    reason: str | None


@dataclass(frozen=True)
class OwnOrder:
    """Remove a folder of the console's own at the end."""

    folder: str


Order = Union[WarmOrder, LoadOrder, RequestOrder, BurstOrder, StopOrder, OwnOrder]


def parse(line: bytes) -> Order:
    """Raises ValueError that says what is wrong with the line."""
    content = json.loads(line)
    if not isinstance(content, dict):
        raise ValueError("an order is an object")
    kind = content.get("do")
    makers: dict[str, Callable[[dict[str, Any]], Order]]
    makers = {"warm": _warm, "load": _load, "request": _request, "burst": _burst, "stop": _stop, "own": _own}
    if not isinstance(kind, str) or kind not in makers:
        raise ValueError(f"no such order: {kind!r}")
    return makers[kind](content)


def _warm(content: dict[str, Any]) -> WarmOrder:
    return WarmOrder(_words(content, "model_dirs"), _env(content))


def _load(content: dict[str, Any]) -> LoadOrder:
    argv, grade = _words(content, "argv"), content.get("grade", "cold")
    if not argv:
        raise ValueError("argv is empty")
    if grade not in _GRADES:
        raise ValueError(f"no such grade: {grade!r}")
    return LoadOrder(
        model=_text(content, "model"),
        argv=argv,
        env=_env(content),
        cwd=_optional_text(content, "cwd") or os.path.expanduser("~"),
        grade=grade,
        keep_port=bool(content.get("keep_port", False)),
        hang_s=float(content.get("hang_s", 300.0)),
        model_dirs=_words(content, "model_dirs"),
        conditions=_conditions(content),
    )


def _request(content: dict[str, Any]) -> RequestOrder:
    return RequestOrder(
        model=_text(content, "model"),
        id=_text(content, "id"),
        path=_text(content, "path"),
        body=content.get("body"),
        timeout_s=float(content.get("timeout_s", 60.0)),
    )


def _burst(content: dict[str, Any]) -> BurstOrder:
    one, at_once = _request(content), int(content.get("at_once", 1))
    if not 1 <= at_once <= _MOST_AT_ONCE:
        raise ValueError(f"at_once must be 1 to {_MOST_AT_ONCE}, not {at_once}")
    return BurstOrder(
        model=one.model,
        id=one.id,
        path=one.path,
        body=one.body,
        timeout_s=one.timeout_s,
        at_once=at_once,
        seconds=float(content.get("seconds", 1.0)),
    )


def _stop(content: dict[str, Any]) -> StopOrder:
    return StopOrder(_text(content, "model"), _optional_text(content, "reason"))


def _own(content: dict[str, Any]) -> OwnOrder:
    return OwnOrder(_text(content, "folder"))


def _conditions(content: dict[str, Any]) -> dict[str, Any]:
    value = content.get("conditions") or {}
    if not isinstance(value, dict):
        raise ValueError("conditions is an object")
    return value


def _text(content: dict[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, not {value!r}")
    return value


def _optional_text(content: dict[str, Any], key: str) -> str | None:
    return None if content.get(key) is None else _text(content, key)


def _words(content: dict[str, Any], key: str) -> list[str]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{key} must be a list of texts, not {value!r}")
    return value


def _env(content: dict[str, Any]) -> dict[str, str]:
    value = content.get("env", {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("env must be an object of texts")
    return value


class OrderReader:
    """Takes lines of any length from a non-blocking pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._partial = b""

    def read(self) -> list[bytes] | None:
        """The lines that are complete by now; None once the console has closed its end."""
        try:
            content = os.read(self._fd, 1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not content:
            return None
        *lines, self._partial = (self._partial + content).split(b"\n")
        return [line for line in lines if line.strip()]
