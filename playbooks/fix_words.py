"""What one change says of itself: its old value, its title, and what it promises, with the values that it would set."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine_probe.changes import UNSET
from engine_probe.errors import InputError
from engine_probe.facts import Known
from engine_probe.outside.keys import is_outside
from playbooks import wording
from playbooks.conditions import show
from playbooks.context import launch_named
from playbooks.facts import lookup_for, number_or_text
from playbooks.outside_fixes import NOT_KNOWN, changed, shown
from playbooks.patterns import to_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment
    from playbooks.session import FixOption

# What vLLM takes when the key is not set, as it printed it on this start.
_IN_FORCE = {"args.max-model-len": "engine.max_model_len", "args.dtype": "engine.dtype"}


class Change(NamedTuple):
    """One variable of one launch."""

    launch: str
    key: str
    value: str


def risk_of(fix: FixOption) -> str:
    """The playbook judges its own value, and no other."""
    if fix.proposed is None:
        return f"{fix.risk}; it is not known whether: {fix.doubt}" if fix.doubt else fix.risk
    return f"not judged for this value; {fix.risk} for the playbook's"


def state_of(fix: FixOption) -> str:
    """What a fix has come to, or why it cannot be applied."""
    if fix.unavailable is not None:
        return f"not possible: {fix.unavailable}"
    return fix.outcome if fix.undone is None else f"undone {fix.undone}"


def old_value(deployment: Deployment, launch_name: str, key: str, facts: Mapping[str, Fact]) -> str | None:
    """What the launch has under `key` now, None when it is not set. What lies outside is as `facts` say."""
    if is_outside(key):
        try:
            old = shown(key, "", facts).old
        except InputError:
            return None
        return None if old in NOT_KNOWN else old
    launch = launch_named(deployment, launch_name)
    group, _, name = key.partition(".")
    value: object = None
    if group == "args":
        value = launch.args.get(name)
    elif group == "env":
        value = launch.env.get(name)
    elif group == "lora":
        value = launch.lora.get(name)
    elif group == "gpus":
        value = launch.gpus
    elif group == "model":
        value = launch.model
    return None if value is None else str(value)


def title_of(deployment: Deployment, facts: Mapping[str, Fact], one: Change) -> str:
    """`max-model-len of tiny: 4,096 (the model's own, not set) → 1,408`. `facts` are the launch's."""
    if is_outside(one.key):
        return _outside_title(facts, one)
    name = one.key.partition(".")[2] or one.key
    unit = wording.unit_of(one.key)
    new = "not set" if one.value == UNSET else wording.quantity(number_or_text(one.value), unit, one.key)
    if unit == "bytes" and one.value.isdigit():
        new += f" ({int(one.value):,} bytes)"
    old = old_value(deployment, one.launch, one.key, facts)
    before = _not_set(facts, one.key) if old is None else wording.quantity(number_or_text(old), unit, one.key)
    return f"{name} of {one.launch}: {before} → {new}"


def _outside_title(facts: Mapping[str, Fact], one: Change) -> str:
    """`model.safetensors of tiny: cut (1,234 of 9,876 bytes) → from /models/copy`."""
    try:
        told = shown(one.key, one.value, facts)
    except InputError:
        return f"{one.key} of {one.launch}"
    whose = one.launch if one.key.startswith("files.") else "the engine"
    return f"{told.what} of {whose}: {told.old} → {told.new}"


def _not_set(facts: Mapping[str, Fact], key: str) -> str:
    now, own = facts.get(_IN_FORCE.get(key, "")), facts.get("model.max_position_embeddings")
    if not isinstance(now, Known):
        return "not set"
    whose = "the model's own" if isinstance(own, Known) and own.value == now.value else "vLLM's own"
    return f"{show(now.value)} ({whose}, not set)"


def promises_of(
    expect: Sequence[str], deployment: Deployment, facts: Mapping[str, Fact], one: Change, *, is_possible: bool = True
) -> tuple[str, ...]:
    """`expect` in words, with the facts as they would be after the change, where that can be made at all."""
    known = dict(facts)
    if is_possible:
        deployment = changed(deployment, one.launch, one.key, to_value(one.value))
        in_force = _IN_FORCE.get(one.key)
        if in_force is not None:
            known[in_force] = Known(number_or_text(one.value), "declared", f"{one.key} of {one.launch}")
    lookup = lookup_for(launch_named(deployment, one.launch), known)
    return tuple(wording.expected(text, lookup, brief=True) for text in expect)
