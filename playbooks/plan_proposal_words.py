"""Why each change of a proposal is made, in numbers, what it costs, and why there is none where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from playbooks.plan_proposal_bench import GPUS, LENGTH, ORDER, SHARE, START, TENSOR
from playbooks.plan_proposal_sizes import tensor_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.memory.accounting_kv import Room
    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel, Plan
    from playbooks.plan_proposal_bench import Step


_CACHES = ("args.kv-cache-memory-bytes", "env.VLLM_CPU_KVCACHE_SPACE")


def why_of(step: Step, before: Plan, after: Plan) -> str:
    """A sentence without its end, from the plan as written and the plan as proposed."""
    if step.key == START:
        return "started at once, models on one GPU measure each other's growth, and who finds the memory is chance"
    if step.key == ORDER:
        failing = next((one for one in before.models if one.why_not is not None), None)
        asks = f"{failing.launch.name}: {failing.why_not.text}" if failing is not None and failing.why_not else ""
        return f"in the order as written {asks}; in this one each finds what it asks for when it starts"
    old, new = _models(step, before, after)
    words = {SHARE: _why_share, LENGTH: _why_length, GPUS: _why_gpus, TENSOR: _why_size}.get(step.key)
    if words is not None:
        return words(old, new) + _for_whom(step, before, old)
    return old.why_not.text if old.why_not is not None else f"{step.key} as written does not fit"


def _for_whom(step: Step, before: Plan, old: PlacedModel) -> str:
    """Of a model that started by itself: which other one this is done for."""
    if not old.fits or step.key not in (SHARE, LENGTH, GPUS):
        return ""
    failing = next((one for one in before.models if not one.fits), None)
    return "" if failing is None else f"; the rest is for {failing.launch.name}, which does not start as written"


def costs_of(step: Step, before: Plan, after: Plan) -> str:
    """What is lost by it."""
    if step.launch is None:
        return (
            "the loads add up: all serve later" if step.key == START else f"{after.models[-1].launch.name} serves last"
        )
    old, new = _models(step, before, after)
    if step.key == GPUS:
        return _costs_gpus(new, after)
    if step.key in _CACHES:
        return _costs_cache(old, new)
    words = {SHARE: _costs_share, LENGTH: _costs_length, TENSOR: _costs_size}.get(step.key)
    return words(old, new) if words is not None else "nothing else changes"


def _costs_cache(old: PlacedModel, new: PlacedModel) -> str:
    """Of a cache whose size is set."""
    before, after = (0.0 if one.worst is None else _value(one.worst.kv_pool) for one in (old, new))
    whose = "each of its GPUs" if new.gpus else "the host's memory for each rank"
    change = "more" if after > before else "less"
    return f"{abs(after - before):.1f} GiB {change} of {whose}: a cache of {after:.1f} instead of {before:.1f}"


def _costs_length(old: PlacedModel, new: PlacedModel) -> str:
    return f"requests above {new.asked.max_len:,} tokens are refused, not only those above {old.asked.max_len:,}"


def _costs_gpus(new: PlacedModel, after: Plan) -> str:
    shared = [one.launch.name for one in after.models if one is not new and set(one.gpus) & set(new.gpus)]
    beside = f", which {' and '.join(shared)} {'has' if len(shared) == 1 else 'have'} too" if shared else ""
    return f"{_gpus(new.gpus)}{beside}: no longer free for others"


def _models(step: Step, before: Plan, after: Plan) -> tuple[PlacedModel, PlacedModel]:
    old, new = (next(one for one in plan.models if one.launch.name == step.launch) for plan in (before, after))
    return old, new


def _why_share(old: PlacedModel, new: PlacedModel) -> str:
    memory, was = new.worst, old.worst
    if memory is None:
        return ""
    asked = ""
    if was is not None and was.utilization != memory.utilization:
        asked = f"{was.utilization:g} asks for {was.budget.value:.1f} GiB of {was.total_gib:.1f}"
        if old.why_not is not None:
            asked = old.why_not.text
        asked += "; "
    pool = _range(memory.kv_pool)
    inside = memory.budget.value - _value(memory.kv_pool)
    room = _room(memory)
    request = f", and one request of {memory.max_len:,} tokens needs {room.needed_gib:.2f}" if room is not None else ""
    return (
        f"{asked}{memory.utilization:g} is {memory.budget.value:.1f} GiB: {inside:.1f} GiB for weights and the rest, "
        f"{pool} for the KV cache{request}"
    )


def _why_length(old: PlacedModel, new: PlacedModel) -> str:
    position = old.asked.shape.max_position
    if old.why_not is not None and old.why_not.id == "max-model-len-above-model-limit":
        return f"the model was made for {position:,} tokens, and {old.asked.max_len:,} are asked for"
    memory, room = new.worst, _room(new.worst)
    was = _room(old.worst)
    if memory is None or room is None:
        return old.why_not.text if old.why_not is not None else ""
    before = f"one request of {old.asked.max_len:,} tokens needs {was.needed_gib:.2f} GiB of cache; " if was else ""
    return (
        f"{before}{_range(memory.kv_pool)} are left for it, and {new.asked.max_len:,} tokens need {room.needed_gib:.2f}"
    )


def _why_gpus(old: PlacedModel, new: PlacedModel) -> str:
    asked = f"{_gpus(old.gpus)}: {old.why_not.text}; " if old.why_not is not None else ""
    memory = new.worst
    if memory is None:
        return asked
    free = f"{_value(memory.free_gib):.1f} GiB free" if not isinstance(memory.free_gib, Unknown) else "room"
    verb = "has" if len(new.gpus) == 1 else "have each"
    return f"{asked}{_gpus(new.gpus)} {verb} {free}, and {memory.budget.value:.1f} are asked for"


def _why_size(old: PlacedModel, new: PlacedModel) -> str:
    tp, was, shape = new.asked.values.parallel.tp, old.asked.values.parallel.tp, new.asked.shape
    weights = f"{_value(new.worst.parts.weights):.1f} GiB" if new.worst is not None else "its part"
    cut = f"cut in {tp}, {weights} of weights are on each GPU" if new.gpus else f"each rank has {weights} of weights"
    if old.why_not is not None:
        cut = f"{old.why_not.text}; {cut}"
    return f"{cut}; {tp} divides {shape.attention_heads} heads and fits {shape.kv_heads} KV heads" if tp != was else cut


def _costs_share(old: PlacedModel, new: PlacedModel) -> str:
    now, was = new.room, old.room
    if now is None or new.worst is None or old.worst is None:
        return "what else would use this memory"
    if new.worst.utilization > old.worst.utilization:
        more = new.worst.budget.value - old.worst.budget.value
        return f"{more:.1f} GiB more of each of its GPUs, which others can no longer take"
    if was is None or was.tokens <= now.tokens:
        return (
            f"a KV cache of {now.tokens:,} tokens is what it has: {now.concurrency:.1f} requests of full length at once"
        )
    return (
        f"KV cache: {now.tokens:,} tokens, where it would have had {was.tokens:,}; {now.concurrency:.1f} requests of "
        f"full length at once, where it would have been {was.concurrency:.1f}"
    )


def _costs_size(old: PlacedModel, new: PlacedModel) -> str:
    now, was = new.asked.values.parallel.world, old.asked.values.parallel.world
    if not new.gpus:
        return f"{now} rank{'s' if now > 1 else ''} instead of {was}: each holds more of the weights"
    if now > was:
        return f"{now} GPUs instead of {was}, which exchange the results of every layer"
    return f"{now} GPU{'s' if now > 1 else ''} instead of {was}: each holds more of the weights"


def hopeless(plan: Plan) -> str | None:
    """Why no placement can help: the weights alone are too large. None: one may."""
    for model in plan.models:
        weights = None if model.fits else _weights_over_all(plan, model)
        if weights is not None and weights[0] > weights[1]:
            return (
                f"{model.launch.name}: {weights[0]:.1f} GiB of weights, in as many parts as GPUs and heads allow, "
                f"are more than the {weights[1]:.1f} GiB of a GPU"
            )
    total = sum(card.total_gib.value for card in plan.cards)
    wanted = sum(_all_weights(model) for model in plan.models)
    if wanted > total:
        return f"{wanted:.0f} GiB of weights are more than the {total:.0f} GiB of all GPUs together"
    return None


def why_none(plan: Plan, keep: Mapping[str, int]) -> str:
    """The model that fits nowhere, even alone; else which one does not fit together with the others."""
    hopeless_because = hopeless(plan)
    if hopeless_because is not None:
        return hopeless_because
    failing = next(one for one in plan.models if not one.fits)
    name, kept = failing.launch.name, keep.get(failing.launch.name)
    if kept is not None:
        return f"{name} must take requests of {kept:,} tokens, and nothing was found with which they fit"
    others = [one.launch.name for one in plan.models if set(one.gpus) & set(failing.gpus) and one is not failing]
    beside = f" beside {', '.join(others)}" if others else ""
    reason = f": {failing.why_not.text}" if failing.why_not is not None else ""
    return f"no placement, share, order or length was found with which {name} starts{beside}{reason}"


def _weights_over_all(plan: Plan, model: PlacedModel) -> tuple[float, float] | None:
    """Weights on each GPU if it were cut as much as possible, and the size of the largest GPU."""
    values = model.asked.values
    each = values.parallel.pp * values.parallel.dp
    sizes = tensor_sizes(model.asked.shape, max(1, len(plan.cards) // each), cuts_experts=True)
    if not sizes:
        return None
    if model.worst is None:  # not even placed; what is offloaded or cut by stages is left to the plan that is
        if values.offload_gib or values.quantization is not None:
            return None
        weights = _gib_of(model) / values.parallel.pp / max(sizes)
    else:
        weights = _value(model.worst.parts.weights) * values.parallel.tp / max(sizes)
    return weights, max(card.total_gib.value for card in plan.cards)


def _gib_of(model: PlacedModel) -> float:
    return sum(part.size_bytes for part in model.asked.shape.weights) / 2**30


def _all_weights(model: PlacedModel) -> float:
    if not model.ranks and not model.asked.values.offload_gib and model.asked.values.quantization is None:
        return _gib_of(model)
    return sum(_value(memory.parts.weights) for memory in model.ranks.values())


def _room(memory: RankMemory | None) -> Room | None:
    return None if memory is None or isinstance(memory.room, Unknown) else memory.room


def _value(amount: Amount) -> float:
    return 0.0 if isinstance(amount, Unknown) else amount.value


def _range(amount: Amount) -> str:
    if isinstance(amount, Unknown):
        return "an unknown part"
    if round(amount.low, 1) == round(amount.value, 1):
        return f"{amount.value:.1f} GiB"
    return f"{amount.value:.1f} GiB (at least {amount.low:.1f})"


def _gpus(gpus: tuple[int, ...]) -> str:
    return f"GPU {', '.join(map(str, gpus))}"
