"""Which faults run cold: those that show themselves at import, and a random tenth of the others."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from playbooks.lab.faults import Fault

_ONE_OF = 10
_COUNTED_FROM_WARM = "memory-limit"
"""Its room is what loads take beyond the warm process; cold ones share nothing with it, and never fit."""


@dataclass(frozen=True)
class Turn:
    """A fault and the grade that its loads have."""

    fault: Fault
    grade: Literal["warm", "cold"]


def new_seed() -> int:
    """Short enough to be read out and typed again."""
    return random.SystemRandom().randrange(10_000)


def turns(faults: Sequence[Fault], *, all_cold: bool, seed: int | None) -> tuple[Turn, ...]:
    """In the given order. `seed` chooses the tenth; None: none by chance. What has a memory limit is always warm."""
    chosen = _by_chance(faults, seed) if seed is not None else frozenset()
    return tuple(Turn(fault, "cold" if _is_cold(fault, chosen, all_cold) else "warm") for fault in faults)


def _is_cold(fault: Fault, chosen: frozenset[str], all_cold: bool) -> bool:
    return fault.spec.cold or (can_be_cold(fault) and (all_cold or fault.id in chosen))


def can_be_cold(fault: Fault) -> bool:
    """Whether the fault shows itself as well in loads that start from nothing."""
    return all(one.name != _COUNTED_FROM_WARM for one in fault.surroundings)


def _by_chance(faults: Iterable[Fault], seed: int) -> frozenset[str]:
    by_choice = [fault for fault in faults if not fault.spec.cold]
    could = sorted(fault.id for fault in by_choice if can_be_cold(fault))
    count = min(-(-len(by_choice) // _ONE_OF), len(could))
    return frozenset(random.Random(seed).sample(could, count))  # noqa: S311 -- no secret
