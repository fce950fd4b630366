"""What stops a start, named as a playbook is, with the numbers: checked in the order in which vLLM would meet it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.facts import Unknown
from engine_probe.memory.rank_weights import layer_count

if TYPE_CHECKING:
    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.accounting_values import Values
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.model import ModelShape

_MOST_OF_A_CARD = 0.99
_WORTH_SAYING_GIB = 0.3
_SMALL_SAMPLER_GIB = 0.1
_ROUNDING_GIB = 1e-6


class WhyNot(NamedTuple):
    """`id` is a playbook's; `text` a sentence without its end."""

    id: str
    text: str


@dataclass(frozen=True)
class Neighbours:
    """What is on the card before this model starts, in GiB. `models` are those of the deployment, by name."""

    others_gib: Amount
    models_gib: float = 0.0
    models: tuple[str, ...] = ()

    def said(self) -> str:
        """Such as `qwen 73.5 GiB, other processes 2.0 GiB`."""
        parts = [f"{' and '.join(self.models)} {self.models_gib:.1f} GiB"] if self.models else []
        if not isinstance(self.others_gib, Unknown) and self.others_gib.value >= 0.05:
            parts.append(f"other processes {self.others_gib.value:.1f} GiB")
        return ", ".join(parts)


_BEFORE_THE_CACHE = frozenset({
    "utilization-too-low-for-weights",
    "utilization-exceeds-free-memory-at-startup",
    "gpu-memory-held-by-other-process",
    "co-located-models-budgets-exceed-gpu",
    "profiler-counts-other-processes",
    "kv-cache-bytes-exceed-memory",
    "host-ram-exhausted",
})  # fmt: skip


def has_no_cache(why_not: WhyNot | None) -> bool:
    """It ends for want of memory before its cache is there: what the cache would hold is nothing to be told."""
    return why_not is not None and why_not.id in _BEFORE_THE_CACHE


def refused_by_config(values: Values, shape: ModelShape) -> WhyNot | None:
    """What vLLM refuses before it looks at a GPU (config/model.py, verify_with_parallel_config)."""
    tp = values.parallel.tp
    if shape.attention_heads and shape.attention_heads % tp:
        sizes = [size for size in range(1, shape.attention_heads + 1) if shape.attention_heads % size == 0]
        near = ", ".join(str(size) for size in sizes if size <= max(8, tp))
        text = f"{shape.attention_heads} attention heads are not divisible by tensor-parallel-size {tp}"
        return WhyNot("heads-not-divisible-by-tp", f"{text} (possible: {near})")
    layers, stages = layer_count(shape), values.parallel.pp
    if stages > layers:
        return WhyNot("pp-exceeds-layers", f"pipeline-parallel-size {stages} is more than the model's {layers} layers")
    limit = shape.length_limit or shape.max_position
    if values.max_len and limit and values.max_len > limit and not values.allows_long:
        text = f"max-model-len {values.max_len} is above the {limit} tokens that the model was made for"
        return WhyNot("max-model-len-above-model-limit", text)
    if values.tokens and values.seqs and values.tokens < values.seqs:
        return too_few_tokens(values.tokens, values.seqs)
    if values.blocks == 0:
        return WhyNot("kv-cache-size-zero", "num-gpu-blocks-override 0 leaves no block for the KV cache")
    return None


def too_few_tokens(tokens: int, seqs: int, set_by: str = "") -> WhyNot:
    """Each sequence takes one token of a step at least (config/scheduler.py). `set_by`: behind the number."""
    text = f"max-num-batched-tokens {tokens}{set_by} is below max-num-seqs {seqs}"
    return WhyNot("batched-tokens-below-max-num-seqs", text)


def stops_start(memory: RankMemory, rules: Rules, near: Neighbours) -> WhyNot | None:
    """The first thing that fails on this GPU; None: it starts, by the middle of each range."""
    return (
        _weights_above_card(memory)
        or _share_not_free(memory, rules, near)
        or _weights_above_free(memory, near)
        or _no_pool(memory, rules, near)
        or _pool_above_free(memory, near)
        or _too_short(memory)
        or _no_room_for_warm_up(memory, rules)
    )


def stops_start_on_cpu(memory: RankMemory, ranks: int) -> WhyNot | None:
    """The same for the host's memory, which is taken as it is used, by all ranks together."""
    weights, left, pool = memory.parts.weights, memory.after_profile, memory.kv_pool
    each = f" in each of {ranks} ranks, which share the host's memory," if ranks > 1 else ""
    if not isinstance(weights, Unknown) and not isinstance(left, Unknown) and left.value < 0:
        process = "their processes" if ranks > 1 else "their process"
        text = (
            f"{weights.value:.1f} GiB of weights{each} and {process} need {-left.value:.1f} GiB more than is available"
        )
        return WhyNot("host-ram-exhausted", text)
    free = memory.free_at_start
    if not memory.pool_is_fixed and not isinstance(free, Unknown) and memory.budget.value > free.value + _ROUNDING_GIB:
        share = f"{memory.utilization:g} x {memory.total_gib:.1f} GiB"
        wanted = f"{memory.budget.value:.1f} GiB of host memory must be free at the start ({share})"
        text = f"{wanted}, and {free.value:.1f} are"
        return WhyNot("utilization-exceeds-free-memory-at-startup", text)
    if (
        not isinstance(pool, Unknown)
        and not isinstance(left, Unknown)
        and ranks * pool.value > left.value + _ROUNDING_GIB
    ):
        asked = "is set to" if memory.pool_is_fixed else "would be"
        text = (
            f"the KV cache {asked} {pool.value:.1f} GiB{each} and {left.value:.1f} GiB of host memory are left for it"
        )
        return WhyNot("kv-cache-bytes-exceed-memory", text)
    if not isinstance(pool, Unknown) and pool.value <= 0 and memory.caches_anything:
        text = f"the share of {memory.budget.value:.1f} GiB leaves nothing for the KV cache"
        return WhyNot("utilization-too-low-for-weights", text)
    return _too_short(memory)


def _share_not_free(memory: RankMemory, rules: Rules, near: Neighbours) -> WhyNot | None:
    free = memory.free_at_start
    if not rules.checks_free_memory or isinstance(free, Unknown) or free.value >= memory.budget.value:
        return None
    share = f"{memory.utilization:g} x {memory.total_gib:.1f} GiB"
    text = f"{memory.budget.value:.1f} GiB must be free at the start ({share}), and {_free(memory, near, 'are')}"
    highest = _highest_share(memory, free.value)
    if isinstance(memory.kv_pool, Unknown) or highest * memory.total_gib > memory.budget.value - memory.kv_pool.value:
        text += f"; gpu-memory-utilization up to {highest:g} would start"
    else:
        text += ", less than it needs without any KV cache"
    return WhyNot(_who_is_in_the_way(memory, near), text)


def _highest_share(memory: RankMemory, free_gib: float) -> float:
    """In hundredths: what passes the check and leaves room for the warm-up; each GiB less of it leaves one more."""
    room = memory.after_warm_up
    most = free_gib if isinstance(room, Unknown) else min(free_gib, memory.budget.value + room.value)
    return int(max(0.0, most) / memory.total_gib * 100) / 100


def _who_is_in_the_way(memory: RankMemory, near: Neighbours) -> str:
    """Whether the deployment asks for too much together, somebody else is there, or the share is too big by itself."""
    alone = memory.total_gib - memory.parts.context.value
    if near.models and alone >= memory.budget.value:
        return "co-located-models-budgets-exceed-gpu"
    others = near.others_gib
    if not isinstance(others, Unknown) and others.value > 1.0 and alone >= memory.budget.value:
        return "gpu-memory-held-by-other-process"
    return "utilization-exceeds-free-memory-at-startup"


def _weights_above_card(memory: RankMemory) -> WhyNot | None:
    weights = memory.parts.weights
    if isinstance(weights, Unknown) or weights.value <= _MOST_OF_A_CARD * memory.total_gib:
        return None
    text = (
        f"{weights.value:.1f} GiB of weights on each GPU are more than its {memory.total_gib:.1f} GiB; more GPUs, "
        "quantised weights or cpu-offload-gb would help, no share does"
    )
    return WhyNot("utilization-too-low-for-weights", text)


def _weights_above_free(memory: RankMemory, near: Neighbours) -> WhyNot | None:
    """Releases without a check at the start run into it while they load."""
    weights, free = memory.parts.weights, memory.free_at_start
    if isinstance(weights, Unknown) or isinstance(free, Unknown) or weights.value <= free.value:
        return None
    text = f"{weights.value:.1f} GiB of weights do not fit into the {_free(memory, near, 'that are free')}"
    return WhyNot("co-located-models-budgets-exceed-gpu" if near.models else "gpu-memory-held-by-other-process", text)


def _free(memory: RankMemory, near: Neighbours, verb: str) -> str:
    """As bars and `--json` count it, and as vLLM will see it."""
    before, seen = (0.0 if isinstance(one, Unknown) else one.value for one in (memory.free_gib, memory.free_at_start))
    text = f"{max(0.0, before):.1f} GiB {verb}"
    if near.said():
        text += f" beside {near.said()}"
    own = f"{max(0.0, seen):.1f}"
    return text if own == f"{max(0.0, before):.1f}" else f"{text}, {own} once its own CUDA context is there"


def _no_pool(memory: RankMemory, rules: Rules, near: Neighbours) -> WhyNot | None:
    pool = memory.kv_pool
    if isinstance(pool, Unknown) or pool.value > 0 or not memory.caches_anything:
        return None
    if rules.pool == "absolute" and near.said() and pool.value + memory.taken_gib > 0:
        return WhyNot(
            "profiler-counts-other-processes",
            f"this release takes what others hold ({near.said()}) off the budget of {memory.budget.value:.1f} GiB; "
            f"{pool.value:.1f} GiB are left for the KV cache",
        )
    return WhyNot(
        "utilization-too-low-for-weights",
        f"no memory for cache blocks: the budget of {memory.budget.value:.1f} GiB is smaller than "
        f"{memory.budget.value - pool.value:.1f} GiB of weights, activations and the rest",
    )


def _pool_above_free(memory: RankMemory, near: Neighbours) -> WhyNot | None:
    """A fixed size is taken without a look at what is free (v1/worker/gpu_worker.py, kv_cache_memory_bytes)."""
    pool, room = memory.kv_pool, memory.after_profile
    if not memory.pool_is_fixed or isinstance(pool, Unknown) or isinstance(room, Unknown) or pool.value <= room.value:
        return None
    said = near.said()
    return WhyNot(
        "kv-cache-bytes-exceed-memory",
        f"kv-cache-memory-bytes asks for {pool.value:.1f} GiB and {max(0.0, room.value):.1f} GiB are left"
        + (f" beside {said}" if said else ""),
    )


def _too_short(memory: RankMemory) -> WhyNot | None:
    pool, room = memory.kv_pool, memory.room
    if isinstance(pool, Unknown) or isinstance(room, Unknown) or room.is_enough:
        return None
    if memory.fits_length and room.longest:
        return None
    fitting = f"; {room.longest} tokens would fit" if room.longest else ""
    return WhyNot(
        "kv-cache-too-small-for-max-model-len",
        f"one request of {memory.max_len} tokens needs {room.needed_gib:.2f} GiB of KV cache and "
        f"{pool.value:.2f} GiB are left{fitting}",
    )


def _no_room_for_warm_up(memory: RankMemory, rules: Rules) -> WhyNot | None:
    """The pool is taken, and then comes what was not in the budget: graphs, and the sampler's run once more."""
    room, parts = memory.after_warm_up, memory.parts
    if isinstance(room, Unknown) or room.value >= 0:
        return None
    outside = f"CUDA graphs ({parts.graphs.value:.1f} GiB), CUDA's context ({parts.context.value:.1f} GiB)"
    if parts.stranded.value >= _WORTH_SAYING_GIB:
        outside += f", blocks that torch cannot use again ({parts.stranded.value:.1f} GiB)"
    lacks = f"{-room.value:.1f} GiB are missing in the warm-up"
    advice = "lie outside the budget; lower gpu-memory-utilization or max-num-seqs"
    if rules.warms_up_sampler and parts.sampler.value > _SMALL_SAMPLER_GIB:
        once_more = f"the sampler's run of {memory.batch.seqs} requests takes {parts.sampler.value:.1f} GiB once more"
        return WhyNot("sampler-warmup-oom-max-num-seqs", f"{lacks}: {once_more}, and {outside} {advice}")
    return WhyNot("cuda-graph-capture-oom", f"{lacks}: {outside} {advice}, or enforce-eager")
