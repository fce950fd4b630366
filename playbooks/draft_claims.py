"""What a draft claims and changes: the fix that held in the case, and a claim that its launch can refute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.changes import UNSET
from engine_probe.flags import flag_for
from engine_probe.redact import mask, names_a_secret
from playbooks.conditions import ConditionError, parse
from playbooks.facts import is_fact
from playbooks.filling import placeholders
from playbooks.fix_values import shown_value
from playbooks.patterns import to_value
from playbooks.schema import Experiment, Fix, FixStep, HypothesisSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Value
    from playbooks.schema import Playbook, Scalar
    from playbooks.session import FixOption, Session

_SERVES = "load.is_serving is true"
_SERVES_NOT = "load.is_serving is false"


def fixes_and_claims(
    session: Session, held: FixOption | None, captured: Mapping[str, Value], source: Playbook | None
) -> tuple[list[Fix], list[HypothesisSpec]]:
    """One fix and the claims that lead to it. `source`: the playbook that the fix came from, where there is one."""
    spec = next((one for one in source.fixes if held is not None and one.id == held.id), None) if source else None
    fix = _fix(session, held, captured, spec) if held is not None else _unknown_fix(session)
    own = _own_claims(held, source, captured, fix) if held is not None and source is not None else []
    return [fix], own or [_claim(held, fix)]


def _fix(session: Session, held: FixOption, captured: Mapping[str, Value], source: Fix | None) -> Fix:
    source = None if held.proposed not in (None, held.new_value) else source
    rules = [one.set for one in source.steps] if source is not None else []
    rules += [{}] * (len(held.steps) - len(rules))
    steps = [
        FixStep(
            set=_change(step.key, step.new_value, captured, rule),
            launch=None if step.launch == session.model else step.launch,
            expect=_usable(step.expect, captured),
        )
        for step, rule in zip(held.steps, rules, strict=False)
    ]
    change = {} if steps else _change(held.key, held.new_value, captured, source.set if source is not None else {})
    changes = [change, *(step.set for step in steps)]
    return Fix(
        id=held.id,
        why=_why(held),
        expect=_usable(held.expect, captured) or _promise(held),
        you_lose=_you_lose(held, source),
        risk=held.risk or "medium",
        set=change,
        steps=steps,
        needs=list(dict.fromkeys(name for one in changes for pair in one.items() for name in _named(*pair))),
        by_hand=mask(held.by_hand) if held.by_hand else None,
    )


def _change(key: str, value: str, captured: Mapping[str, Value], source: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """One key with the playbook's own rule for its value, where that can be told here too; else with what held.

    A number that the error named is taken from it only where the rule does so as well: the next value may be another.
    """
    if names_a_secret(key.partition(".")[2]):
        return {key: mask(value)}
    for name, rule in source.items():
        names = _named(name, rule)
        if names and _all_facts(names, {}):
            return {name: rule}
        if not names or len(names) > 1 or rule != f"{{{names[0]}}}":
            return {key: _plain(value)}
    groups = [name for name, one in captured.items() if str(one) == value]
    return {key: f"{{{groups[0]}}}" if groups and len(value) > 1 else _plain(value)}


def _plain(value: str) -> Scalar:
    plain = to_value(value)
    return plain if isinstance(plain, (bool, int, float)) else mask(value)


def _named(key: str, value: Scalar) -> tuple[str, ...]:
    return (*placeholders(key), *placeholders(str(value)))


def _why(held: FixOption) -> str:
    """A playbook's reason is for the value that it proposes."""
    is_own = held.proposed not in (None, held.new_value)
    return (not is_own and mask(held.why)) or "It held in the case that this is drafted from."


def _you_lose(held: FixOption, source: Fix | None) -> str:
    """Of the value that held, where a person chose another than the proposal; else the playbook's words, if they can
    be filled in from here too."""
    if source is not None and _all_facts(placeholders(source.you_lose), {}):
        return " ".join(source.you_lose.split())
    text = mask(held.you_lose)
    if held.proposed not in (None, held.new_value):
        text = text.replace(shown_value(held, held.proposed), shown_value(held, held.new_value))
    return text or "nothing"


def _unknown_fix(session: Session) -> Fix:
    """No fix held: a person writes what mended it."""
    return Fix(
        id="what-mended-it",
        set={"host.state": "mended"},
        by_hand=f"Nothing was proved in case {session.case}: write here what mends it, as args.NAME or by hand.",
        why="Write why it mends this.",
        expect=[_SERVES],
        you_lose="Write what it costs.",
        risk="medium",
    )


def _promise(held: FixOption) -> list[str]:
    name = _launch_fact(held.steps[-1].key if held.steps else held.key)
    if name is None:
        return [_SERVES]
    value = held.steps[-1].new_value if held.steps else held.new_value
    return [f"{name} is {'unset' if value == UNSET else 'set'}"]


def _claim(held: FixOption | None, fix: Fix) -> HypothesisSpec:
    """By the launch where the fix is an argument or a variable; else by a load with the change, or without one."""
    key = "" if held is None else held.steps[0].key if held.steps else held.key
    name = _launch_fact(key)
    if held is None or name is None:
        return HypothesisSpec(
            id="as-seen-in-the-case",
            claim="The model does not load as it is launched; where it does, this is not the cause.",
            experiment=Experiment(
                cost="one full start", run="load-with-change", refute=[_SERVES], confirm=[_SERVES_NOT]
            ),
            fixes=[fix.id],
        )
    old = held.steps[0].old_value if held.steps else held.old_value
    word = key.partition(".")[2]
    if old is None:
        claim, holds, fails = f"{word} is not set, and the load fails by that.", f"{name} is unset", f"{name} is set"
    else:
        claim = f"{word} is set as in the case, and the load fails by that."
        holds, fails = f"{name} is set", f"{name} is unset"
    return HypothesisSpec(
        id=f"{word.lower().replace('_', '-')}-as-launched",
        claim=claim,
        experiment=Experiment(cost="none", ask=[name], confirm=[holds], refute=[fails]),
        fixes=[fix.id],
    )


def _own_claims(held: FixOption, source: Playbook, captured: Mapping[str, Value], fix: Fix) -> list[HypothesisSpec]:
    """The claims of the playbook that the fix came from, as far as they can be judged without what only it captures."""
    found = []
    for one in source.hypotheses:
        what = one.experiment
        texts = [*what.confirm, *what.refute]
        if held.id in one.fixes and _usable(texts, captured) == texts and _all_facts(what.ask, captured):
            found.append(HypothesisSpec(id=one.id, claim=one.claim, experiment=what, fixes=[fix.id]))
    return found


def _usable(conditions: Iterable[str], captured: Mapping[str, Value]) -> list[str]:
    """Those whose facts this draft has too."""
    found = []
    for text in conditions:
        try:
            names = parse(text).facts()
        except ConditionError:
            continue
        if _all_facts(names, captured) and not placeholders(text):
            found.append(text)
    return found


def _all_facts(names: Iterable[str], captured: Mapping[str, Value]) -> bool:
    return all(is_fact(name, captured) for name in names)


def _launch_fact(key: str) -> str | None:
    """`launch.max_model_len` of `args.max-model-len`; None where the launch does not tell."""
    group, _, name = key.partition(".")
    if group == "env" and name:
        return f"launch.env.{name}"
    if group == "args" and flag_for(name) is not None and "." not in name:
        return f"launch.{name.replace('-', '_')}"
    return None
