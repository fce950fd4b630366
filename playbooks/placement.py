"""Several models on the GPUs of one host, in start order: who gets which GPU, what is there, what fails first."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.launch import Frozen
from engine_probe.memory.accounting import Asked, rank_memory
from engine_probe.memory.accounting_result import left_of
from engine_probe.memory.accounting_rules import newer_than_known
from engine_probe.memory.accounting_values import values_of
from engine_probe.memory.cards import CPU
from engine_probe.memory.limits import Neighbours, WhyNot, has_no_cache, refused_by_config
from engine_probe.memory.rank_weights import layer_count
from playbooks.placement_adapters import adapters_of
from playbooks.placement_host import HostNeeds, host_needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine_probe.hardware.host import HostState
    from engine_probe.launch import Deployment, Launch
    from engine_probe.memory.accounting_kv import Room
    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.learned import Correction
    from engine_probe.memory.model import ModelShape

    RankOf = Callable[[Asked, Card, int, Neighbours], RankMemory]
    """`rank_memory`, or one that remembers."""
    LearnedOf = Callable[[Launch, Card], Mapping[str, Correction]]


_CLOSE_GIB = 0.3
"""Graphs and activations are foretold to about that, in nine of ten of the starts that were looked at."""


@dataclass(frozen=True)
class PlacedModel:
    """One model of the plan. `ranks` are its workers by the GPU's index; `worst` is the one with the smallest pool."""

    launch: Launch
    asked: Asked
    gpus: tuple[int, ...]
    ranks: Mapping[int, RankMemory]
    worst: RankMemory | None
    why_not: WhyNot | None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return self.why_not is None

    @property
    def room(self) -> Room | None:
        """What its cache holds; None where it has none, or ends before it."""
        if self.worst is None or isinstance(self.worst.room, Unknown) or has_no_cache(self.why_not):
            return None
        return self.worst.room


@dataclass(frozen=True)
class Plan:
    """`cards`: as they are before any of the models starts."""

    deployment: Deployment
    cards: tuple[Card, ...]
    version: str | None
    models: tuple[PlacedModel, ...]
    host: HostNeeds
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return all(model.fits for model in self.models)


def plan_of(
    deployment: Deployment,
    shapes: Mapping[str, ModelShape],
    cards: Sequence[Card],
    version: str | None,
    host: HostState | None = None,
    rank_of: RankOf = rank_memory,
    learned_of: LearnedOf | None = None,
) -> Plan:
    """`shapes` by the launches' names; `host` where the plan is for this one; `learned_of`: what starts like a launch
    printed on such a card. Raises InputError for bad values.

    A model that does not start takes nothing from those after it. Started in parallel, all look at the GPUs before any
    of them has taken something.
    """
    at_once = deployment.start == "parallel"
    by_index = {card.index: card for card in cards}
    placed: list[PlacedModel] = []
    for launch in deployment.models:
        learned = _learned(launch, by_index, learned_of)
        asked = Asked(values_of(launch), shapes[launch.name], version, _wants_v1(launch), learned)
        before = [] if at_once else [model for model in placed if model.fits]
        placed.append(_placed(launch, asked, by_index, before, rank_of))
    models = tuple(_after_all(placed, by_index) if at_once else placed)
    needs = host_needs(models, host)
    newer = newer_than_known(version)
    return Plan(deployment, tuple(cards), version, models, needs, (*((newer,) if newer else ()), *needs.notes))


def _learned(launch: Launch, cards: Mapping[int, Card], learned_of: LearnedOf | None) -> Mapping[str, Correction]:
    """Cards of one launch are alike, or what was printed on one says nothing of the others."""
    mine = [cards[index] for index in launch.gpus or sorted(cards) if index in cards]
    if learned_of is None or not mine or len({card.name for card in mine}) > 1:
        return Frozen()
    return Frozen(learned_of(launch, mine[0]))


def _wants_v1(launch: Launch) -> bool | None:
    value = launch.env.get("VLLM_USE_V1")
    return None if value is None else value.strip() not in ("0", "false", "")


def _placed(
    launch: Launch, asked: Asked, cards: Mapping[int, Card], before: Sequence[PlacedModel], rank_of: RankOf
) -> PlacedModel:
    world = asked.values.parallel.world
    on_cpu = any(card.family == CPU for card in cards.values())
    gpus = launch.gpus if launch.gpus is not None else tuple(sorted(cards)[:world])
    refused = refused_by_config(asked.values, asked.shape)
    too_few = None if on_cpu else _too_few(launch, gpus, cards, world)
    if too_few is not None or (refused is not None and asked.values.parallel.pp > layer_count(asked.shape)):
        return PlacedModel(launch, asked, gpus, {}, None, refused or too_few, _left_out(asked))
    used = tuple(cards) if on_cpu else gpus[:world]
    ranks = _ranks(asked, used, cards, before, rank_of)
    worst = min(ranks.values(), key=_pool_order)
    failing = next((memory.why_not for memory in ranks.values() if memory.why_not is not None), None)
    notes = list(_left_out(asked))
    if len(_visible(gpus, cards)) < len(gpus) and not on_cpu:
        notes.append(_names_absent(gpus[len(_visible(gpus, cards))], cards))
    elif len(gpus) > world and not on_cpu:
        notes.append(f"GPUs {', '.join(map(str, gpus[world:]))} stay unused: its sizes need {world}")
    adapters = adapters_of(launch, asked)
    notes += adapters.notes
    why_not = refused or failing or adapters.why_not
    notes += _close_calls(ranks) if why_not is None else ()
    return PlacedModel(launch, asked, () if on_cpu else used, ranks, worst, why_not, tuple(notes))


def _left_out(asked: Asked) -> tuple[str, ...]:
    """What the arguments set and the sums do not count."""
    return tuple(f"not in these numbers: {one}" for one in asked.values.notes)


def _close_calls(ranks: Mapping[int, RankMemory]) -> tuple[str, ...]:
    """By the middle of the ranges it starts, but little is left where vLLM leaves no room on purpose."""
    left = [one.after_warm_up.value for one in ranks.values() if not isinstance(one.after_warm_up, Unknown)]
    if not left or min(left) >= _CLOSE_GIB:
        return ()
    return (f"close: {min(left):.1f} GiB are left in the warm-up, which is less than this can be told to",)


def _too_few(launch: Launch, gpus: tuple[int, ...], cards: Mapping[int, Card], world: int) -> WhyNot | None:
    visible = _visible(gpus, cards)
    if len(visible) < len(gpus) and len(visible) < world:
        text = _names_absent(gpus[len(visible)], cards)
        if not visible:
            return WhyNot("gpu-not-visible-in-container", f"{text}; so the model would see no GPU at all")
        seen = f"so the model would see {len(visible)} of the {world} GPUs that its sizes need"
        return WhyNot("multi-node-needs-ray-backend", f"{text}; {seen}")
    if len(gpus) >= world:
        return None
    names = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    sizes = " x ".join(f"{name} {size}" for name in names if isinstance(size := launch.arg(name), int) and size > 1)
    have = f"gpus names {len(gpus)}" if launch.gpus is not None else f"there are {len(gpus)}"
    return WhyNot("multi-node-needs-ray-backend", f"{sizes} needs {world} GPUs, and {have}")


def _visible(gpus: Sequence[int], cards: Mapping[int, Card]) -> tuple[int, ...]:
    """CUDA_VISIBLE_DEVICES ends for CUDA at the first index that is not there."""
    return tuple(itertools.takewhile(lambda gpu: gpu in cards, gpus))


def _names_absent(gpu: int, cards: Mapping[int, Card]) -> str:
    indices = sorted(cards)
    whole = indices == list(range(indices[0], indices[-1] + 1)) and len(indices) > 1
    allowed = f"{indices[0]} to {indices[-1]}" if whole else ", ".join(map(str, indices))
    there = f"there are {len(indices)}: {allowed}" if len(indices) > 1 else f"there is GPU {allowed} alone"
    return f"gpus names GPU {gpu}, and {there}"


def _ranks(
    asked: Asked, gpus: tuple[int, ...], cards: Mapping[int, Card], before: Sequence[PlacedModel], rank_of: RankOf
) -> dict[int, RankMemory]:
    """Workers that have the same stage, card and neighbours are computed once."""
    known: dict[object, RankMemory] = {}
    ranks: dict[int, RankMemory] = {}
    for place, gpu in enumerate(gpus):
        rank = place % asked.values.parallel.ranks
        near = _neighbours(cards[gpu], before)
        alike = (_alike(asked, rank), cards[gpu].model, cards[gpu].total_gib, near)
        if alike not in known:
            known[alike] = rank_of(asked, cards[gpu], rank, near)
        ranks[gpu] = known[alike]
    return ranks


def _alike(asked: Asked, rank: int) -> int:
    """Ranks of one stage hold the same, where tensor parallelism divides everything evenly; else each for itself."""
    parallel = asked.values.parallel
    uneven = parallel.expert_parallel and asked.shape.experts % parallel.expert_ranks
    return rank if uneven else parallel.stage_of(rank)


def _neighbours(card: Card, before: Sequence[PlacedModel]) -> Neighbours:
    there = [(model, _held(model, card)) for model in before if card.index in model.ranks]
    held = sum(amount.value for _, amount in there if not isinstance(amount, Unknown))
    return Neighbours(card.others_gib, held, tuple(model.launch.name for model, _ in there))


def _held(model: PlacedModel, card: Card) -> Amount:
    """By all of its workers on the card: one, but for CPUs, where they share the host's memory."""
    held = model.ranks[card.index].occupied
    if card.family != CPU or isinstance(held, Unknown):
        return held
    return held.scaled(model.asked.values.parallel.world)


def _pool_order(memory: RankMemory) -> tuple[int, float]:
    """The fewest blocks decide, then the smallest pool."""
    pool = memory.kv_pool
    blocks = 0 if isinstance(memory.room, Unknown) else memory.room.blocks
    return blocks, 0.0 if isinstance(pool, Unknown) else pool.value


def _after_all(placed: Sequence[PlacedModel], cards: Mapping[int, Card]) -> list[PlacedModel]:
    """Each passed its check while the card was empty; together they may take more than it has."""
    judged: list[PlacedModel] = []
    for model in placed:
        before = [one for one in judged if one.fits]
        judged.append(_beside(model, before, cards) if model.fits else model)
    return judged


def _beside(model: PlacedModel, before: Sequence[PlacedModel], cards: Mapping[int, Card]) -> PlacedModel:
    for gpu, memory in model.ranks.items():
        near = _neighbours(cards[gpu], before)
        own = memory.occupied
        if not near.models or isinstance(own, Unknown):
            continue
        others = 0.0 if isinstance(near.others_gib, Unknown) else near.others_gib.value
        lacking = own.value + near.models_gib + others - memory.total_gib
        if lacking > 0:
            text = (
                f"started together, {near.said()} and this one's {own.value:.1f} GiB are {lacking:.1f} GiB more than "
                f"GPU {gpu} has ({memory.total_gib:.1f} GiB); which of them runs out of memory is a race"
            )
            return replace(model, why_not=WhyNot("co-located-models-budgets-exceed-gpu", text))
    if any(_neighbours(cards[gpu], before).models for gpu in model.ranks):
        note = "started together, models on one GPU see each other's growth while they profile: start one after another"
        return replace(model, notes=(*model.notes, note))
    return model


def held_gib(plan: Plan, card: Card) -> tuple[tuple[str, Amount], ...]:
    """What each model that starts takes of a GPU, by name."""
    return tuple(
        (model.launch.name, _held(model, card)) for model in plan.models if model.fits and card.index in model.ranks
    )


def free_gib(plan: Plan, card: Card) -> Amount:
    """Of what torch sees of a GPU (the driver's own share is off), what neither other processes nor models that start
    hold, the models' CUDA contexts counted.
    """
    return left_of(card.total_gib, (card.others_gib, *(amount for _, amount in held_gib(plan, card))))
