"""A memory plan as one JSON object, whose keys scripts rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.facts import Unknown
from playbooks.placement import free_gib, held_gib

if TYPE_CHECKING:
    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel, Plan

SCHEMA = 1
SIZES = (
    "weights_gib",
    "activation_gib",
    "graphs_gib",
    "non_torch_gib",
    "context_gib",
    "budget_gib",
    "kv_pool_gib",
)


def as_object(plan: Plan, proposal: dict[str, Any] | None = None) -> dict[str, Any]:
    """null is unknown; sizes in GiB, of the worst rank's GPU."""
    return {
        "schema": SCHEMA,
        "fits": plan.fits,
        "vllm_version": plan.version,
        "start": plan.deployment.start,
        "gpus": [_gpu(plan, card) for card in plan.cards],
        "models": [_model(model) for model in plan.models],
        "host": plan.host.as_object(),
        "notes": list(plan.notes),
        "proposal": proposal,
    }


def _gpu(plan: Plan, card: Card) -> dict[str, Any]:
    held = held_gib(plan, card)
    others = _value(card.others_gib)
    models = [{"name": name, "gib": _value(amount)} for name, amount in held]
    return {
        "index": card.index,
        "name": card.name,
        "total_gib": round(card.total_gib.value, 3),
        "used_by_others_gib": others,
        "models": models,
        "free_gib": _value(free_gib(plan, card)),
    }


def _model(model: PlacedModel) -> dict[str, Any]:
    memory = model.worst
    return {
        "name": model.launch.name,
        "fits": model.fits,
        "why_not": None if model.why_not is None else {"id": model.why_not.id, "text": model.why_not.text},
        "gpus": list(model.gpus),
        **_sizes(memory),
        **_cache(model),
        "range": {} if memory is None else _ranges(memory),
        "sources": {} if memory is None else _sources(memory),
        "notes": list(model.notes),
        "doubts": list(model.asked.shape.doubts),
    }


def _amounts(memory: RankMemory) -> dict[str, Amount]:
    parts = memory.parts
    return {
        "weights_gib": parts.weights,
        "activation_gib": parts.activation,
        "graphs_gib": parts.graphs,
        "non_torch_gib": parts.non_torch,
        "context_gib": parts.context,
        "budget_gib": memory.budget,
        "kv_pool_gib": memory.kv_pool,
    }


def _sizes(memory: RankMemory | None) -> dict[str, float | None]:
    return dict.fromkeys(SIZES) if memory is None else {name: _value(one) for name, one in _amounts(memory).items()}


def _cache(model: PlacedModel) -> dict[str, Any]:
    """What a cache would hold is null where the model ends before it has one."""
    memory, room = model.worst, model.room
    made = None if memory is None or isinstance(memory.room, Unknown) else memory.room
    return {
        "kv_bytes_per_token": None if made is None else made.bytes_per_token,
        "kv_tokens": None if room is None else room.tokens,
        "max_concurrency": None if room is None else round(room.concurrency, 2),
        "kv_blocks": None if room is None else room.blocks,
        "block_size": None if made is None else made.block_size,
        "max_model_len": None if memory is None else memory.max_len,
        "longest_model_len": None if room is None else room.longest,
        "max_num_seqs": None if memory is None else memory.batch.seqs,
        "max_num_batched_tokens": None if memory is None else memory.batch.tokens,
        "utilization": None if memory is None else memory.utilization,
    }


def _ranges(memory: RankMemory) -> dict[str, list[float]]:
    return {
        name: [round(one.low, 3), round(one.high, 3)]
        for name, one in _amounts(memory).items()
        if not isinstance(one, Unknown) and one.low != one.high
    }


def _sources(memory: RankMemory) -> dict[str, str]:
    return {
        **{
            name: f"unknown: {one.reason}" if isinstance(one, Unknown) else one.source
            for name, one in _amounts(memory).items()
        },
        "accounting": f"declared: {memory.rules}",
        "max_num_seqs": memory.batch.source,
    }


def _value(amount: Amount) -> float | None:
    return None if isinstance(amount, Unknown) else round(amount.value, 3)
