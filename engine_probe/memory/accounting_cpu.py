"""A worker without a GPU: weights and cache lie in the host's memory (v1/worker/cpu_worker.py, platforms/cpu.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.accounting_kv import Division, room_of
from engine_probe.memory.accounting_result import Parts, RankMemory, left_of
from engine_probe.memory.accounting_values import Batch
from engine_probe.memory.estimates import Estimate, exact, total
from engine_probe.memory.limits import stops_start_on_cpu
from engine_probe.memory.rank_weights import weights_on_rank

if TYPE_CHECKING:
    from engine_probe.memory.accounting import Asked
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.accounting_values import Values
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.limits import Neighbours

GIB = 2**30
_DEFAULT_SPACE_GIB = 4.0
"""Of VLLM_CPU_KVCACHE_SPACE, until the share of memory took its place (0.20.2)."""
_SHARE_SINCE = (0, 20)
_PROCESS = Estimate(1.2, 0.6, 2.5, "declared: what a worker of 0.32.0 holds beside its weights")
_TOKENS, _SEQS = 2048, 128
"""A rank's defaults for a server (engine/arg_utils.py, get_batch_defaults, 0.11 on)."""


def on_cpu(asked: Asked, rules: Rules, card: Card, rank: int, near: Neighbours) -> RankMemory:
    """`card` stands for the host's memory, which all ranks share."""
    values = asked.values
    ranks = values.parallel.ranks
    tokens = values.tokens or _TOKENS * ranks
    batch = Batch(values.seqs or min(_SEQS * ranks, tokens), tokens, f"declared: defaults of {rules.name} on CPUs")
    none = exact(0.0, "declared: none on a CPU")
    weights = weights_on_rank(
        asked.shape, values.parallel, rank, dtype=values.dtype, quantization=values.quantization, family="cpu"
    )
    parts = Parts(weights, none, none, none, _PROCESS, none, none, none)
    share = values.utilization or rules.utilization
    budget = card.total_gib.scaled(share)
    pool = _pool(values, rules, budget, parts)
    others = total((near.others_gib, exact(near.models_gib, "computed: models that started before")), "computed")
    memory = RankMemory(
        rules=f"{rules.name} on CPUs",
        total_gib=card.total_gib.value,
        utilization=share,
        parts=parts,
        batch=batch,
        budget=budget,
        kv_pool=pool,
        pool_is_fixed=_space_gib(values) is not None or not _takes_share(rules),
        taken_gib=0.0 if isinstance(others, Unknown) else others.value,
        free_at_start=left_of(card.total_gib, (others,)),
        after_profile=left_of(card.total_gib, (others, weights, parts.non_torch)),
        after_warm_up=left_of(card.total_gib, (others, weights, parts.non_torch, pool)),
        max_len=asked.max_len,
        fits_length=values.fits_length,
        caches_anything=any(layer.kind != "none" for layer in asked.shape.layers),
        room=Unknown("this model keeps no cache"),
    )
    if memory.caches_anything and not isinstance(pool, Unknown):
        by = Division(values, asked.shape, asked.version, batch, values.parallel.stage_of(rank), card.family)
        memory = replace(memory, room=room_of(by, memory.max_len, pool.value))
    return replace(memory, why_not=stops_start_on_cpu(memory))


def _space_gib(values: Values) -> float | None:
    if values.kv_bytes is not None:
        return values.kv_bytes / GIB
    return values.cpu_space_gib


def _takes_share(rules: Rules) -> bool:
    return rules.first[:2] >= _SHARE_SINCE


def _pool(values: Values, rules: Rules, budget: Estimate, parts: Parts) -> Amount:
    space = _space_gib(values)
    if space is not None:
        return exact(space, "declared: kv-cache-memory-bytes or VLLM_CPU_KVCACHE_SPACE")
    if not _takes_share(rules):
        return exact(_DEFAULT_SPACE_GIB, f"declared: default of VLLM_CPU_KVCACHE_SPACE in {rules.name}")
    return left_of(budget, (parts.weights, parts.non_torch))
