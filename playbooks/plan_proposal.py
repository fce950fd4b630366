"""The fewest changes with which all models of a plan start, each with its reason; and what else would help.

advise(plan) is all of it; propose(plan) the changes alone, None where none are needed or none were found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from playbooks.placement import plan_of
from playbooks.plan_alternatives import alternatives_for
from playbooks.plan_proposal_room import Memory
from playbooks.plan_proposal_search import Search, bench_of, release_to_count_by
from playbooks.plan_proposal_words import costs_of, hopeless, why_none, why_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.changes import Change
    from engine_probe.launch import Deployment
    from playbooks.placement import LearnedOf, Plan
    from playbooks.plan_alternatives import Alternative
    from playbooks.plan_proposal_search import Found

_SERVES = ("load.is_serving is true",)


@dataclass(frozen=True)
class PlanChange:
    """One key set to one value; `launch` None: of the deployment. Value None: taken away."""

    launch: str | None
    key: str
    value: Change
    why: str
    costs: str
    expect: tuple[str, ...] = ()
    """Conditions as playbooks write them; none: nothing is loaded between it and the next."""


@dataclass(frozen=True)
class Proposal:
    """`plan` is that of `deployment`. `changes` in the order in which they are to be made."""

    changes: tuple[PlanChange, ...]
    deployment: Deployment
    plan: Plan
    margins_gib: Mapping[str, float]
    """By launch: what is left of its cache, or free on its GPU, at the unfavourable end of every range."""

    @property
    def is_safe(self) -> bool:
        """It fits at the unfavourable end of every range too, not in their middle alone."""
        return all(margin >= 0 for margin in self.margins_gib.values())


@dataclass(frozen=True)
class Advice:
    """`why_none`: why there is no proposal; None where there is one, or none is needed."""

    proposal: Proposal | None
    why_none: str | None
    alternatives: tuple[Alternative, ...]


def propose(plan: Plan, keep: Mapping[str, int] | None = None, learned_of: LearnedOf | None = None) -> Proposal | None:
    """`keep`: a max-model-len, by launch, that no proposal goes below; `learned_of`: as for the plan."""
    if plan.fits:
        return None
    memory = Memory()
    first = _countable(plan, memory)
    if hopeless(first) is not None:
        return None
    for is_strict in (True, False):
        found = Search(first, memory, keep or {}, learned_of, is_strict=is_strict).run()
        if found is not None:
            return _proposal(plan, found, memory)
    return None


def advise(plan: Plan, keep: Mapping[str, int] | None = None, learned_of: LearnedOf | None = None) -> Advice:
    """As `propose`, with the reason where nothing was found, and alternatives where a model does not start."""
    if plan.fits:
        return Advice(None, None, ())
    memory = Memory()
    first = _countable(plan, memory)
    proposal = propose(plan, keep, learned_of)
    alternatives = alternatives_for(first, memory)
    return Advice(proposal, None if proposal is not None else why_none(first, keep or {}), alternatives)


def _countable(plan: Plan, memory: Memory) -> Plan:
    """With the newest release's accounting where the release is not known: what the plan's middle counts by."""
    if plan.version is not None:
        return plan
    shapes = {model.launch.name: model.asked.shape for model in plan.models}
    return plan_of(plan.deployment, shapes, plan.cards, release_to_count_by(None), None, memory)


def _proposal(plan: Plan, found: Found, memory: Memory) -> Proposal | None:
    """Proved once more by the plan's own release."""
    after = found.plan
    if plan.version is None:
        shapes = {model.launch.name: model.asked.shape for model in plan.models}
        after = plan_of(found.plan.deployment, shapes, plan.cards, None)
        if not after.fits:
            return None
    counted = _countable(plan, memory)
    last = {step.launch: number for number, step in enumerate(found.steps)}
    changes = tuple(
        PlanChange(
            step.launch,
            step.key,
            step.value,
            why_of(step, counted, found.plan),
            costs_of(step, counted, found.plan),
            _SERVES if step.launch is not None and last[step.launch] == number else (),
        )
        for number, step in enumerate(found.steps)
    )
    touched = {step.launch for step in found.steps} | {one.launch.name for one in plan.models if not one.fits}
    return Proposal(changes, after.deployment, replace(after, host=after.host), _margins(found, memory, touched))


def _margins(found: Found, memory: Memory, touched: set[str | None]) -> dict[str, float]:
    bench = bench_of(found.plan, memory, {}, is_strict=True)
    margins: dict[str, float] = {}
    for model in found.plan.models:
        needs = bench.needs_of(model)
        if model.launch.name in touched and needs is not None:
            margins[model.launch.name] = round(bench.margin(found.plan, model, needs), 2)
    return margins
