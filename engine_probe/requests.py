"""A request that the probe sends to a loaded model, from the engine's side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Request:
    """`body` None makes it a GET. The answer comes as a `RequestAnswered` event with the same `id`."""

    id: str
    path: str
    body: Mapping[str, Any] | None = field(default=None)
    timeout_s: float = 60.0
