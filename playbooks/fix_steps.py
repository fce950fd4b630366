"""Fixes in ordered steps, where only several changes together help: each is one variable with its own expectation."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from engine_probe.deployment import diff
from engine_probe.errors import InputError
from engine_probe.outside.keys import checked_outside, is_outside
from playbooks.context import captured_of
from playbooks.filling import fill, with_filled_keys
from playbooks.fix_words import Change, old_value, promises_of, title_of
from playbooks.outside_fixes import changed as deployment_after
from playbooks.outside_fixes import lookup_for_key, shown
from playbooks.patterns import to_value
from playbooks.session import FixStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment
    from playbooks.conditions import Lookup
    from playbooks.schema import Fix
    from playbooks.schema import FixStep as StepSpec
    from playbooks.session import Cause, FixOption, Session


def steps_of(option: FixOption, session: Session) -> tuple[FixStep, ...]:
    """What is to be done for a fix, in order: its steps, or the one change that it is."""
    if option.steps:
        return option.steps
    launch = option.launch or session.model
    one = FixStep(launch, option.key, option.old_value, option.new_value, option.title, option.diff)
    return (replace(one, commands=option.commands, way_back=option.way_back),)


def with_steps(option: FixOption, spec: Fix, cause: Cause, session: Session, lookup: Lookup) -> FixOption:
    """`option` with the steps of `spec`, the difference of all, and a title that names them; greyed with the reason.

    A step whose value is set already is left out: the others are then all that there is to do.
    """
    deployment = session.deployment
    found: list[FixStep] = []
    expect, promises = option.expect, option.promises
    try:
        for one, changed in _changes(spec, session, lookup):
            after = deployment_after(deployment, changed.launch, changed.key, to_value(changed.value))
            facts = _facts(session, cause, changed.launch)
            if after != deployment or is_outside(changed.key):
                found.append(_step(one, changed, deployment, after, facts))
                expect = tuple(dict.fromkeys((*one.expect, *spec.expect)))
                promises = promises_of(expect, deployment, facts, changed)
            deployment = after
    except InputError as error:
        return replace(option, unavailable=option.unavailable or str(error))
    if not found:
        return replace(option, unavailable=option.unavailable or "all of it is that already")
    launches = {one.launch for one in found}
    return replace(
        option,
        steps=tuple(found),
        launch=found[-1].launch if len(launches) == 1 else None,
        title=_title(found),
        diff=(*diff(session.deployment, deployment), *(line for one in found if one.commands for line in one.diff)),
        commands=tuple(line for one in found for line in one.commands),
        way_back=tuple(line for one in reversed(found) for line in one.way_back),
        expect=expect,
        promises=promises,
    )


def _changes(spec: Fix, session: Session, lookup: Lookup) -> Iterator[tuple[StepSpec, Change]]:
    """Each step with its change; one whose `launch` is a fact with several names is done for each of them."""
    known = {launch.name for launch in session.deployment.models}
    for one in spec.steps:
        text = fill(one.launch, lookup) if one.launch else session.model
        names = [text] if text in known or not known.issuperset(text.split()) else text.split()
        yield from ((one, _change(one, name, lookup)) for name in names)


def _change(spec: StepSpec, launch: str, lookup: Lookup) -> Change:
    ((key, template),) = with_filled_keys(spec.set, lookup).items()
    value = fill(str(template), lookup_for_key(lookup, key))
    return Change(launch, key, checked_outside(key, value) if is_outside(key) else value)


def _step(spec: StepSpec, changed: Change, before: Deployment, after: Deployment, facts: Mapping[str, Fact]) -> FixStep:
    step = FixStep(
        launch=changed.launch,
        key=changed.key,
        old_value=old_value(before, changed.launch, changed.key, facts),
        new_value=changed.value,
        title=title_of(before, facts, changed),
        diff=tuple(diff(before, after)),
        expect=tuple(spec.expect),
        promises=promises_of(spec.expect, before, facts, changed),
    )
    if not is_outside(changed.key):
        return step
    told = shown(changed.key, changed.value, facts)
    return replace(step, diff=told.diff, commands=told.commands, way_back=told.way_back)


def _facts(session: Session, cause: Cause, launch: str) -> dict[str, Fact]:
    """What is known of the launch: of another than the one that failed, only what the host tells."""
    if launch == session.model:
        return {**session.facts, **captured_of(session, cause.id)}
    return {name: fact for name, fact in session.facts.items() if name.startswith(("host.", "engine.vllm_version"))}


def _title(steps: list[FixStep]) -> str:
    """`gpu-memory-utilization of chat: 0.9 → 0.47, then of code: 0.9 → 0.47 (2 steps)`."""
    words = [steps[0].title]
    for before, one in pairwise(steps):
        name = f"{one.key.partition('.')[2] or one.key} "
        words.append("then " + (one.title.removeprefix(name) if one.key == before.key else one.title))
    count = f" ({len(steps)} steps)" if len(steps) > 1 else ""
    return ", ".join(words) + count
