"""What the accounting says of one worker: its parts, its pool, what is free around it, and what stops it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.estimates import Estimate, exact, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine_probe.memory.accounting_kv import Room
    from engine_probe.memory.accounting_values import Batch
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.limits import WhyNot


@dataclass(frozen=True)
class Parts:
    """What a worker takes, in GiB."""

    weights: Amount
    activation: Estimate
    graphs: Estimate
    """As captured. `graphs_in_budget`: as vLLM estimates them beforehand, 0 where it does not."""
    graphs_in_budget: Estimate
    non_torch: Estimate
    context: Estimate
    stranded: Estimate
    """Blocks that torch keeps after the profile run and cannot use."""
    sampler: Estimate
    """Of `activation`, what the warm-up after the capture needs once more."""


@dataclass(frozen=True)
class RankMemory:
    """Sizes in GiB, of one worker on its GPU."""

    rules: str
    total_gib: float
    utilization: float
    parts: Parts
    batch: Batch
    budget: Estimate
    """The share of the whole card."""
    kv_pool: Amount
    pool_is_fixed: bool
    taken_gib: float
    """What others hold on the card before this one starts."""
    free_at_start: Amount
    """As vLLM sees it: CUDA's context, and from 0.11 on NCCL, are off already."""
    after_profile: Amount
    """What is left on the card when the weights are loaded and the profile run is over."""
    after_warm_up: Amount
    """What is left when all is loaded, captured and warmed up; below 0: out of memory."""
    max_len: int
    fits_length: bool
    caches_anything: bool
    room: Room | Unknown
    """How the pool is divided."""
    why_not: WhyNot | None = None
    counts_others: bool = False
    """The release takes what others hold, and CUDA's context, off the budget: the share is of all that is used."""

    @property
    def free_gib(self) -> Amount:
        """Before it starts: of what torch sees of the card, what no other process and no model before it holds, their
        CUDA contexts counted and its own not.
        """
        return total((self.free_at_start, self.parts.context), "computed: what is left")

    @property
    def occupied(self) -> Amount:
        """What the card has less of for the next model, once this one serves."""
        parts = self.parts
        outside = [parts.context, *(() if parts.graphs_in_budget.value else (parts.graphs,))]
        source = "computed: budget, context and what lies outside the budget"
        if not self.pool_is_fixed:
            of_others = self.taken_gib + parts.context.value if self.counts_others else 0.0
            return total((exact(self.budget.value - of_others, source), *outside), source)
        inside = (parts.weights, parts.activation, parts.non_torch, parts.context, parts.graphs, self.kv_pool)
        return total(inside, source)


def left_of(whole: Amount, parts: Iterable[Amount]) -> Amount:
    """`whole` less the parts; unknown, for the first reason, where one is unknown."""
    off = total(parts, "computed")
    if isinstance(whole, Unknown) or isinstance(off, Unknown):
        return whole if isinstance(whole, Unknown) else off
    source = "computed: what is left"
    return Estimate(whole.value - off.value, whole.low - off.high, whole.high - off.low, source)


def covering(found: Sequence[RankMemory], rules: str) -> RankMemory:
    """For an unknown release, called `rules`: the newest one's values; the ranges reach over those of all."""
    newest = found[0]
    parts = newest.parts
    widened = {
        name: _around(getattr(parts, name), [getattr(one.parts, name) for one in found])
        for name in parts.__dataclass_fields__
    }
    return replace(
        newest,
        rules=rules,
        parts=Parts(**widened),  # type: ignore[arg-type]
        budget=_estimate(_around(newest.budget, [one.budget for one in found]), newest.budget),
        kv_pool=_around(newest.kv_pool, [one.kv_pool for one in found]),
    )


def _around(middle: Amount, amounts: Iterable[Amount]) -> Amount:
    known = [one for one in amounts if not isinstance(one, Unknown)]
    if isinstance(middle, Unknown) or not known:
        return middle
    low, high = min(one.low for one in known), max(one.high for one in known)
    return Estimate(middle.value, low, high, f"{middle.source}; the release is not known")


def _estimate(amount: Amount, otherwise: Estimate) -> Estimate:
    return otherwise if isinstance(amount, Unknown) else amount
