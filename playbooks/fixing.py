"""From causes to fixes: values filled in, the difference shown, greyed with the reason where one cannot be applied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.deployment import change, diff
from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from playbooks import wording
from playbooks.conditions import evaluate, parse
from playbooks.context import captured_of, lookup_of
from playbooks.filling import fill, needed, rank_of
from playbooks.fix_steps import with_steps
from playbooks.fix_values import checked_value
from playbooks.fix_words import Change, old_value, promises_of, title_of
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
    outcomes = {(fix.id, fix.new_value): fix.outcome for fix in session.fixes}
    found: dict[str, FixOption] = {}
    for cause in session.causes:
        specs = context.playbook(cause.id).fixes
        options = [(rank_of(spec.id, cause), option_of(spec, cause, session)) for spec in specs]
        for _, option in sorted(options, key=lambda pair: pair[0]):
            found.setdefault(option.id, option)
    return tuple(replace(one, outcome=outcomes.get((one.id, one.new_value), "not tried")) for one in found.values())


def option_of(spec: Fix, cause: Cause, session: Session) -> FixOption:
    """One fix, ready to be applied or greyed."""
    lookup = lookup_of(session, cause)
    key, template = next(iter(spec.set.items())) if spec.set else ("steps", "")
    value = fill(str(template), lookup)
    option = FixOption(
        id=spec.id,
        launch=session.model,
        key=key,
        old_value=old_value(session.deployment, session.model, key),
        new_value=value,
        title=_plain_title(spec, session, key, value),
        diff=(),
        why=" ".join(fill(spec.why, lookup, readable=True).split()),
        expect=tuple(spec.expect),
        you_lose=" ".join(fill(spec.you_lose, lookup, readable=True).split()),
        risk=spec.risk,
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
    try:
        if value != proposed:
            value = str(checked_value(option, value))
        after = change(session.deployment, session.model, option.key, to_value(value))
    except InputError as error:
        return replace(option, new_value=value, unavailable=str(error))
    if after == session.deployment:
        return replace(option, new_value=value, unavailable=f"{option.key} is that already")
    title = title_of(session.deployment, session.facts, Change(session.model, option.key, value))
    option = replace(option, new_value=value, title=title, proposed=None if value == proposed else proposed)
    cause = next((one for one in session.causes if any(option.id in each.fixes for each in one.hypotheses)), None)
    promises = _promises(option, session, cause)
    return replace(option, diff=tuple(diff(session.deployment, after)), promises=promises)


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


def _refuted(fix: str, cause: Cause) -> str | None:
    leading = [one for one in cause.hypotheses if fix in one.fixes]
    if leading and all(one.verdict is Verdict.REFUTED for one in leading):
        return f"refuted: {leading[0].claim} ({'; '.join(leading[0].because)})"
    return None


def _not_applicable(spec: Fix, lookup: Lookup) -> str | None:
    for text in spec.only_if:
        result = evaluate(parse(text), lookup)
        if not result.holds:
            wish = wording.expected(text, lookup, brief=True)
            return f"it would do nothing here: {wording.sentence(text, lookup)}; it helps only with {wish}"
    return None


def _missing_value(spec: Fix, lookup: Lookup) -> str | None:
    texts = [spec.by_hand or "", *map(str, spec.set.values())]
    texts += [text for step in spec.steps for text in (step.launch or "", *map(str, step.set.values()))]
    for name in (*spec.needs, *(name for text in texts for name in needed(text))):
        answer = lookup(name)
        if not isinstance(answer, Known):
            reason = answer.reason if isinstance(answer, Unknown) else f"not set ({answer.origin})"
            return f"{wording.label_of(name)}: unknown, because {wording.with_labels(reason)}"
    return None
