"""What one worker leaves for its share of a GPU: the least that it needs and the most that it may take, in hundredths.

Read off one `RankMemory`, whatever release it was counted for: a pool grows with the share, one to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.accounting import rank_memory
from engine_probe.memory.accounting_rules import rules_of
from engine_probe.memory.cards import CPU

if TYPE_CHECKING:
    from engine_probe.memory.accounting import Asked
    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.limits import Neighbours
    from engine_probe.memory.model import ModelShape
    from playbooks.placement import PlacedModel

MOST_SHARE = 98
"""Hundredths: above it nothing is left for what a driver or another process takes meanwhile."""
_TINY = 1e-9


class Memory:
    """`rank_memory` that computes each question once. Shapes count by identity: they live as long as the plan."""

    def __init__(self) -> None:
        self._known: dict[object, RankMemory] = {}
        self._shapes: list[ModelShape] = []

    @property
    def computed(self) -> int:
        """How many workers were really computed: the work that a search has done."""
        return len(self._known)

    def keep(self, shape: ModelShape) -> None:
        """A shape that is made while it is looked for: no other may get its identity."""
        self._shapes.append(shape)

    def __call__(self, asked: Asked, card: Card, rank: int, near: Neighbours) -> RankMemory:
        question = (asked.values, id(asked.shape), asked.version, asked.wants_v1, asked.learned)
        key = (question, card.model, card.total_gib, rank, near)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = rank_memory(asked, card, rank, near)
        return found


@dataclass(frozen=True)
class Need:
    """Of one worker on its GPU, in GiB, at the unfavourable end of each range where `is_strict`.

    `inside`: what is taken off the budget before the cache; `cache`: one request of full length. `outside`: what the
    GPU has less of beside the budget. `counts_others`: the release takes what others hold off the budget.
    """

    total: float
    inside: float
    cache: float
    outside: float
    others: float
    held_fixed: float | None
    """What it holds, where the size of its cache is set and no share changes it."""
    counts_others: bool
    looks_for_share: bool = True
    """The share must be free at the start even where the size of the cache is set; not so on CPUs."""
    ranks: int = 1
    """Workers that take as much of the same memory: more than one only where they share the host's."""

    @property
    def least(self) -> float:
        """The smallest budget that starts on a GPU with nobody else."""
        return self.inside + self.cache

    def bounds(self, near: float, cache: float | None = None) -> tuple[int, int]:
        """Smallest and largest share in hundredths beside models that hold `near` GiB; nothing fits if they cross."""
        if self.held_fixed is not None:
            fits = self.ranks * self.held_fixed + near + self.others <= self.total + _TINY
            most_free = (self.total - self.others - near - self.outside) / self.total if self.looks_for_share else 1.0
            return 1, _floor(most_free) if fits else -1
        needed = self.inside + (self.cache if cache is None else cache) + (near if self.counts_others else 0.0)
        free = self._free(near)
        return max(1, _ceil(needed / self.total)), min(MOST_SHARE, _floor(free / self.total))

    def margin(self, near: float, share: float) -> float:
        """What is left of the cache, or of the GPU, in GiB, with this share; the smaller of both."""
        free = self._free(near)
        if self.held_fixed is not None:
            room = self.total - self.others - near - self.ranks * self.held_fixed
            return min(room, free - share * self.total) if self.looks_for_share else room
        left = share * self.total - self.least - (near if self.counts_others else 0.0)
        return min(left, free - share * self.total)

    def _free(self, near: float) -> float:
        """For the budget of one of its workers."""
        free = self.total - self.outside - (0.0 if self.counts_others else near + self.others)
        return free / self.ranks


def need_of(memory: RankMemory, asked: Asked, card: Card, near: Neighbours, *, is_strict: bool) -> Need | None:
    """None where its pool is unknown."""
    pool, after, parts = memory.kv_pool, memory.after_warm_up, memory.parts
    if isinstance(pool, Unknown) or isinstance(after, Unknown) or isinstance(near.others_gib, Unknown):
        return None
    rules = rules_of(asked.version, asked.wants_v1)[0]
    on_cpu = card.family == CPU
    counts_others = memory.counts_others
    others, total = near.others_gib.value, card.total_gib.value
    budget, inside = memory.budget.value, memory.budget.value - pool.value
    warm_up = total - budget - after.value - (0.0 if counts_others else others + near.models_gib)
    if counts_others:
        inside -= near.models_gib
    context = parts.context.value
    if is_strict:
        total = card.total_gib.low
        inside += pool.value - pool.low - (budget - memory.budget.low)
        context = parts.context.high
        warm_up += _together(
            parts.context.high - parts.context.value,
            parts.graphs.high - parts.graphs.value,
            parts.stranded.high - parts.stranded.value,
            parts.activation.value - parts.activation.low,
        )
    held = memory.occupied
    check = context if rules.checks_free_memory and not on_cpu else 0.0
    return Need(
        total=total,
        inside=inside,
        cache=0.0 if isinstance(memory.room, Unknown) else memory.room.needed_gib,
        outside=check if memory.pool_is_fixed or on_cpu else max(check, warm_up),
        others=others,
        held_fixed=most(held, is_strict=is_strict) if memory.pool_is_fixed else None,
        counts_others=counts_others,
        looks_for_share=not on_cpu,
        ranks=asked.values.parallel.world if on_cpu else 1,
    )


def _together(*spreads: float) -> float:
    """Of parts that are off independently of each other."""
    return math.sqrt(sum(spread * spread for spread in spreads))


def most(amount: Amount, *, is_strict: bool) -> float:
    """Its middle, or its upper end; an unknown one counts as nothing, and the plan says that it is unknown."""
    if isinstance(amount, Unknown):
        return 0.0
    return amount.high if is_strict else amount.value


def share_of(model: PlacedModel, memory: RankMemory | None = None) -> int:
    """What it asks for now, in hundredths, upwards."""
    found = memory or model.worst
    return _ceil(found.utilization) if found is not None else 0


def _floor(share: float) -> int:
    return math.floor(share * 100 + _TINY)


def _ceil(share: float) -> int:
    return math.ceil(share * 100 - 1e-7)
