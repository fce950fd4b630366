"""What one worker of a model takes of its GPU under a release's own accounting, and what stops it. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.launch import Frozen
from engine_probe.memory.accounting_cpu import on_cpu
from engine_probe.memory.accounting_graphs import graphs_of
from engine_probe.memory.accounting_kv import Division, Room, room_of
from engine_probe.memory.accounting_result import Parts, RankMemory, covering, left_of
from engine_probe.memory.accounting_rules import outside_of, rules_of
from engine_probe.memory.accounting_values import batch_of
from engine_probe.memory.activation import Worker, activation_of
from engine_probe.memory.cards import CPU
from engine_probe.memory.estimates import Estimate, exact, total
from engine_probe.memory.learned import learned_parts, learned_room
from engine_probe.memory.limits import stops_start
from engine_probe.memory.limits_batch import refused_batch
from engine_probe.memory.rank_lora import lora_on_rank
from engine_probe.memory.rank_weights import weights_on_rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.memory.accounting_rules import Kind, Rules
    from engine_probe.memory.accounting_values import Batch, Values
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.learned import Correction
    from engine_probe.memory.limits import Neighbours
    from engine_probe.memory.model import ModelShape

GIB = 2**30
_DEFAULT_LENGTH = 2048
"""Of a model that names none (config/model.py, _get_and_verify_max_len)."""
_KERNELS = {"blackwell-rtx": "blackwell", "gb10": "blackwell", "cdna": "rocm"}
"""Families of the catalogue that load weights as another does."""


@dataclass(frozen=True)
class Asked:
    """One model of a plan. `version`: vLLM's, None where it is not known. `wants_v1`: as VLLM_USE_V1 says."""

    values: Values
    shape: ModelShape
    version: str | None
    wants_v1: bool | None = None
    learned: Mapping[str, Correction] = field(default_factory=Frozen)
    """What starts like this one printed, by quantity (learned.py): it goes before what is computed."""

    @property
    def max_len(self) -> int:
        """As asked for, else what the model was made for."""
        return self.values.max_len or self.shape.usual_length or self.shape.max_position or _DEFAULT_LENGTH


def rank_memory(asked: Asked, card: Card, rank: int, near: Neighbours) -> RankMemory:
    """Of a worker, numbered as vLLM does within a replica. With an unknown release the ranges cover all releases.

    Asked for only where nothing in the configuration refuses the model (limits.refused_by_config).
    """
    rows = rules_of(asked.version, asked.wants_v1)
    if card.family == CPU:
        return on_cpu(asked, rows[0], card, rank, near)
    weights = _weights(asked, rank, card.family)
    found = [_by_rules(asked, rules, card, rank, near, weights) for rules in rows]
    return found[0] if len(found) == 1 else covering(found, _counted_as(asked.version, rows[0]))


def _counted_as(version: str | None, newest: Rules) -> str:
    """The name of rules that are none's own."""
    return f"an unknown release of vLLM, counted as {'the newest' if version is None else newest.name}"


def _by_rules(asked: Asked, rules: Rules, card: Card, rank: int, near: Neighbours, weights: Amount) -> RankMemory:
    values = asked.values
    batch = batch_of(values, rules, asked.max_len, card.total_gib.value, counts_as_a100=card.counts_as_a100)
    parts = _parts(asked, rules, card, rank, batch, weights)
    share = values.utilization or rules.utilization
    budget = card.total_gib.scaled(share)
    taken = near.models_gib + (0.0 if isinstance(near.others_gib, Unknown) else near.others_gib.value)
    others = (near.others_gib, exact(near.models_gib, "computed: models that started before"))
    pool = _pool(parts, budget, asked, rules, taken)
    after_profile = left_of(card.total_gib, (*others, parts.context, parts.weights, parts.non_torch))
    once_more = (parts.sampler,) if rules.warms_up_sampler else ()
    by = Division(values, asked.shape, asked.version, batch, values.parallel.stage_of(rank), card.family)
    memory = RankMemory(
        rules=rules.name,
        total_gib=card.total_gib.value,
        utilization=share,
        parts=parts,
        batch=batch,
        budget=budget,
        kv_pool=pool,
        pool_is_fixed=values.kv_bytes is not None,
        taken_gib=taken,
        free_at_start=left_of(card.total_gib, (*others, parts.context)),
        after_profile=after_profile,
        after_warm_up=left_of(after_profile, (pool, parts.graphs, parts.stranded, *once_more)),
        max_len=asked.max_len,
        fits_length=values.fits_length,
        caches_anything=any(layer.kind != "none" for layer in asked.shape.layers),
        room=Unknown("there is no pool"),
        counts_others=rules.pool == "absolute",
    )
    memory = _with_room(memory, by, asked.learned)
    return replace(memory, why_not=refused_batch(asked, rules, batch) or stops_start(memory, rules, near))


def _parts(asked: Asked, rules: Rules, card: Card, rank: int, batch: Batch, weights: Amount) -> Parts:
    values, shape = asked.values, asked.shape
    stage = values.parallel.stage_of(rank)
    worker = Worker(card.family, is_first=stage == 0, is_last=stage == values.parallel.pp - 1)
    activation = activation_of(values, shape, rules, batch, worker)
    outside = outside_of(rules, card.family, _kind(values, shape))
    inside = rules.graphs_inside if values.estimates_graphs is None else values.estimates_graphs and rules.can_estimate
    none = exact(0.0, "computed: this release takes graphs into no account")
    computed = Parts(
        weights=weights,
        activation=activation.peak,
        graphs=graphs_of("captured", values, shape, rules, batch, card.family),
        graphs_in_budget=graphs_of("estimated", values, shape, rules, batch, card.family) if inside else none,
        non_torch=_non_torch(outside.non_torch, activation.stranded, rules),
        context=outside.context,
        stranded=activation.stranded,
        sampler=activation.sampler,
    )
    # what is printed is of the stage that needs most
    return learned_parts(computed, asked.learned) if values.parallel.pp == 1 else computed


def _with_room(memory: RankMemory, by: Division, learned: Mapping[str, Correction]) -> RankMemory:
    pool = memory.kv_pool
    if isinstance(pool, Unknown):
        return replace(memory, room=Unknown(pool.reason))
    if not memory.caches_anything:
        return replace(memory, room=Unknown("this model keeps no cache"))
    room = room_of(by, memory.max_len, pool.value)
    if memory.fits_length and isinstance(room, Room) and room.longest and not room.is_enough:
        return replace(memory, max_len=room.longest, room=room_of(by, room.longest, pool.value))
    return replace(memory, room=learned_room(room, learned) if isinstance(room, Room) else room)


def _pool(parts: Parts, budget: Estimate, asked: Asked, rules: Rules, taken_gib: float) -> Amount:
    if asked.values.kv_bytes is not None:
        return exact(asked.values.kv_bytes / GIB, "declared: kv-cache-memory-bytes")
    if "kv_pool_gib" in asked.learned and rules.pool != "absolute":
        return asked.learned["kv_pool_gib"].estimate()
    inside = [parts.weights, parts.activation, parts.non_torch, parts.graphs_in_budget]
    if rules.pool == "absolute":
        inside += [parts.context, exact(taken_gib, "computed: what others hold counts as its own")]
    return left_of(budget, inside)


def _non_torch(grown: Estimate, kept: Estimate, rules: Rules) -> Estimate:
    """From 0.29 on the blocks that torch cannot use are seen as consumed."""
    if rules.pool != "consumed":
        return grown
    return Estimate(grown.value + kept.value, grown.low + kept.low, grown.high + kept.high, grown.source)


def _weights(asked: Asked, rank: int, family: str) -> Amount:
    values = asked.values
    weights = weights_on_rank(
        asked.shape,
        values.parallel,
        rank,
        dtype=values.dtype,
        quantization=values.quantization,
        cpu_offload_gib=values.offload_gib,
        family=_KERNELS.get(family, family) if family != "unknown" else None,
    )
    if values.lora is None:
        return weights
    room = lora_on_rank(asked.shape, values.parallel, slots=values.lora.slots, rank=values.lora.rank)
    source = "" if isinstance(weights, Unknown) else weights.source
    return total((weights, room), f"{source}; room for {values.lora.slots} adapters {room.value:.2f} GiB")


def _kind(values: Values, shape: ModelShape) -> Kind:
    if values.parallel.tp > 1 or (values.parallel.dp > 1 and shape.experts):
        return "tp-moe" if shape.experts else "tp"
    return "pp" if values.parallel.pp > 1 else "one"
