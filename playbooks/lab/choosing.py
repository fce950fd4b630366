"""Which faults run cold: those that show themselves at import, and a random tenth of the others."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from playbooks.lab.faults import Fault

_ONE_OF = 10


@dataclass(frozen=True)
class Turn:
    """A fault and the grade that its loads have."""

    fault: Fault
    grade: Literal["warm", "cold"]


def new_seed() -> int:
    """Short enough to be read out and typed again."""
    return random.SystemRandom().randrange(10_000)


def turns(faults: Sequence[Fault], *, all_cold: bool, seed: int | None) -> tuple[Turn, ...]:
    """In the given order. `seed` chooses the tenth; None: none by chance."""
    chosen = _by_chance(faults, seed) if seed is not None else frozenset()
    return tuple(
        Turn(fault, "cold" if all_cold or fault.spec.cold or fault.id in chosen else "warm") for fault in faults
    )


def _by_chance(faults: Iterable[Fault], seed: int) -> frozenset[str]:
    could = sorted(fault.id for fault in faults if not fault.spec.cold)
    return frozenset(random.Random(seed).sample(could, -(-len(could) // _ONE_OF)))  # noqa: S311 -- no secret
