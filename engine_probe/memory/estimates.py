"""Amounts that were computed, with the range in which the true one is expected, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Estimate:
    """`low` ≤ `value` ≤ `high`, in one unit. `source` begins with measured, declared, computed, printed or learnt."""

    value: float
    low: float
    high: float
    source: str

    def scaled(self, factor: float) -> Estimate:
        """`factor` ≥ 0."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.source)


Amount = Estimate | Unknown


def exact(value: float, source: str) -> Estimate:
    """An amount without any doubt."""
    return Estimate(value, value, value, source)


def total(amounts: Iterable[Amount], source: str) -> Amount:
    """The sum; unknown, for the first reason, where one is unknown."""
    value = low = high = 0.0
    for one in amounts:
        if isinstance(one, Unknown):
            return one
        value, low, high = value + one.value, low + one.low, high + one.high
    return Estimate(value, low, high, source)
