"""A worker without a GPU: weights and cache lie in the host's memory (v1/worker/cpu_worker.py, platforms/cpu.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.flags import parse_version
from engine_probe.memory.accounting_kv import Division, room_of
from engine_probe.memory.accounting_result import Parts, RankMemory, left_of
from engine_probe.memory.accounting_values import Batch
from engine_probe.memory.estimates import Estimate, exact, total
from engine_probe.memory.limits import stops_start_on_cpu
from engine_probe.memory.limits_batch import refused_batch
from engine_probe.memory.rank_weights import weights_on_rank

if TYPE_CHECKING:
    from engine_probe.flags import Version
    from engine_probe.memory.accounting import Asked
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.accounting_values import Values
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.limits import Neighbours

GIB = 2**30
_NEWEST = (999, 0, 0)
_DEFAULT_SPACE_GIB, _DEFAULT_SPACE_SHARE = 4.0, 0.5
"""Of VLLM_CPU_KVCACHE_SPACE up to 0.11, and as a share of all memory from 0.13 on."""
_HALF_SINCE, _SHARE_SINCE = (0, 12), (0, 20)
"""From 0.20 on the pool is what a share of memory leaves, as on GPUs (platforms/cpu.py, 0.11.2, 0.13.0, 0.20.2)."""
_ZERO_IS_NONE_SINCE = (0, 10)
"""Before, VLLM_CPU_KVCACHE_SPACE=0 was as if it were not set (platforms/cpu.py, 0.9.2)."""
_PROCESS = Estimate(1.2, 0.6, 2.5, "declared: what a worker of 0.32.0 holds beside its weights")
_TOKENS, _SEQS = 2048, 128
"""A rank's defaults for a server (engine/arg_utils.py, get_batch_defaults, 0.11 on)."""


def on_cpu(asked: Asked, rules: Rules, card: Card, rank: int, near: Neighbours) -> RankMemory:
    """`card` stands for the host's memory, which all ranks share: what is left is left when all of them are there."""
    values = asked.values
    batch = _batch(values, rules, asked.max_len)
    none = exact(0.0, "declared: none on a CPU")
    weights = weights_on_rank(
        asked.shape, values.parallel, rank, dtype=values.dtype, quantization=values.quantization, family="cpu"
    )
    parts = Parts(weights, none, none, none, _PROCESS, none, none, none)
    share = values.utilization or rules.utilization
    budget = card.total_gib.scaled(share)
    release = (parse_version(asked.version) if asked.version else None) or _NEWEST
    space = _space_gib(values, release)
    pool = _pool(space, release, card, budget, parts)
    others = total((near.others_gib, exact(near.models_gib, "computed: models that started before")), "computed")
    world = values.parallel.world
    loaded = [_of_all(one, world) for one in (weights, parts.non_torch)]
    memory = RankMemory(
        rules=f"{rules.name} on CPUs",
        total_gib=card.total_gib.value,
        utilization=share,
        parts=parts,
        batch=batch,
        budget=budget,
        kv_pool=pool,
        pool_is_fixed=space is not None or release[:2] < _SHARE_SINCE,
        taken_gib=0.0 if isinstance(others, Unknown) else others.value,
        free_at_start=left_of(card.total_gib, (others,)),
        after_profile=left_of(card.total_gib, (others, *loaded)),
        after_warm_up=left_of(card.total_gib, (others, *loaded, _of_all(pool, world))),
        max_len=asked.max_len,
        fits_length=values.fits_length,
        caches_anything=any(layer.kind != "none" for layer in asked.shape.layers),
        room=Unknown("this model keeps no cache"),
    )
    if memory.caches_anything and not isinstance(pool, Unknown):
        by = Division(values, asked.shape, asked.version, batch, values.parallel.stage_of(rank), card.family)
        memory = replace(memory, room=room_of(by, memory.max_len, pool.value))
    return replace(memory, why_not=refused_batch(asked, rules, batch) or stops_start_on_cpu(memory, world))


def _of_all(amount: Amount, ranks: int) -> Amount:
    return amount if isinstance(amount, Unknown) else amount.scaled(ranks)


def _batch(values: Values, rules: Rules, max_len: int) -> Batch:
    ranks = values.parallel.ranks
    usual = _TOKENS * ranks
    if values.chunked_prefill is False:
        usual = max(usual, max_len)
    tokens = values.tokens or min(usual, (values.seqs or _SEQS * ranks) * max_len)
    return Batch(values.seqs or min(_SEQS * ranks, tokens), tokens, f"declared: defaults of {rules.name} on CPUs")


def _space_gib(values: Values, release: Version) -> float | None:
    """The variable goes before the argument, which releases before 0.20 do not know on CPUs."""
    if values.cpu_space_gib or (values.cpu_space_gib is not None and release[:2] >= _ZERO_IS_NONE_SINCE):
        return values.cpu_space_gib
    if values.kv_bytes is not None and release[:2] >= _SHARE_SINCE:
        return values.kv_bytes / GIB
    return None


def _pool(space: float | None, release: Version, card: Card, budget: Estimate, parts: Parts) -> Amount:
    if space is not None:
        return exact(space, "declared: VLLM_CPU_KVCACHE_SPACE or kv-cache-memory-bytes")
    if release[:2] >= _SHARE_SINCE:
        return left_of(budget, (parts.weights, parts.non_torch))
    if release[:2] >= _HALF_SINCE:
        half = card.total_gib.value * _DEFAULT_SPACE_SHARE
        return exact(half, "declared: default of VLLM_CPU_KVCACHE_SPACE in this release, on a host with one NUMA node")
    return exact(_DEFAULT_SPACE_GIB, "declared: default of VLLM_CPU_KVCACHE_SPACE in this release")
