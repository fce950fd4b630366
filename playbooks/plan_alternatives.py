"""What else would let a model start, or have more room: each with what it buys and costs by a plan of its own.

None of them is applied: they change answers, speed or hardware, which is for a person to decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.changes import change
from engine_probe.errors import InputError
from engine_probe.facts import Unknown
from engine_probe.flags import parse_version
from engine_probe.memory.cards import CPU
from playbooks.placement import plan_of
from playbooks.plan_proposal_sizes import lengths_below, tensor_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.changes import Change
    from engine_probe.memory.accounting_kv import Room
    from engine_probe.memory.model import ModelShape
    from playbooks.placement import PlacedModel, Plan
    from playbooks.plan_proposal_room import Memory

_MOST_MODELS, _MOST_CARDS = 2, 64
_OWN_GPUS = "own-gpus"
_WORTH_SAYING_GIB, _WORTH_SAYING_TOKENS = 0.2, 2048
_FP8_CACHE_CAPABILITY = 8.9
_FP8_CACHE_SINCE = (0, 9)
"""In V1 (attention backends of 0.9: FlashAttention 3 on Hopper, FlashInfer, Triton); V0 had it before."""
_SCALES = 0.25
"""Bits a weight for scales and zero points: 32 of them for a group of 128."""
_BYTES = {"float32": 4, "float": 4}
_GIB = 2**30


@dataclass(frozen=True)
class Alternative:
    """`set` None: no argument does it, and `what` says what is wanted. Sizes are gained, compared with the plan.

    `fits`: this model then starts; `all_fit`: all of them do.
    """

    launch: str
    kind: str
    what: str
    set: Mapping[str, Change] | None
    fits: bool
    all_fit: bool
    weights_gib: float | None
    pool_gib: float | None
    tokens: int | None
    concurrency: float | None
    """Of requests of full length, then."""
    costs: str


@dataclass(frozen=True)
class _Idea:
    kind: str
    what: str
    set: Mapping[str, Change] | None
    costs: str
    shape: ModelShape | None = None
    cards: int | None = None


def alternatives_for(plan: Plan, memory: Memory) -> tuple[Alternative, ...]:
    """For the first models that do not start: what lets all start goes first, then what lets this one."""
    failing = [model for model in plan.models if not model.fits and model.worst is not None][:_MOST_MODELS]
    tried = [_tried(plan, model, idea, memory) for model in failing for idea in _ideas(plan, model)]
    found = [one for one in tried if one is not None and _buys_something(one)]
    alone = [one for one in found if one.kind == _OWN_GPUS]
    fewest = [next(one for one in alone if one.launch == name) for name in dict.fromkeys(one.launch for one in alone)]
    rest = [one for one in found if one.kind != _OWN_GPUS]
    return tuple(sorted((*rest, *fewest), key=lambda one: (not one.all_fit, not one.fits)))


def _buys_something(one: Alternative) -> bool:
    gained = [size or 0.0 for size in (one.weights_gib, one.pool_gib)]
    return one.fits or max(gained) >= _WORTH_SAYING_GIB or (one.tokens or 0) >= _WORTH_SAYING_TOKENS


def _ideas(plan: Plan, model: PlacedModel) -> Iterator[_Idea]:
    """In the order in which they cost."""
    values, memory = model.asked.values, model.worst
    assert memory is not None
    yield from _shorter(model)
    if memory.batch.seqs > 64:
        yield _Idea("fewer-sequences", "max-num-seqs 64", {"args.max-num-seqs": 64}, "at most 64 requests in one step")
    if memory.batch.tokens > 2048 and (values.chunked_prefill is not False):
        yield _Idea(
            "fewer-batched-tokens", "max-num-batched-tokens 2048", {"args.max-num-batched-tokens": 2048},
            "long prompts are read in more steps: the first token comes later",
        )  # fmt: skip
    if memory.parts.graphs.value > 0.05:
        yield _Idea(
            "enforce-eager",
            "enforce-eager",
            {"args.enforce-eager": True},
            "no CUDA graphs: slower, most with small batches",
        )
    if _may_have_fp8_cache(plan, model):
        yield _Idea(
            "fp8-kv-cache", "kv-cache-dtype fp8", {"args.kv-cache-dtype": "fp8"}, "some accuracy; compare answers first"
        )
    yield from _quantised(model)
    yield from _offloaded(model)
    yield from _own_cards(plan, model)


def _shorter(model: PlacedModel) -> Iterator[_Idea]:
    half = next(iter(lengths_below(model.asked.max_len // 2 + 1, 16)), None)
    room = model.worst.room if model.worst is not None else None
    if room is None or isinstance(room, Unknown) or half is None or model.asked.values.fits_length:
        return
    fitting = next(iter(lengths_below(room.longest + 1, 16)), None) if not room.is_enough and room.longest else None
    length = min(half, fitting or half)
    yield _Idea(
        "shorter-length", f"max-model-len {length}", {"args.max-model-len": length},
        f"requests of more than {length:,} tokens are refused",
    )  # fmt: skip


def _may_have_fp8_cache(plan: Plan, model: PlacedModel) -> bool:
    cards = [card for card in plan.cards if card.index in model.ranks]
    release = parse_version(plan.version or "") or (999,)
    capable = all(card.family != CPU and (card.model.capability or 0.0) >= _FP8_CACHE_CAPABILITY for card in cards)
    has_cache = any(layer.kind in ("full", "sliding", "chunked") for layer in model.asked.shape.layers)
    is_fp8 = (model.asked.values.kv_cache_dtype or model.asked.shape.kv_cache_dtype or "").startswith("fp8")
    return capable and has_cache and not is_fp8 and tuple(release[:2]) >= _FP8_CACHE_SINCE


def _quantised(model: PlacedModel) -> Iterator[_Idea]:
    """Checkpoints that would have to be found or made; the matrices that are converted are those of the decoder."""
    shape, values = model.asked.shape, model.asked.values
    if shape.quantization is not None or values.quantization is not None:
        return
    width = 8 * _BYTES.get(values.dtype or shape.dtype, 2)
    for bits, kind, what in (
        (8.0, "quantised-8-bit", "a checkpoint of 8 bits a weight (FP8 or W8A8)"),
        (4.0 + _SCALES, "quantised-4-bit", "a checkpoint of 4 bits a weight (AWQ or GPTQ, groups of 128)"),
    ):
        smaller = tuple(
            replace(
                part,
                size_bytes=part.size_bytes - int(part.linear_floats * (width - bits) / 8),
                floats=part.floats - part.linear_floats,
                linear_floats=0,
            )
            for part in shape.weights
        )
        if smaller != shape.weights:
            size = sum(part.size_bytes for part in smaller) / _GIB
            yield _Idea(
                kind, f"{what}, about {size:.1f} GiB in all", None,
                "another checkpoint; some accuracy, compare answers first", replace(shape, weights=smaller),
            )  # fmt: skip


def _offloaded(model: PlacedModel) -> Iterator[_Idea]:
    """As much of the weights as is missing, and a request of full length."""
    memory, values = model.worst, model.asked.values
    if memory is None or isinstance(memory.kv_pool, Unknown) or isinstance(memory.parts.weights, Unknown):
        return
    needed = 0.0 if isinstance(memory.room, Unknown) else memory.room.needed_gib
    lacking = math.ceil(needed - memory.kv_pool.low)
    if 0 < lacking < memory.parts.weights.value and not memory.rules.endswith("on CPUs"):
        more = int(values.offload_gib) + lacking
        yield _Idea(
            "cpu-offload", f"cpu-offload-gb {more}", {"args.cpu-offload-gb": more},
            f"{lacking} GiB on each GPU cross the bus in every step: many times slower; as much pinned host memory",
        )  # fmt: skip


def _own_cards(plan: Plan, model: PlacedModel) -> Iterator[_Idea]:
    """Every size that it can be cut into, on cards like these."""
    values, shape = model.asked.values, model.asked.shape
    each = values.parallel.pp * values.parallel.dp
    if any(card.family == CPU for card in plan.cards):
        return
    for size in tensor_sizes(shape, _MOST_CARDS // each, cuts_experts=not values.parallel.expert_parallel):
        if size & (size - 1) == 0:
            count = size * each
            words = "one GPU like these" if count == 1 else f"{count} GPUs like these"
            cut = f"tensor-parallel-size {size}"
            costs = words if count == 1 else f"{words}, which exchange the results of every layer"
            yield _Idea(_OWN_GPUS, f"{words} that nobody else has ({cut})", None, costs, None, size)


def _tried(plan: Plan, model: PlacedModel, idea: _Idea, memory: Memory) -> Alternative | None:
    """None where it cannot be, or where it changes nothing of what the model lacks."""
    try:
        after = _alone(plan, model, idea, memory) if idea.cards is not None else _changed(plan, model, idea, memory)
    except InputError:
        return None
    new = next(one for one in after.models if one.launch.name == model.launch.name)
    if new.worst is None or (idea.cards is not None and not new.fits):
        return None
    was, now = _room(model), _room(new)
    weights, pool = _gained(model, new)
    return Alternative(
        launch=model.launch.name,
        kind=idea.kind,
        what=idea.what,
        set=idea.set,
        fits=new.fits,
        all_fit=after.fits and idea.cards is None,
        weights_gib=weights,
        pool_gib=pool,
        tokens=None if now is None else now.tokens - (was.tokens if was is not None else 0),
        concurrency=None if now is None else round(now.concurrency, 2),
        costs=idea.costs,
    )


def _changed(plan: Plan, model: PlacedModel, idea: _Idea, memory: Memory) -> Plan:
    deployment = plan.deployment
    for key, value in (idea.set or {}).items():
        deployment = change(deployment, model.launch.name, key, value)
    shapes = {one.launch.name: one.asked.shape for one in plan.models}
    if idea.shape is not None:
        shapes[model.launch.name] = idea.shape
        memory.keep(idea.shape)
    return plan_of(deployment, shapes, plan.cards, plan.version, None, memory)


def _alone(plan: Plan, model: PlacedModel, idea: _Idea, memory: Memory) -> Plan:
    """On cards like its own that nobody else is on."""
    parallel = model.asked.values.parallel
    size = idea.cards or 1
    launch = model.launch.with_arg("tensor-parallel-size", size).with_gpus(None)
    card = next(card for card in plan.cards if card.index in model.ranks)
    cards = [replace(card, index=index) for index in range(size * parallel.pp * parallel.dp)]
    deployment = replace(plan.deployment, models=(launch,))
    return plan_of(deployment, {launch.name: model.asked.shape}, cards, plan.version, None, memory)


def _gained(model: PlacedModel, new: PlacedModel) -> tuple[float | None, float | None]:
    """GiB on each GPU that weights no longer take, and that the cache gets more."""
    assert model.worst is not None
    assert new.worst is not None
    found: list[float | None] = []
    for one, other in (
        (model.worst.parts.weights, new.worst.parts.weights),
        (new.worst.kv_pool, model.worst.kv_pool),
    ):
        known = not isinstance(one, Unknown) and not isinstance(other, Unknown)
        found.append(round(one.value - other.value, 2) if known else None)  # type: ignore[union-attr]
    return found[0], found[1]


def _room(model: PlacedModel) -> Room | None:
    return None if model.worst is None or isinstance(model.worst.room, Unknown) else model.worst.room
