"""From causes to fixes: values filled in, the difference shown, greyed with the reason where one cannot be applied."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.arg_values import canonical_value
from engine_probe.changes import UNSET, gpus_of
from engine_probe.deployment import change, diff
from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.flags import flag_for
from playbooks import wording
from playbooks.conditions import evaluate, parse, show
from playbooks.context import captured_of, launch_named, lookup_of
from playbooks.facts import info_of, lookup_for, number_or_text
from playbooks.filling import fill, placeholders, rank_of
from playbooks.patterns import to_value
from playbooks.session import FixOption, Verdict

if TYPE_CHECKING:
    from engine_probe.facts import Value
    from playbooks.conditions import Lookup
    from playbooks.context import Context
    from playbooks.schema import Fix, Scalar
    from playbooks.session import Cause, Session

# What vLLM takes when the key is not set, as it printed it on this start.
_IN_FORCE = {"args.max-model-len": "engine.max_model_len", "args.dtype": "engine.dtype"}
_BYTES = re.compile(r"(\d[\d,]*(?:\.\d+)?) ?([KMGT]iB|[kMGT]B)?")
_FACTOR = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_FACTOR |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def fixes_of(session: Session, context: Context) -> tuple[FixOption, ...]:
    """Every fix of every cause, best first: confirmed hypotheses before untested ones, then as the playbook lists them.

    What a fix has already come to (`outcome`) is kept.
    """
    outcomes = {(fix.id, fix.new_value): fix.outcome for fix in session.fixes}
    found: list[FixOption] = []
    for cause in session.causes:
        specs = context.playbook(cause.id).fixes
        options = [(rank_of(spec.id, cause), option_of(spec, cause, session)) for spec in specs]
        found += [option for _, option in sorted(options, key=lambda pair: pair[0])]
    return tuple(replace(one, outcome=outcomes.get((one.id, one.new_value), "not tried")) for one in found)


def option_of(spec: Fix, cause: Cause, session: Session) -> FixOption:
    """One fix, ready to be applied or greyed."""
    lookup = lookup_of(session, cause)
    if spec.steps:
        return _steps_option(spec)
    ((key, template),) = spec.set.items()
    missing = _missing_value(spec, template, lookup)
    value = fill(str(template), lookup)
    option = FixOption(
        id=spec.id,
        launch=session.model,
        key=key,
        old_value=old_value(session, key),
        new_value=value,
        title=_by_hand_title(spec) if spec.by_hand else _title(session, key, value),
        diff=(),
        why=" ".join(fill(spec.why, lookup, readable=True).split()),
        expect=tuple(spec.expect),
        you_lose=" ".join(fill(spec.you_lose, lookup, readable=True).split()),
        risk=spec.risk,
        unavailable=_refuted(spec.id, cause) or _not_applicable(spec, lookup) or missing,
        by_hand=fill(spec.by_hand, lookup, readable=True) if spec.by_hand else None,
    )
    if not option.unavailable and not option.by_hand:
        option = with_value(option, session, value)
    return replace(option, promises=_promises(option, session, cause))


def with_value(option: FixOption, session: Session, value: str) -> FixOption:
    """The fix with `value` and its difference; greyed when the deployment cannot take it.

    What the playbook proposed is kept as `proposed`.
    """
    proposed = option.proposed or option.new_value
    try:
        if value != proposed:
            value = str(checked_value(option, value))
        after = change(session.deployment, session.model, option.key, to_value(value))
    except InputError as error:
        return replace(option, new_value=value, unavailable=str(error))
    if after == session.deployment:
        return replace(option, new_value=value, unavailable=f"{option.key} is that already")
    option = replace(option, new_value=value, title=_title(session, option.key, value))
    option = replace(option, proposed=None if value == proposed else proposed)
    cause = next((one for one in session.causes if any(option.id in each.fixes for each in one.hypotheses)), None)
    promises = _promises(option, session, cause)
    return replace(option, diff=tuple(diff(session.deployment, after)), promises=promises)


def checked_value(option: FixOption, text: str) -> Value:
    """What a person wrote instead of the proposed value, as the fix's key takes it: bytes of `264MiB`, a number.

    Raises InputError with what is wanted and an example.
    """
    word = text.strip()
    wrong = InputError(f"{text.strip() or 'nothing'!r} cannot be used for {option.key}: {wanted(option)}")
    kind = _kind(option)
    if not word or any(ord(letter) < ord(" ") for letter in word):
        raise wrong
    if kind == "bytes":
        found = _BYTES.fullmatch(word)
        count = round(float(found[1].replace(",", "")) * _FACTOR[found[2] or ""]) if found else 0
    elif kind == "gpus":
        gpus_of(word)
        return word
    elif kind in ("size", "int", "float"):
        return _number(kind, word, wrong)
    elif kind == "bool":
        if word.lower() not in ("true", "false"):
            raise wrong
        return word.lower()
    else:
        return word
    if count <= 0:
        raise wrong
    return count


def wanted(option: FixOption) -> str:
    """What `checked_value` takes, with an example: `bytes, or 264MiB`."""
    kind, example = _kind(option), option.proposed or option.new_value
    if kind == "bytes":
        size = wording.size(int(example)).replace(" ", "") if example.isdigit() else "264MiB"
        return f"bytes, or {size}"
    words = {"size": "a whole number above 0", "int": "a whole number", "float": "a number", "bool": "true or false"}
    return f"{words.get(kind, 'text')}, such as {example}" if kind != "bool" else words[kind]


def shown_value(option: FixOption, value: str) -> str:
    """`value` with its unit: `264 MiB (276,824,064 bytes)`, `1,408`."""
    unit = _unit(option.key)
    number = number_or_text(value)
    if isinstance(number, (str, bool)):
        return value
    if unit == "bytes":
        return f"{wording.quantity(number, unit)} ({number:,} bytes)"
    return wording.quantity(number, unit)


def _number(kind: str, word: str, wrong: InputError) -> Value:
    plain = word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", word) else word
    value = canonical_value("max-model-len", plain) if kind == "size" else to_value(plain)
    if isinstance(value, (bool, str, tuple)) or (kind != "float" and not isinstance(value, int)):
        raise wrong
    if kind == "size" and isinstance(value, int) and value <= 0:
        raise wrong
    return value


def _kind(option: FixOption) -> str:
    """What the key takes: by its unit, by vLLM's flag, else by what the playbook proposes."""
    if option.key == "gpus":
        return "gpus"
    if _unit(option.key) == "bytes":
        return "bytes"
    group, _, name = option.key.partition(".")
    flag = flag_for(name) if group == "args" and "." not in name else None
    if flag is not None:
        return flag.type
    proposed = to_value(option.proposed or option.new_value)
    return "text" if isinstance(proposed, str) else "float" if isinstance(proposed, float) else "int"


def _unit(key: str) -> str:
    name = key.partition(".")[2]
    return info_of(f"launch.{name.replace('-', '_')}").unit if key.startswith("args.") else ""


def old_value(session: Session, key: str) -> str | None:
    """What the launch has under `key` now, None when it is not set."""
    launch = launch_named(session.deployment, session.model)
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
    return None if value is None else str(value)


def _promises(option: FixOption, session: Session, cause: Cause | None) -> tuple[str, ...]:
    """What the fix expects, in words, with the facts as they would be after the change."""
    deployment, facts = session.deployment, dict(session.facts)
    if option.diff or (not option.unavailable and not option.by_hand):
        deployment = change(deployment, session.model, option.key, to_value(option.new_value))
        in_force = _IN_FORCE.get(option.key)
        if in_force is not None:
            facts[in_force] = Known(number_or_text(option.new_value), "declared", option.id)
    if cause is not None:
        facts |= captured_of(session, cause.id)
    lookup = lookup_for(launch_named(deployment, session.model), facts)
    return tuple(wording.expected(text, lookup, brief=True) for text in option.expect)


def _title(session: Session, key: str, value: str) -> str:
    """`max-model-len of tiny: 4,096 (the model's own, not set) → 1,408`."""
    name = key.partition(".")[2] or key
    unit = _unit(key)
    new = "not set" if value == UNSET else wording.quantity(number_or_text(value), unit)
    if unit == "bytes" and value.isdigit():
        new += f" ({int(value):,} bytes)"
    old = old_value(session, key)
    before = _not_set(session, key) if old is None else wording.quantity(number_or_text(old), unit)
    return f"{name} of {session.model}: {before} → {new}"


def _not_set(session: Session, key: str) -> str:
    now, own = session.facts.get(_IN_FORCE.get(key, "")), session.facts.get("model.max_position_embeddings")
    if not isinstance(now, Known):
        return "not set"
    whose = "the model's own" if isinstance(own, Known) and own.value == now.value else "vLLM's own"
    return f"{show(now.value)} ({whose}, not set)"


def _by_hand_title(spec: Fix) -> str:
    return f"by hand: {spec.id.replace('-', ' ')}"


def _steps_option(spec: Fix) -> FixOption:
    return FixOption(
        id=spec.id,
        launch=None,
        key="steps",
        old_value=None,
        new_value="",
        title=f"{spec.id}: {len(spec.steps)} steps",
        diff=(),
        why=spec.why,
        expect=tuple(spec.expect),
        you_lose=spec.you_lose,
        risk=spec.risk,
        unavailable="a fix in several steps cannot be applied here yet",
    )


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


def _missing_value(spec: Fix, template: Scalar, lookup: Lookup) -> str | None:
    for name in (*spec.needs, *placeholders(str(template)), *placeholders(spec.by_hand or "")):
        answer = lookup(name)
        if not isinstance(answer, Known):
            reason = answer.reason if isinstance(answer, Unknown) else f"not set ({answer.origin})"
            return f"{wording.label_of(name)}: unknown, because {wording.with_labels(reason)}"
    return None
