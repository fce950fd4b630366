"""From causes to fixes: values filled in, the difference shown, greyed with the reason where one cannot be applied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.deployment import diff
from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.outside.keys import is_outside
from playbooks import wording
from playbooks.conditions import evaluate, parse
from playbooks.context import captured_of, lookup_of
from playbooks.filling import fill, needed, rank_of, with_filled_keys
from playbooks.fix_steps import with_steps
from playbooks.fix_values import checked_value
from playbooks.fix_words import Change, old_value, promises_of, title_of
from playbooks.outside_fixes import changed, lookup_for_key, shown, wants_source
from playbooks.patterns import to_value
from playbooks.session import FixOption, Verdict

if TYPE_CHECKING:
    from engine_probe.facts import Fact
    from playbooks.conditions import Lookup
    from playbooks.context import Context
    from playbooks.schema import Fix
    from playbooks.session import Cause, Session


def fixes_of(session: Session, context: Context) -> tuple[FixOption, ...]:
    """Every fix of every cause, best first: confirmed hypotheses before untested ones, then as the playbook lists them.

    What a fix has already come to (`outcome`) is kept. Of two of one name, that of the likelier cause is meant.
    """
    told = {(fix.id, fix.new_value): fix for fix in session.fixes}
    found: dict[str, FixOption] = {}
    for cause in session.causes:
        specs = context.playbook(cause.id).fixes
        options = [(rank_of(spec.id, cause), option_of(spec, cause, session)) for spec in specs]
        for _, option in sorted(options, key=lambda pair: pair[0]):
            found.setdefault(option.id, option)
    return tuple(_as_tried(one, told.get((one.id, one.new_value))) for one in found.values())


def _as_tried(option: FixOption, before: FixOption | None) -> FixOption:
    return option if before is None else replace(option, outcome=before.outcome, undone=before.undone)


def option_of(spec: Fix, cause: Cause, session: Session) -> FixOption:
    """One fix, ready to be applied or greyed."""
    lookup = lookup_of(session, cause)
    key, template = next(iter(with_filled_keys(spec.set, lookup).items())) if spec.set else ("steps", "")
    lookup = lookup_for_key(lookup, key)
    value = fill(str(template), lookup)
    doubt = _doubt(spec.id, cause)
    option = FixOption(
        id=spec.id,
        launch=session.model,
        key=key,
        old_value=old_value(session.deployment, session.model, key, session.facts),
        new_value=value,
        title=_plain_title(spec, session, key, value),
        diff=(),
        why=" ".join(fill(spec.why, lookup, readable=True).split()),
        expect=tuple(spec.expect),
        you_lose=" ".join(fill(spec.you_lose, lookup, readable=True).split()),
        risk="medium" if doubt and spec.risk == "low" else spec.risk,
        doubt=doubt,
        unavailable=_refuted(spec.id, cause) or _not_applicable(spec, lookup) or _missing_value(spec, lookup),
        by_hand=fill(spec.by_hand, lookup, readable=True) if spec.by_hand else None,
    )
    is_possible = not option.unavailable and not option.by_hand
    if spec.steps:
        return with_steps(option, spec, cause, session, lookup) if is_possible else option
    if is_possible:
        option = with_value(option, session, value)
    return replace(option, promises=_promises(option, session, cause))


def with_value(option: FixOption, session: Session, value: str) -> FixOption:
    """The fix with `value` and its difference; greyed when the deployment cannot take it.

    What the playbook proposed is kept as `proposed`. The values of steps stay as they are.
    """
    if option.steps:
        return option
    proposed = option.proposed or option.new_value
    is_open = option.unavailable is None or takes_a_source(option, session)
    try:
        if value != proposed or is_outside(option.key):
            value = str(checked_value(option, value))
        after = changed(session.deployment, session.model, option.key, to_value(value))
    except InputError as error:
        return replace(option, new_value=value, unavailable=option.unavailable or str(error))
    if is_outside(option.key):
        return _with_outside(replace(option, unavailable=None) if is_open else option, session, value, proposed)
    if after == session.deployment:
        return replace(option, new_value=value, unavailable=f"{option.key} is that already")
    title = title_of(session.deployment, session.facts, Change(session.model, option.key, value))
    option = replace(option, new_value=value, title=title, proposed=None if value == proposed else proposed)
    promises = _promises(option, session, cause_of(option, session))
    return replace(option, diff=tuple(diff(session.deployment, after)), promises=promises)


def _with_outside(option: FixOption, session: Session, value: str, proposed: str) -> FixOption:
    """The fix of a file or a package with everything that is shown of it before it is applied."""
    told = shown(option.key, value, session.facts)
    option = replace(
        option,
        old_value=told.old,
        new_value=value,
        title=title_of(session.deployment, session.facts, Change(session.model, option.key, value)),
        proposed=None if value == proposed else proposed,
        diff=told.diff,
        commands=told.commands,
        way_back=told.way_back,
    )
    return replace(option, promises=_promises(option, session, cause_of(option, session)))


def takes_a_source(option: FixOption, session: Session) -> bool:
    """A person's value would make it possible: it is greyed only because nobody has said where whole files are."""
    lookup = lookup_of(session)
    value = option.proposed or option.new_value
    return not option.by_hand and wants_source(option.key, value, lookup) and "--files-from" in str(option.unavailable)


def cause_of(option: FixOption, session: Session) -> Cause | None:
    """The likeliest cause whose playbook leads to it."""
    return next((one for one in session.causes if any(option.id in each.fixes for each in one.hypotheses)), None)


def _promises(option: FixOption, session: Session, cause: Cause | None) -> tuple[str, ...]:
    facts: dict[str, Fact] = dict(session.facts)
    if cause is not None:
        facts |= captured_of(session, cause.id)
    one = Change(session.model, option.key, option.new_value)
    is_possible = bool(option.diff) or (not option.unavailable and not option.by_hand)
    return promises_of(option.expect, session.deployment, facts, one, is_possible=is_possible)


def _plain_title(spec: Fix, session: Session, key: str, value: str) -> str:
    if spec.by_hand:
        return f"by hand: {spec.id.replace('-', ' ')}"
    if spec.steps:
        return f"{spec.id.replace('-', ' ')} ({len(spec.steps)} steps)"
    return title_of(session.deployment, session.facts, Change(session.model, key, value))


def _doubt(fix: str, cause: Cause) -> str:
    """The first reason for a fix where all of them were looked at, and none could be told."""
    leading = [one for one in cause.hypotheses if fix in one.fixes]
    is_open = bool(leading) and all(one.verdict in (Verdict.INCONCLUSIVE, Verdict.REFUTED) for one in leading)
    return next((one.claim for one in leading if is_open and one.verdict is Verdict.INCONCLUSIVE), "")


def _refuted(fix: str, cause: Cause) -> str | None:
    leading = [one for one in cause.hypotheses if fix in one.fixes]
    if leading and all(one.verdict is Verdict.REFUTED for one in leading):
        return f"refuted: {leading[0].claim} ({'; '.join(leading[0].because)})"
    return None


def _not_applicable(spec: Fix, lookup: Lookup) -> str | None:
    for text in spec.only_if:
        result = evaluate(parse(text), lookup)
        if not result.holds:
            return wording.nothing_to_do(text, lookup)
    return None


def _missing_value(spec: Fix, lookup: Lookup) -> str | None:
    wanted = [*spec.needs, *needed(spec.by_hand or "")]
    unknown = next((why for name in wanted if (why := _unknown(name, lookup)) is not None), None)
    for launch, change in ((None, spec.set), *((step.launch, step.set) for step in spec.steps)):
        for key, value in change.items():
            of_key = lookup_for_key(lookup, fill(key, lookup))
            names = (*needed(launch or ""), *needed(key), *needed(str(value)))
            unknown = unknown or next((why for name in names if (why := _unknown(name, of_key)) is not None), None)
    return unknown


def _unknown(name: str, lookup: Lookup) -> str | None:
    answer = lookup(name)
    if isinstance(answer, Known):
        return None
    reason = answer.reason if isinstance(answer, Unknown) else f"not set ({answer.origin})"
    return f"{wording.label_of(name)}: unknown, because {wording.with_labels(reason)}"
