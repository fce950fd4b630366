"""The standard checks that every fix gets after its playbook's own, in a fixed order, and what they come to.

loads (verifying.py), /health, /v1/models, a completion, a chat, finite logprobs, tensors, values, each adapter, one
request at full length, many at once. What the playbook asks by itself is not asked again. What cannot be decided is
`abstain` with its reason: the fix is verified all the same, and what was not decided is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from playbooks import requests
from playbooks.proof_words import adapter_title, burst_expected, models_measured
from playbooks.session import Check, Outcome, Proof, Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine_probe.events import Ready
    from engine_probe.launch import Launch
    from playbooks.effects import FilesSeen
    from playbooks.schema import Playbook

PREFIX = "proof-"
HEALTH, MODELS = "proof-health", "proof-models"
COMPLETION, CHAT, LOGPROBS, LENGTH = "proof-completion", "proof-chat", "proof-logprobs", "proof-full-length"
TENSORS, VALUES = "proof-tensors", "proof-values"
BESIDE = "beside-"
"""Checks of the other models: see playbooks/fix_checks.py."""
ADAPTER, BURST = "proof-adapter-", "proof-load-test"
NAMED = {
    COMPLETION: requests.COMPLETION,
    CHAT: requests.CHAT,
    LOGPROBS: requests.LOGPROBS,
    LENGTH: requests.LENGTH,
}
"""The check → the request that it sends."""
WARM_ONLY = "proved by a warm load, not by a cold one"
_GETS = {HEALTH: "GET /health", MODELS: "GET /v1/models"}
_FROM_FILES = (TENSORS, VALUES)


@dataclass(frozen=True)
class Proved:
    """What all checks come to; `reasons` of what failed, or was not decided."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()


def is_standard(check_id: str) -> bool:
    return check_id.startswith(PREFIX)


def standard_checks(launch: Launch, proof: Proof, playbook: Playbook | None = None) -> tuple[Check, ...]:
    """Those that `playbook` does not make by itself, none done."""
    asked = {word for one in (playbook.verify if playbook is not None else ()) for word in (one.http, one.request)}
    found = [
        *_request_checks((HEALTH, MODELS), asked),
        *_request_checks((COMPLETION, CHAT, LOGPROBS), asked),
        Check(TENSORS, "tensors that the model wants", "each is in the checkpoint"),
        Check(VALUES, "values of the tensors", "a sample of each is finite"),
        *(Check(ADAPTER + name, adapter_title(name), "answers, and changes the numbers") for name in launch.lora),
        *_request_checks((LENGTH,), asked),
        Check(BURST, "many requests at once", burst_expected(proof), brief="all answered"),
    ]
    if not proof.concurrent:
        found[-1] = replace(found[-1], outcome=Outcome.ABSTAIN, reason="it was left out")
    return tuple(replace(one, may_abstain=True) for one in found)


def _request_checks(ids: Iterable[str], asked: set[str | None]) -> Iterable[Check]:
    for one in ids:
        if one in _GETS and _GETS[one] not in asked:
            expected = "status 200" if one == HEALTH else "lists what is served"
            yield Check(one, _GETS[one].removeprefix("GET "), expected)
        elif one in NAMED and NAMED[one] not in asked:
            request = requests.named(NAMED[one])
            yield Check(one, request.title, request.expected(0))


def with_files(checks: Sequence[Check], seen: FilesSeen) -> tuple[Check, ...]:
    """The checks that the files decide, and those that cannot be asked of such a model."""
    return tuple(_by_files(one, seen) if is_standard(one.id) else one for one in checks)


def _by_files(check: Check, seen: FilesSeen) -> Check:  # noqa: PLR0911 - one a kind
    if check.outcome is not Outcome.PENDING:
        return check
    if check.id in _FROM_FILES:
        if seen.why_not is not None:
            return abstained(check, seen.why_not)
        return _judge_tensors(check, seen) if check.id == TENSORS else _judge_values(check, seen)
    doubt = seen.adapters.get(check.id.removeprefix(ADAPTER)) if check.id.startswith(ADAPTER) else None
    if doubt is not None and doubt.kind == "shapes":  # vLLM copies what fits, and the answers are of no use
        return replace(check, measured=doubt.text, outcome=Outcome.FAIL)
    if check.id == CHAT and (seen.pools or seen.template == "none"):
        without = "the model gives embeddings, scores or classes, and no text"
        return abstained(check, without if seen.pools else "the model has no chat template")
    if check.id in NAMED and seen.pools:
        request = requests.named(NAMED[check.id], pools=True)
        return replace(check, title=request.title, expected=request.expected(0))
    return check


def _judge_tensors(check: Check, seen: FilesSeen) -> Check:
    if seen.missing_count:
        measured = f"{seen.missing_count:,} are in no file: {_some(seen.missing, seen.missing_count)}"
        return replace(check, measured=measured, outcome=Outcome.FAIL)
    if seen.unknown_class is not None:
        return abstained(check, seen.unknown_class)
    return replace(check, measured=f"{seen.tensors:,} tensors, none is missing", outcome=Outcome.PASS)


def _judge_values(check: Check, seen: FilesSeen) -> Check:
    if not seen.tensors:
        return abstained(check, seen.unknown_class or "no tensors could be read")
    if seen.not_finite_count:
        measured = f"NaN or infinity in {seen.not_finite_count:,}: {_some(seen.not_finite, seen.not_finite_count)}"
        return replace(check, measured=measured, outcome=Outcome.FAIL)
    return replace(check, measured=f"{seen.tensors:,} tensors, all finite", outcome=Outcome.PASS)


def _some(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:3])
    return shown if count <= 3 else f"{shown} and {count - 3:,} more"


def with_ready(checks: Sequence[Check], launch: Launch, ready: Ready | None) -> tuple[Check, ...]:
    """/v1/models was asked when the model became ready: it must list its names and each adapter."""
    return tuple(_judge_models(one, launch, ready) if one.id == MODELS else one for one in checks)


def _judge_models(check: Check, launch: Launch, ready: Ready | None) -> Check:
    if ready is None or not ready.served_models:
        return abstained(check, "it was not asked when the model became ready")
    given = launch.args.get("served-model-name", launch.model)
    wanted = (*(given if isinstance(given, tuple) else (str(given),)), *launch.lora)
    missing = [name for name in wanted if name not in ready.served_models]
    measured = models_measured(ready.served_models, missing)
    return replace(check, measured=measured, outcome=Outcome.FAIL if missing else Outcome.PASS)


def abstained(check: Check, reason: str, measured: str | None = None) -> Check:
    return replace(check, outcome=Outcome.ABSTAIN, reason=reason, measured=measured or check.measured)


def to_ask(checks: Iterable[Check]) -> tuple[str, ...]:
    """Ids of the checks that still want a request, in order."""
    return tuple(
        one.id
        for one in checks
        if is_standard(one.id) and one.outcome is Outcome.PENDING and one.id not in (*_FROM_FILES, MODELS)
    )


def proved(checks: Sequence[Check]) -> Proved | None:
    """PASS, FAIL or ABSTAIN of all together; None while none is decided, or some is still to be."""
    if not checks:
        return None
    failed = [one for one in checks if one.outcome is Outcome.FAIL and not one.optional]
    if failed:
        return Proved(Outcome.FAIL, tuple(f"{one.title}: {one.measured or 'it failed'}" for one in failed))
    if any(one.outcome in (Outcome.PENDING, Outcome.RUNNING) for one in checks):
        return None
    left = [one for one in checks if one.outcome is Outcome.ABSTAIN and not one.optional]
    if left:
        return Proved(Outcome.ABSTAIN, tuple(f"{one.title}, because {one.reason or 'nothing told'}" for one in left))
    return Proved(Outcome.PASS)


def proof_object(session: Session) -> dict[str, Any] | None:
    """For JSON; null where no check was made, or not all came to their end."""
    found = proved(session.checks)
    if found is None:
        return None
    return {"outcome": found.outcome.value, "reasons": list(found.reasons), "grade": session.verify_grade}


def verdict_words(session: Session) -> str:
    """The verdict with what a reader must know beside it: `verified; not decided: a chat, because …`."""
    parts: list[str] = [session.verdict or "not finished"]
    if session.verdict == "verified" and session.verify_grade == "warm":
        parts.append(WARM_ONLY)
    if session.verdict in ("verified", "healthy"):
        parts.append(not_decided(session.checks))
        parts += [one.reason or "" for one in with_own_fault(session.checks)]
    return "; ".join(part for part in parts if part)


def with_own_fault(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Of models beside the mended one that have a fault of their own: another case."""
    return tuple(one for one in checks if one.id.startswith(BESIDE) and one.optional and one.outcome is Outcome.ABSTAIN)


def not_decided(checks: Sequence[Check]) -> str:
    """`not decided: a chat, because the model has no chat template`; empty where all was decided."""
    found = proved(checks)
    if found is None or found.outcome is not Outcome.ABSTAIN:
        return ""
    return f"not decided: {'; '.join(found.reasons)}"
