"""What moves are made from: the cards of a plan, what each model needs of them, and which models share them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.facts import Unknown
from engine_probe.launch import Frozen
from engine_probe.memory.accounting_values import values_of
from engine_probe.memory.limits import Neighbours, refused_by_config
from playbooks.plan_proposal_room import Memory, most, need_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.changes import Change
    from engine_probe.launch import Launch
    from engine_probe.memory.accounting import Asked
    from engine_probe.memory.cards import Card
    from playbooks.placement import LearnedOf, PlacedModel, Plan
    from playbooks.plan_proposal_room import Need

SHARE, LENGTH, TENSOR = "args.gpu-memory-utilization", "args.max-model-len", "args.tensor-parallel-size"
ORDER, START, GPUS = "deployment.order", "deployment.start", "gpus"


class Step(NamedTuple):
    """One key set to one value; `launch` None: of the deployment."""

    launch: str | None
    key: str
    value: Change


Move = tuple[Step, ...]


@dataclass(frozen=True)
class Bench:
    """What moves are made from. `keep`: no max-model-len below this, by launch."""

    cards: Mapping[int, Card]
    memory: Memory
    keep: Mapping[str, int]
    is_strict: bool
    on_cpu: bool
    learned_of: LearnedOf | None = None

    def asked(self, model: PlacedModel, launch: Launch, gpus: Sequence[int]) -> Asked:
        """`model` with another launch on these GPUs, and what starts like that printed."""
        learned = self.learned_of(launch, self.cards[gpus[0]]) if self.learned_of is not None and gpus else {}
        return replace(model.asked, values=values_of(launch), learned=Frozen(learned))

    def needs(self, asked: Asked, gpus: Sequence[int]) -> dict[int, Need] | None:
        """Of each worker on its GPU; None where a pool is unknown."""
        found: dict[int, Need] = {}
        alike: dict[object, Need | None] = {}
        for place, gpu in enumerate(gpus):
            card, rank = self.cards[gpu], _rank(asked, place)
            key = (rank, card.model, card.total_gib, card.others_gib)
            if key not in alike:
                near = Neighbours(card.others_gib)
                memory = self.memory(asked, card, rank, near)
                alike[key] = need_of(memory, asked, card, near, is_strict=self.is_strict)
            need = alike[key]
            if need is None:
                return None
            found[gpu] = need
        return found

    def margin(self, plan: Plan, model: PlacedModel, needs: Mapping[int, Need]) -> float:
        """What its worst worker has left over, in GiB."""
        near = near_of(self, plan, model.launch.name, tuple(needs))
        return min(need.margin(near[gpu], model.ranks[gpu].utilization) for gpu, need in needs.items())

    def needs_of(self, model: PlacedModel) -> dict[int, Need] | None:
        """The same for a model where the plan has it: nothing is computed anew."""
        found: dict[int, Need] = {}
        alike: dict[int, Need | None] = {}
        for gpu, memory in model.ranks.items():
            if id(memory) not in alike:
                card = self.cards[gpu]
                known = not isinstance(card.others_gib, Unknown)
                held = memory.taken_gib - (card.others_gib.value if known else 0.0)  # type: ignore[union-attr]
                near = Neighbours(card.others_gib, held)
                alike[id(memory)] = need_of(memory, model.asked, card, near, is_strict=self.is_strict)
            need = alike[id(memory)]
            if need is None:
                return None
            found[gpu] = need
        return found


def _rank(asked: Asked, place: int) -> int:
    """The first of those that hold alike, as the plan asks for it too."""
    parallel = asked.values.parallel
    rank = place % parallel.ranks
    uneven = parallel.expert_parallel and asked.shape.experts % parallel.expert_ranks
    return rank if uneven else parallel.stage_of(rank) * parallel.tp


def gpus_used(bench: Bench, model: PlacedModel) -> tuple[int, ...]:
    """Of a model without GPUs: the one card that stands for the host's memory."""
    return tuple(bench.cards) if bench.on_cpu else model.gpus


def is_refused(model: PlacedModel) -> bool:
    """By its configuration alone, or because the GPUs that it names are not there."""
    refused = refused_by_config(model.asked.values, model.asked.shape)
    by_adapters = model.why_not is not None and model.why_not.id == "lora-rank-exceeds-max"
    return model.worst is None or refused is not None or by_adapters


def near_of(bench: Bench, plan: Plan, name: str, gpus: Sequence[int]) -> dict[int, float]:
    """What models that start before `name` would hold of these GPUs, in GiB."""
    found = dict.fromkeys(gpus, 0.0)
    for model in plan.models:
        if model.launch.name == name:
            break
        for gpu in gpus:
            if model.fits and gpu in model.ranks:
                found[gpu] += held_of(bench, model, gpu)
    return found


def held_of(bench: Bench, model: PlacedModel, gpu: int) -> float:
    """By all of its workers there, in GiB."""
    workers = model.asked.values.parallel.world if bench.on_cpu else 1
    return workers * most(model.ranks[gpu].occupied, is_strict=bench.is_strict)


def sharers(bench: Bench, plan: Plan, model: PlacedModel, gpus: Sequence[int] | None = None) -> list[PlacedModel]:
    """Other models that name one of its GPUs, whether they start or not."""
    own = set(gpus_used(bench, model) if gpus is None else gpus)
    return [one for one in plan.models if one.launch.name != model.launch.name and own & set(gpus_used(bench, one))]


def bounds_of(needs: Mapping[int, Need], near: Mapping[int, float], cache: float | None = None) -> tuple[int, int]:
    """Of all its workers together."""
    each = [need.bounds(near[gpu], cache) for gpu, need in needs.items()]
    return max(low for low, _ in each), min(high for _, high in each)
