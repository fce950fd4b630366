"""The checks that a fix has beside its playbook's: what each step must show, and that other models still answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.requests import Request
from playbooks.facts import lookup_for
from playbooks.session import Check, Outcome
from playbooks.verifying import with_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine_probe.events import RequestAnswered
    from engine_probe.facts import Fact
    from engine_probe.launch import Launch
    from playbooks.session import FixStep

_STEP, _BESIDE = "step-", "beside-"
_HEALTH = "/health"
_TIMEOUT_S = 60.0
_OK = 200


def step_check(number: int) -> str:
    """The id of the check of a step that is not the last one; `number` from 0."""
    return f"{_STEP}{number + 1}"


def step_checks(steps: Sequence[FixStep]) -> tuple[Check, ...]:
    """One for each step but the last, whose expectations the whole verification measures."""
    return tuple(
        Check(
            step_check(number),
            f"step {number + 1} of {len(steps)}: {one.title}",
            "; ".join(one.promises) or "the file is changed",
            conditions=one.expect,
            brief="; ".join(one.promises),
        )
        for number, one in enumerate(steps[:-1])
    )


def judge_step(check: Check, launch: Launch, facts: Mapping[str, Fact], before: Mapping[str, Fact]) -> Check:
    """The check of a step by the facts of the load that it was given."""
    judged = with_conditions(check, lookup_for(launch, facts), lookup_for(launch, before))
    return replace(judged, expected=check.expected, brief=check.brief)


def beside_check(name: str) -> str:
    return f"{_BESIDE}{name}"


def beside_checks(names: Iterable[str]) -> tuple[Check, ...]:
    """That each of these models answers beside the mended one."""
    return tuple(
        Check(beside_check(name), f"{name} answers beside it", f"GET {_HEALTH}: status {_OK}") for name in names
    )


def asked_beside(check_id: str) -> str | None:
    """The other model that a check asks; None: it asks the mended one."""
    return check_id.removeprefix(_BESIDE) if check_id.startswith(_BESIDE) else None


def beside_request(check_id: str) -> Request:
    return Request(id=check_id, path=_HEALTH, timeout_s=_TIMEOUT_S)


def judge_beside(check: Check, answer: RequestAnswered) -> Check:
    measured = f"status {answer.status}" if answer.status is not None else f"no answer: {answer.error}"
    return replace(check, measured=measured, outcome=Outcome.PASS if answer.status == _OK else Outcome.FAIL)
