"""What could help a model that does not start: each move is one change, or several that only together help."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.memory.accounting_rules import rules_of
from playbooks.plan_proposal_bench import GPUS, LENGTH, SHARE, Step, bounds_of, gpus_used, near_of, sharers
from playbooks.plan_proposal_sizes import gpu_sets, lengths_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine_probe.launch import Launch
    from engine_probe.memory.accounting import Asked
    from playbooks.placement import PlacedModel, Plan
    from playbooks.plan_proposal_bench import Bench, Move


def moves_in_place(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """Its own share, its own length, or both, where it is."""
    yield from fitted(bench, plan, model, model.launch, gpus_used(bench, model))
    yield from _fixed_cache(bench, plan, model)


def fitted(bench: Bench, plan: Plan, model: PlacedModel, launch: Launch, gpus: Sequence[int]) -> Iterator[Move]:
    """What else `launch` needs to start on these GPUs: nothing, its share, its length, or both."""
    is_there = launch is model.launch and tuple(gpus) == gpus_used(bench, model) and model.worst is not None
    asked = bench.asked(model, launch, gpus)
    needs = bench.needs_of(model) if is_there else bench.needs(asked, gpus)
    if needs is None:
        return
    name = launch.name
    near = near_of(bench, plan, name, gpus)
    least, largest = bounds_of(needs, near)
    share, usual = _share(asked)
    if least <= share <= largest:
        yield ()
        return
    has_later = any(one for one in sharers(bench, plan, model, gpus) if _is_later(plan, one, name))
    if least <= largest:
        raised = least if has_later else min(largest, max(least, round(usual * 100)))
        yield (Step(name, SHARE, (largest if share > largest else raised) / 100),)
    if asked.values.fits_length or any(need.held_fixed is not None for need in needs.values()):
        return
    for given in dict.fromkeys((min(share, largest), largest)):
        length = _length_for(bench, asked, name, gpus, near, given) if given > 0 else None
        if length is not None:
            shares = () if given == share else (Step(name, SHARE, given / 100),)
            if not (shares and least <= largest):
                yield (*shares, Step(name, LENGTH, length))


def _share(asked: Asked) -> tuple[float, float]:
    """In hundredths as asked for, and the release's own share."""
    usual = rules_of(asked.version, asked.wants_v1)[0].utilization
    return (asked.values.utilization or usual) * 100, usual


def _is_later(plan: Plan, other: PlacedModel, name: str) -> bool:
    names = [model.launch.name for model in plan.models]
    return names.index(other.launch.name) > names.index(name)


def _length_for(
    bench: Bench, asked: Asked, name: str, gpus: Sequence[int], near: Mapping[int, float], share: float
) -> int | None:
    """The longest round length that starts with this share."""
    lengths = lengths_below(asked.max_len, bench.keep.get(name))
    low, high = 0, len(lengths)
    while low < high:
        middle = (low + high) // 2
        shorter = replace(asked, values=replace(asked.values, max_len=lengths[middle]))
        needs = bench.needs(shorter, gpus)
        if needs is not None and bounds_of(needs, near)[0] <= share:
            high = middle
        else:
            low = middle + 1
    return lengths[low] if low < len(lengths) else None


def _fixed_cache(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """A cache of a size that is set: what is left for it."""
    gpus = gpus_used(bench, model)
    needs = bench.needs_of(model)
    if needs is None or any(need.held_fixed is None for need in needs.values()) or model.worst is None:
        return
    pool = model.worst.kv_pool
    near = near_of(bench, plan, model.launch.name, gpus)
    workers = model.asked.values.parallel.world if bench.on_cpu else 1
    too_much = max(
        (need.held_fixed or 0.0) + (near[gpu] + need.others - need.total) / workers for gpu, need in needs.items()
    )
    size = getattr(pool, "value", 0.0)
    left, wanted = size - too_much, max(need.cache for need in needs.values())
    if wanted > size:  # too small for a request of full length, whatever else is on the card
        if wanted <= left:
            yield (_cache_of(model, math.ceil(wanted * 16) / 16, math.ceil(wanted)),)
        yield from _shorter_in(bench, model, gpus, min(size, left))
    elif too_much > 0 and wanted <= left and (model.asked.values.kv_bytes is not None or left >= 1):
        yield (_cache_of(model, int(left * 16) / 16, int(left)),)


def _cache_of(model: PlacedModel, gib: float, whole_gib: int) -> Step:
    if model.asked.values.kv_bytes is not None:
        return Step(model.launch.name, "args.kv-cache-memory-bytes", int(gib * (1 << 30)))
    return Step(model.launch.name, "env.VLLM_CPU_KVCACHE_SPACE", str(whole_gib))


def _shorter_in(bench: Bench, model: PlacedModel, gpus: Sequence[int], cache: float) -> Iterator[Move]:
    """The longest round length of which one request has room in a cache of this size."""
    asked, name = model.asked, model.launch.name
    if asked.values.fits_length:
        return
    for length in lengths_below(asked.max_len, bench.keep.get(name)):
        needs = bench.needs(replace(asked, values=replace(asked.values, max_len=length)), gpus)
        if needs is not None and max(need.cache for need in needs.values()) <= cache:
            yield (Step(name, LENGTH, length),)
            return


def moves_elsewhere(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """Other GPUs for it, and what else it then needs."""
    if bench.on_cpu:
        return
    for gpus in sets_for(bench, plan, model, model.asked.values.parallel.world):
        if gpus == model.gpus:
            continue
        for more in fitted(bench, plan, model, model.launch, gpus):
            yield (Step(model.launch.name, GPUS, gpus), *more)


def moves_of_all(bench: Bench, plan: Plan) -> Iterator[Move]:
    """Each model whose GPUs nobody chose gets the emptiest ones, the largest first; then those of the others too."""
    if bench.on_cpu or len(plan.models) < 2:
        return
    for keeps in (True, False):
        held: dict[int, float] = {}
        steps: list[Step] = []
        placed = [one for one in plan.models if one.worst is not None]
        stays = [one for one in placed if keeps and one.launch.gpus is not None]
        rest = sorted((one for one in placed if one not in stays), key=lambda one: -_least(bench, one) * len(one.gpus))
        for one in (*stays, *rest):
            gpus = one.gpus
            if one not in stays:
                gpus = next(iter(gpu_sets(tuple(bench.cards.values()), held, len(one.gpus))), one.gpus)
            if gpus != one.gpus:
                steps.append(Step(one.launch.name, GPUS, gpus))
            for gpu in gpus:
                held[gpu] = held.get(gpu, 0.0) + _least(bench, one)
        if steps:
            yield tuple(steps)


def _least(bench: Bench, model: PlacedModel) -> float:
    """In hundredths of the GPU that lacks most."""
    needs = bench.needs_of(model) or {}
    return max((100 * need.least / need.total for need in needs.values()), default=50.0)


def moves_of_others(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """Models on its GPUs that could have GPUs which nobody has."""
    if bench.on_cpu:
        return
    for other in sharers(bench, plan, model):
        if other.worst is None:
            continue
        for gpus in sets_for(bench, plan, other, other.asked.values.parallel.world)[:1]:
            if (
                not sharers(bench, plan, other, gpus)
                and next(fitted(bench, plan, other, other.launch, gpus), None) == ()
            ):
                yield (Step(other.launch.name, GPUS, gpus),)


def sets_for(bench: Bench, plan: Plan, model: PlacedModel, count: int) -> tuple[tuple[int, ...], ...]:
    held: dict[int, float] = {}
    for one in plan.models:
        if one.launch.name != model.launch.name:
            for gpu in one.gpus:
                held[gpu] = held.get(gpu, 0.0) + (one.worst.utilization if one.worst is not None else 0.5)
    return gpu_sets(tuple(bench.cards.values()), held, count)
