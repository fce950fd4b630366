"""The fixes of a diagnosed cause with their values filled in, for a launch that may not even be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.outside.keys import checked_outside, is_outside
from engine_probe.redact import mask
from playbooks import wording
from playbooks.claims import Verdict
from playbooks.conditions import evaluate, parse
from playbooks.filling import fill, needed, placeholders, rank_of, with_filled_keys
from playbooks.outside_fixes import lookup_for_key, shown_by
from playbooks.patterns import to_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playbooks.conditions import Lookup
    from playbooks.diagnosis import FoundCause
    from playbooks.schema import Fix, Scalar


class Offer(NamedTuple):
    """`set` maps one key to its value, None where that is not known: `unavailable` then says why."""

    id: str
    why: str
    expect: tuple[str, ...]
    you_lose: str
    risk: str
    set: Mapping[str, Scalar | None] = {}
    steps: tuple[Step, ...] = ()
    by_hand: str | None = None
    unavailable: str | None = None
    diff: tuple[str, ...] = ()
    """Of what lies outside the launch: as it is and as it will be."""
    commands: tuple[str, ...] = ()
    """Exactly what is done there, and below what takes it back."""
    way_back: tuple[str, ...] = ()


class Step(NamedTuple):
    """One of several ordered changes."""

    launch: str | None
    set: Mapping[str, Scalar | None]
    expect: tuple[str, ...]


def offers_of(found: FoundCause) -> tuple[Offer, ...]:
    """Best first: what a confirmed hypothesis leads to, then as the playbook lists them; what cannot help is last."""
    if found.playbook is None:
        return ()
    specs = [one for one in found.playbook.spec.fixes if not _is_for_another_device(one, found.lookup)]
    offers = [(_rank(spec, found), _offer(spec, found)) for spec in specs]
    return tuple(offer for _, offer in sorted(offers, key=lambda pair: (pair[1].unavailable is not None, pair[0])))


def _is_for_another_device(spec: Fix, lookup: Lookup) -> bool:
    """Variables that only vLLM for CPUs reads change nothing on a GPU."""
    device = lookup("engine.device")
    keys = [*spec.set, *(key for step in spec.steps for key in step.set)]
    is_for_cpus = bool(keys) and all(key.startswith("env.VLLM_CPU_") for key in keys)
    return is_for_cpus and isinstance(device, Known) and device.value != "cpu"


def _rank(spec: Fix, found: FoundCause) -> int:
    return rank_of(spec.id, found.cause)


def _offer(spec: Fix, found: FoundCause) -> Offer:
    key = next(iter(with_filled_keys(spec.set, found.lookup)), "")
    lookup = lookup_for_key(found.lookup, key)
    unavailable = _refuted(spec, found) or _does_nothing(spec, lookup) or _wants(spec, lookup)
    offer = Offer(
        id=spec.id,
        why=_text(spec.why, lookup),
        expect=tuple(spec.expect),
        you_lose=_text(spec.you_lose, lookup),
        risk=spec.risk,
        set=_filled(spec.set, lookup),
        steps=tuple(
            Step(
                None if step.launch is None else _text(step.launch, lookup),
                _filled(step.set, lookup),
                tuple(step.expect),
            )
            for step in spec.steps
        ),
        by_hand=_text(spec.by_hand, lookup) if spec.by_hand else None,
        unavailable=unavailable,
    )
    return offer if unavailable or spec.by_hand else _with_outside(offer, lookup)


def _with_outside(offer: Offer, lookup: Lookup) -> Offer:
    """With what is shown of changes outside the launch; not now, where such a change cannot be."""
    changes = [pair for change in (offer.set, *(step.set for step in offer.steps)) for pair in change.items()]
    try:
        told = [
            shown_by(key, checked_outside(key, str(value)), lookup)
            for key, value in changes
            if is_outside(key) and value is not None
        ]
    except InputError as error:
        return offer._replace(unavailable=str(error))
    return offer._replace(
        diff=tuple(line for one in told for line in one.diff),
        commands=tuple(line for one in told for line in one.commands),
        way_back=tuple(line for one in reversed(told) for line in one.way_back),
    )


def _text(text: str, lookup: Lookup) -> str:
    return " ".join(fill(text, lookup, readable=True).split())


def _filled(change: Mapping[str, Scalar], lookup: Lookup) -> dict[str, Scalar | None]:
    filled: dict[str, Scalar | None] = {}
    for key, value in with_filled_keys(change, lookup).items():
        names = placeholders(str(value))
        lookup = lookup_for_key(lookup, key)
        if not names:
            filled[key] = value
        elif all(isinstance(lookup(name), Known) for name in names):
            filled[key] = to_value(mask(fill(str(value), lookup)))
        else:
            filled[key] = None
    return filled


def _refuted(spec: Fix, found: FoundCause) -> str | None:
    leading = [one for one in found.cause.hypotheses if spec.id in one.fixes]
    if leading and all(one.verdict is Verdict.REFUTED for one in leading):
        return f"refuted by what is known ({mask('; '.join(leading[0].because))})"
    return None


def _does_nothing(spec: Fix, lookup: Lookup) -> str | None:
    """Only a condition that is known to be false speaks against a fix: here much may be unknown."""
    for text in spec.only_if:
        if evaluate(parse(text), lookup).holds is False:
            return f"not for this load: {wording.sentence(text, lookup)}"
    return None


def _wants(spec: Fix, lookup: Lookup) -> str | None:
    sets = [spec.set, *(step.set for step in spec.steps)]
    values = [*(one for change in sets for pair in change.items() for one in pair), spec.by_hand or ""]
    for name in (*spec.needs, *(name for value in values for name in needed(str(value)))):
        answer = lookup(name)
        if not isinstance(answer, Known):
            reason = answer.reason if isinstance(answer, Unknown) else f"not set ({answer.origin})"
            return f"{wording.label_of(name)}: unknown, because {wording.with_labels(reason)}"
    return None
