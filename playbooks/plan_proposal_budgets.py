"""Shares of several models on the same GPUs at once, where no single one's change is enough."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.memory.accounting_rules import rules_of
from playbooks.plan_proposal_bench import LENGTH, SHARE, Move, Step, gpus_used, sharers
from playbooks.plan_proposal_room import MOST_SHARE, share_of
from playbooks.plan_proposal_sizes import lengths_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playbooks.placement import PlacedModel, Plan
    from playbooks.plan_proposal_bench import Bench
    from playbooks.plan_proposal_room import Need

_EVERY_SUBSET_OF = 5
_MOST_MOVES = 3
_FEWER_TOKENS = (32768, 16384, 8192, 4096, 2048)


@dataclass(frozen=True)
class _Sharer:
    """One model of the group; sizes in hundredths of each GPU's memory."""

    name: str
    weight: int
    """Workers on one GPU: more than one only where ranks share the host's memory."""
    least: Mapping[int, int]
    beside: Mapping[int, float]
    """What it holds outside its share, or all that it holds where no share changes that."""
    now: int
    wanted: int
    is_fixed: bool
    length: int | None = None
    """A shorter one that `least` counts on."""


def moves_of_budgets(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """The fewest shares that have to change, and where no shares are enough shorter requests too."""
    group = _group(bench, plan, model)
    if len(group) < 2:
        return
    needs = {one.launch.name: bench.needs_of(one) for one in group}
    if any(found is None for found in needs.values()):
        return
    known = {name: found for name, found in needs.items() if found is not None}
    counts_others = any(need.counts_others for found in known.values() for need in found.values())
    everyone = tuple(_sharer(bench, one, known[one.launch.name]) for one in group)
    moves = _shared_out(plan, everyone, known, counts_others=counts_others)
    if moves:
        yield from moves
        return
    for tokens in _FEWER_TOKENS:
        shorter = tuple(_shortened(bench, one, tokens, sharer) for one, sharer in zip(group, everyone, strict=True))
        if any(one.length for one in shorter):
            moves = _shared_out(plan, shorter, known, counts_others=counts_others)
            if moves:
                yield from moves[:1]
                return


def _group(bench: Bench, plan: Plan, model: PlacedModel) -> list[PlacedModel]:
    """All that share a GPU with it, or with one that does; in start order."""
    names, waiting = {model.launch.name}, [model]
    while waiting:
        for other in sharers(bench, plan, waiting.pop()):
            if other.launch.name not in names and other.worst is not None:
                names.add(other.launch.name)
                waiting.append(other)
    return [one for one in plan.models if one.launch.name in names]


def _sharer(
    bench: Bench, model: PlacedModel, needs: Mapping[int, Need], cache: Mapping[int, float] | None = None
) -> _Sharer:
    is_fixed = any(need.held_fixed is not None for need in needs.values())
    wanted = model.asked.values.utilization or rules_of(model.asked.version, model.asked.wants_v1)[0].utilization
    least, beside = {}, {}
    for gpu, need in needs.items():
        inside = need.inside - (need.others if need.counts_others else 0.0)
        taken = inside + (cache[gpu] if cache else need.cache)
        least[gpu] = max(1, math.ceil(taken / need.total * 100 - 1e-9))
        held = need.held_fixed if need.held_fixed is not None else max(0.0, need.outside)
        beside[gpu] = held / need.total * 100
    return _Sharer(
        name=model.launch.name,
        weight=model.asked.values.parallel.world if bench.on_cpu else 1,
        least=least,
        beside=beside,
        now=share_of(model),
        wanted=max(1, round(wanted * 100)),
        is_fixed=is_fixed,
    )


def _shortened(bench: Bench, model: PlacedModel, tokens: int, sharer: _Sharer) -> _Sharer:
    """With requests of at most `tokens`, where it would take longer ones and may be asked for less."""
    length = next(iter(lengths_below(tokens + 1, tokens)), None)
    if length is None or model.asked.max_len <= length or bench.keep.get(sharer.name, 0) > length:
        return sharer
    if sharer.is_fixed or model.asked.values.fits_length:
        return sharer
    asked = replace(model.asked, values=replace(model.asked.values, max_len=length))
    needs = bench.needs(asked, gpus_used(bench, model))
    return sharer if needs is None else replace(_sharer(bench, model, needs), length=length)


def _shared_out(
    plan: Plan,
    everyone: Sequence[_Sharer],
    needs: Mapping[str, Mapping[int, Need]],
    *,
    counts_others: bool,
) -> list[Move]:
    """Moves with the fewest changes, those that leave most to everybody first."""
    free = {
        gpu: 100 - 100 * need.others / need.total - sum(one.weight * one.beside.get(gpu, 0.0) for one in everyone)
        for found in needs.values()
        for gpu, need in found.items()
    }
    can_change = [one for one in everyone if not one.is_fixed]
    if not can_change:
        return []
    whole_only = counts_others or len(can_change) > _EVERY_SUBSET_OF
    for count in [len(can_change)] if whole_only else range(1, len(can_change) + 1):
        found: list[tuple[float, Move]] = []
        for chosen in itertools.combinations(can_change, count):
            shares = _filled(everyone, chosen, free)
            if shares is not None:
                smallest = min(shares[one.name] / max(one.least.values()) for one in chosen)
                if counts_others:
                    shares = _upon_each_other(everyone, shares, needs)
                found.append((-smallest, _move(plan, everyone, shares)))
        if found:
            return [move for _, move in sorted(found, key=lambda pair: pair[0])[:_MOST_MOVES] if move]
    return []


def _filled(everyone: Sequence[_Sharer], chosen: Sequence[_Sharer], free: Mapping[int, float]) -> dict[str, int] | None:
    """Each chosen one its least, then a hundredth at a time to whoever has the smallest part of what it wanted."""
    left = dict(free)
    shares = {one.name: max(one.least.values()) for one in chosen}
    for one in everyone:
        if one.is_fixed:
            continue
        if one.name not in shares and one.now < max(one.least.values()):
            return None
        for gpu in one.least:
            left[gpu] -= one.weight * shares.get(one.name, one.now)
    if any(room < -1e-9 for room in left.values()):
        return None
    growing = list(chosen)
    while growing:
        one = min(growing, key=lambda each: shares[each.name] / each.wanted)
        most = max(one.wanted, *one.least.values())
        if shares[one.name] >= min(MOST_SHARE, most) or any(left[gpu] < one.weight for gpu in one.least):
            growing.remove(one)
            continue
        shares[one.name] += 1
        for gpu in one.least:
            left[gpu] -= one.weight
    return shares


def _upon_each_other(
    everyone: Sequence[_Sharer], own: Mapping[str, int], needs: Mapping[str, Mapping[int, Need]]
) -> dict[str, int]:
    """Where a release takes what others hold off the budget, each share is what all before hold and its own."""
    held: dict[int, float] = {}
    shares = {}
    for one in everyone:
        found = needs[one.name]
        below = max(held.get(gpu, 0.0) + 100 * need.others / need.total for gpu, need in found.items())
        if one.name in own:
            shares[one.name] = min(MOST_SHARE, math.ceil(below + own[one.name] - 1e-9))
        for gpu in found:
            held[gpu] = held.get(gpu, 0.0) + own.get(one.name, 0) + one.beside[gpu]
    return shares


def _move(plan: Plan, everyone: Sequence[_Sharer], shares: Mapping[str, int]) -> Move:
    """Smaller shares first, so that each step leaves room for the next."""
    steps: list[Step] = []
    for one in everyone:
        launch = plan.deployment.launch(one.name)
        if one.name in shares and launch is not None and launch.arg("gpu-memory-utilization") != shares[one.name] / 100:
            steps.append(Step(one.name, SHARE, shares[one.name] / 100))
        if one.length is not None:
            steps.append(Step(one.name, LENGTH, one.length))
    return tuple(steps)
