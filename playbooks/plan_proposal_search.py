"""Looks for the fewest changes that make all models start: cheapest first, each candidate planned anew as proof."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.changes import change
from engine_probe.errors import InputError
from engine_probe.memory.accounting_rules import rules_of
from engine_probe.memory.cards import CPU
from playbooks.placement import plan_of
from playbooks.plan_proposal_bench import (
    GPUS,
    LENGTH,
    ORDER,
    SHARE,
    START,
    TENSOR,
    Bench,
    Move,
    Step,
    bounds_of,
    gpus_used,
    is_refused,
    near_of,
    sharers,
)
from playbooks.plan_proposal_budgets import moves_of_budgets
from playbooks.plan_proposal_moves import moves_elsewhere, moves_in_place, moves_of_all, moves_of_others
from playbooks.plan_proposal_sizing import moves_of_configuration, moves_of_order, moves_of_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine_probe.launch import Deployment
    from playbooks.placement import LearnedOf, PlacedModel, Plan
    from playbooks.plan_proposal_room import Memory

MOST_WORKERS, MOST_PLANS = 120, 16
"""That are computed at most, and planned at most with each of `_GREED`."""
_ONE_MODEL, _GREED = 1.0, (1.5, 10.0)
"""What each model that does not start yet will cost at least, and how much more that counts than what is spent: first a
search for the fewest changes, then, where that takes too long, one that goes on with what it has begun."""
_COSTS = {START: 0.9, GPUS: 1.0, ORDER: 1.05, SHARE: 1.1, TENSOR: 2.3}
_REPAIR, _OTHER = 0.6, 1.2
_EXPLICIT_GPUS, _SHARED_GPUS, _OTHERS_GPUS = 0.2, 0.05, 0.15
_SHORT = 8192
_LENGTH, _HALVED, _SET_BY_HAND = 1.2, 0.15, 0.3


@dataclass(frozen=True)
class Found:
    """`plan` is that of the changed deployment."""

    steps: Move
    plan: Plan
    is_strict: bool


class Search:
    """One look for a proposal: `first` is the plan as the person wrote it."""

    def __init__(
        self,
        first: Plan,
        memory: Memory,
        keep: Mapping[str, int],
        learned_of: LearnedOf | None = None,
        *,
        is_strict: bool,
    ) -> None:
        self._first = first
        self._shapes = {model.launch.name: model.asked.shape for model in first.models}
        self._memory = memory
        self._bench = replace(bench_of(first, memory, keep, is_strict=is_strict), learned_of=learned_of)
        self._failing = {model.launch.name for model in first.models if not model.fits}
        self._most = memory.computed + MOST_WORKERS
        self._plans = 0

    def run(self) -> Found | None:
        """The cheapest that holds; None where none does, or none was found in time."""
        for greed in _GREED:
            self._plans = 0
            found = self._run(greed)
            if found is not None or self._plans < MOST_PLANS:
                return found
        return None

    def _run(self, greed: float) -> Found | None:
        waiting: list[tuple[float, int, int, Move]] = [(0.0, 0, 0, ())]
        number = itertools.count(1)
        seen: set[frozenset[Step]] = set()
        while waiting and self._memory.computed < self._most and self._plans < MOST_PLANS:
            *_, steps = heapq.heappop(waiting)
            if frozenset(steps) in seen:
                continue
            seen.add(frozenset(steps))
            plan = self.planned(steps)
            if plan is None:
                continue
            lacking = self._lacking(plan, steps)
            if not lacking and not _races(self._bench, plan):
                return self._smallest(Found(steps, plan, self._bench.is_strict))
            ahead = {one.launch.name: self._ahead(one) for one in lacking}
            for move in self._moves(plan, lacking, steps):
                after = _merged(steps, move)
                if frozenset(after) not in seen:
                    helped = self._helped(plan, lacking, move)
                    left = sum(each for name, each in ahead.items() if name not in helped)
                    cost = self._cost(after) + greed * left
                    heapq.heappush(waiting, (round(cost, 6), -len(after), next(number), after))
        return None

    def planned(self, steps: Iterable[Step]) -> Plan | None:
        """None where a value cannot be."""
        self._plans += 1
        first, learned_of = self._first, self._bench.learned_of
        try:
            return plan_of(
                changed(first.deployment, steps),
                self._shapes,
                first.cards,
                first.version,
                None,
                self._memory,
                learned_of,
            )
        except InputError:
            return None

    def _helped(self, plan: Plan, lacking: list[PlacedModel], move: Move) -> set[str]:
        """Whom a move may help: the models that it changes, or those that share GPUs with them."""
        names = {step.launch for step in move}
        if None in names:
            return {one.launch.name for one in lacking}
        found = {one.launch.name for one in lacking if one.launch.name in names}
        if found:
            return found
        return {
            one.launch.name
            for one in lacking
            if any(other.launch.name in names for other in sharers(self._bench, plan, one))
        }

    def _ahead(self, model: PlacedModel) -> float:
        """What this one will cost at least: more, where no share of its GPUs is enough for it."""
        needs = self._bench.needs_of(model) or {}
        too_big = any(need.least > need.total - need.others for need in needs.values())
        return _COSTS[TENSOR] if too_big and model.asked.max_len <= _SHORT else _ONE_MODEL

    def _lacking(self, plan: Plan, steps: Move) -> list[PlacedModel]:
        """Those that do not start, and those touched by this that start by less than the doubts of the numbers."""
        touched = self._failing | {step.launch for step in steps}
        return [
            model
            for model in plan.models
            if not model.fits or (model.launch.name in touched and not self._is_safe(plan, model))
        ]

    def _is_safe(self, plan: Plan, model: PlacedModel) -> bool:
        gpus = gpus_used(self._bench, model)
        needs = self._bench.needs_of(model)
        if needs is None:
            return True  # the plan says that its pool is unknown
        least, most = bounds_of(needs, near_of(self._bench, plan, model.launch.name, gpus))
        share = min(memory.utilization for memory in model.ranks.values()) * 100
        return least - 1e-6 <= share <= most + 1e-6

    def _moves(self, plan: Plan, lacking: list[PlacedModel], steps: Move) -> Iterator[Move]:
        """For the first that lacks something: the others are looked at when it has it."""
        if _races(self._bench, plan):
            yield (Step(None, START, "sequential"),)
        if not lacking:
            return
        if not steps:
            yield from moves_of_all(self._bench, plan)
        model = lacking[0]
        if is_refused(model):
            yield from moves_of_configuration(self._bench, plan, model)
            return
        if plan.deployment.start == "sequential":
            yield from moves_in_place(self._bench, plan, model)
            yield from moves_of_budgets(self._bench, plan, model)
            if all(step.key not in _COSTS or step.key == START for step in steps):
                yield from moves_of_order(self._bench, plan, model)
        elif not sharers(self._bench, plan, model):
            yield from moves_in_place(self._bench, plan, model)
        yield from moves_elsewhere(self._bench, plan, model)
        yield from moves_of_others(self._bench, plan, model)
        yield from moves_of_size(self._bench, plan, model)

    def _cost(self, steps: Move) -> float:
        return sum(self._cost_of(step) for step in steps)

    def _cost_of(self, step: Step) -> float:
        if step.key == LENGTH and isinstance(step.value, int):
            model = next(one for one in self._first.models if one.launch.name == step.launch)
            before = model.asked.max_len
            refused = model.why_not is not None and model.why_not.id == "max-model-len-above-model-limit"
            by_hand = _SET_BY_HAND if model.asked.values.max_len and not refused else 0.0
            return _LENGTH + by_hand + _HALVED * max(0.0, math.log2(max(before, 1) / step.value))
        if step.key == GPUS and isinstance(step.value, tuple):
            launch = self._first.deployment.launch(step.launch or "")
            others = [
                one for one in self._first.models if one.launch.name != step.launch and set(one.gpus) & set(step.value)
            ]
            extra = _EXPLICIT_GPUS if launch is not None and launch.gpus is not None else 0.0
            extra += _SHARED_GPUS if others else 0.0
            return _COSTS[GPUS] + extra + (0.0 if step.launch in self._failing else _OTHERS_GPUS)
        if step.key in ("args.max-lora-rank", "args.num-gpu-blocks-override", "args.pipeline-parallel-size"):
            return _REPAIR
        return _COSTS.get(step.key, _OTHER)

    def _smallest(self, found: Found) -> Found:
        """Without any step that turns out to be needless."""
        for step in reversed(found.steps):
            fewer = tuple(one for one in found.steps if one != step)
            plan = self.planned(fewer) if fewer else None
            if plan is not None and not self._lacking(plan, fewer) and not _races(self._bench, plan):
                found = replace(found, steps=fewer, plan=plan)
        return replace(found, steps=_in_order(found.plan, found.steps))


def _races(bench: Bench, plan: Plan) -> bool:
    """Models on one GPU that start at once: which one finds what is free is chance."""
    return plan.deployment.start == "parallel" and any(sharers(bench, plan, model) for model in plan.models)


def changed(deployment: Deployment, steps: Iterable[Step]) -> Deployment:
    """Errors: InputError."""
    for step in steps:
        deployment = change(deployment, step.launch, step.key, step.value)
    return deployment


def _merged(steps: Move, move: Move) -> Move:
    """A later value of the same key takes the place of the one before."""
    found = {(step.launch, step.key): step for step in (*steps, *move)}
    return tuple(found.values())


def _in_order(plan: Plan, steps: Move) -> Move:
    """What concerns all first, then model by model as they start: of one, where it is before how much it takes."""
    names = [model.launch.name for model in plan.models]
    keys = [START, ORDER, GPUS, TENSOR, SHARE, LENGTH]

    def rank(step: Step) -> tuple[int, int]:
        return (
            -1 if step.launch is None else names.index(step.launch),
            keys.index(step.key) if step.key in keys else len(keys),
        )

    return tuple(sorted(steps, key=rank))


def bench_of(plan: Plan, memory: Memory, keep: Mapping[str, int], *, is_strict: bool) -> Bench:
    """For the cards of a plan."""
    on_cpu = any(card.family == CPU for card in plan.cards)
    return Bench({card.index: card for card in plan.cards}, memory, keep, is_strict, on_cpu)


def release_to_count_by(version: str | None) -> str:
    """The newest where it is not known: by which the middle of a plan's ranges counts."""
    return version or ".".join(map(str, rules_of(None)[0].first[:3]))
