"""A value with where it came from, or `Unknown` with the reason. Nothing stands in for what is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Value = bool | int | float | str
Source = Literal["measured", "parsed", "declared", "computed"]


@dataclass(frozen=True)
class Known:
    """A value and its origin: `origin` says where a person can look it up, such as `engine.log:57`."""

    value: Value
    source: Source
    origin: str


@dataclass(frozen=True)
class Unknown:
    """Not known, and why: `reason` completes the sentence "unknown, because …"."""

    reason: str


Fact = Known | Unknown
