"""Moves for what no share of memory mends: sizes, the order, and what vLLM refuses before it looks at a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.memory.rank_weights import layer_count
from playbooks.plan_proposal_bench import GPUS, LENGTH, ORDER, TENSOR, Step, is_refused, sharers
from playbooks.plan_proposal_moves import fitted, sets_for
from playbooks.plan_proposal_sizes import tensor_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.launch import Launch
    from playbooks.placement import PlacedModel, Plan
    from playbooks.plan_proposal_bench import Bench, Move

_MOST_SIZES = 2
_TOO_FEW = ("multi-node-needs-ray-backend", "gpu-not-visible-in-container")
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""That --max-lora-rank takes (config/lora.py)."""


def moves_of_size(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """Another tensor-parallel size: larger ones, and smaller ones where the one that is asked for cannot be."""
    values, shape, launch = model.asked.values, model.asked.shape, model.launch
    each = values.parallel.pp * values.parallel.dp
    if bench.on_cpu:
        yield from _ranks_on_cpu(bench, plan, model)
        return
    sizes = tensor_sizes(shape, len(bench.cards) // each, cuts_experts=not values.parallel.expert_parallel)
    smaller = [size for size in sizes if size < values.parallel.tp] if is_refused(model) else []
    smaller.sort(key=lambda size: (size & (size - 1) != 0, -size))
    useful: set[int] = set()
    for size in (*smaller, *(size for size in sizes if size > values.parallel.tp)):
        if len(useful) == _MOST_SIZES:
            return
        other = launch.with_arg("tensor-parallel-size", size)
        own = _own(bench, launch, size * each)
        default = tuple(sorted(bench.cards)[: size * each]) if launch.gpus is None else None
        sets = dict.fromkeys((own or default, *sets_for(bench, plan, model, size * each)))
        for gpus in sets:
            if gpus is None:
                continue
            placed = () if gpus in (own, default) else (Step(launch.name, GPUS, gpus),)
            for more in fitted(bench, plan, model, other, gpus):
                useful.add(size)
                yield (Step(launch.name, TENSOR, size), *placed, *more)


def _ranks_on_cpu(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """Fewer of them, where as many as are asked for cannot be: more need no less of the host's memory."""
    values, launch = model.asked.values, model.launch
    if not is_refused(model):
        return
    sizes = tensor_sizes(model.asked.shape, values.parallel.tp, cuts_experts=not values.parallel.expert_parallel)
    for size in sorted((size for size in sizes if size < values.parallel.tp), reverse=True)[:_MOST_SIZES]:
        for more in fitted(bench, plan, model, launch.with_arg("tensor-parallel-size", size), tuple(bench.cards)):
            yield (Step(launch.name, TENSOR, size), *more)


def _own(bench: Bench, launch: Launch, count: int) -> tuple[int, ...] | None:
    """The first GPUs that it names, where they are enough and all there."""
    if launch.gpus is None or len(launch.gpus) < count or any(gpu not in bench.cards for gpu in launch.gpus):
        return None
    return launch.gpus[:count]


def moves_of_configuration(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """For what vLLM refuses before it looks at a GPU."""
    name, values, shape = model.launch.name, model.asked.values, model.asked.shape
    refused = model.why_not.id if model.why_not is not None else ""
    if refused == "max-model-len-above-model-limit" and shape.max_position >= bench.keep.get(name, 0):
        yield (Step(name, LENGTH, shape.max_position),)
    elif refused == "kv-cache-size-zero":
        yield (Step(name, "args.num-gpu-blocks-override", None),)
    elif refused == "pp-exceeds-layers":
        yield (Step(name, "args.pipeline-parallel-size", 1 << (layer_count(shape).bit_length() - 1)),)
    elif refused == "lora-rank-exceeds-max":
        rank = _highest_rank(model.launch)
        wanted = next((one for one in _LORA_RANKS if one >= rank > 0), None)
        yield from [] if wanted is None else [(Step(name, "args.max-lora-rank", wanted),)]
    elif refused in _TOO_FEW and values.parallel.world <= len(bench.cards):
        yield from ((Step(name, GPUS, gpus),) for gpus in sets_for(bench, plan, model, values.parallel.world))
    if refused in (*_TOO_FEW, "heads-not-divisible-by-tp"):
        yield from moves_of_size(bench, plan, model)


def _highest_rank(launch: Launch) -> int:
    from engine_probe.model_files.adapters import read_adapter  # noqa: PLC0415 -- few deployments have adapters

    def rank_of(path: str) -> int:
        try:
            return read_adapter(Path(path).expanduser()).rank or 0
        except ValueError:
            return 0  # not here: the plan could not read it either

    return max(map(rank_of, launch.lora.values()), default=0)


def moves_of_order(bench: Bench, plan: Plan, model: PlacedModel) -> Iterator[Move]:
    """Start orders that can matter: who looks at a GPU first, and whose graphs come last."""
    others = sharers(bench, plan, model)
    group = [one for one in (model, *others) if one.worst is not None]
    if len(group) < 2:
        return
    names = [one.launch.name for one in plan.models]
    rest = [name for name in names if name != model.launch.name]
    asks = {one.launch.name: one.worst.utilization if one.worst else 0.0 for one in plan.models}
    sets_cache = {one.launch.name for one in group if one.worst is not None and one.worst.pool_is_fixed}
    orders: list[list[str]] = []
    if any(one.worst.counts_others for one in group if one.worst is not None):
        orders = [sorted(names, key=lambda name: asks[name]), [*rest, model.launch.name]]
    elif sets_cache:  # it asks for its share at the start, and then takes less
        orders = [sorted(names, key=lambda name: (name not in sets_cache, -asks[name] if name in sets_cache else 0.0))]
    elif sum(asks[one.launch.name] for one in group) <= 1:
        orders = [[model.launch.name, *rest], [*rest, model.launch.name]]
    for order in dict.fromkeys(map(tuple, orders)):
        if list(order) != names:
            yield (Step(None, ORDER, order),)
