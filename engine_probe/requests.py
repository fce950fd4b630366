"""A request that the probe sends to a loaded model, from the engine's side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_AT_ONCE = 1_000
"""Of one burst: each has a thread on the engine's side."""
LONGEST_BURST_S = 86_400.0


@dataclass(frozen=True)
class Burst:
    """The same request from `at_once` clients, each again and again, for `seconds`."""

    at_once: int
    seconds: float


@dataclass(frozen=True)
class Request:
    """`body` None makes it a GET. The answer comes as a `RequestAnswered` event with the same `id`.

    With a `burst` it is sent over and over, and one `BurstAnswered` tells of all.
    """

    id: str
    path: str
    body: Mapping[str, Any] | None = field(default=None)
    timeout_s: float = 60.0
    burst: Burst | None = None
