"""The checks that a fix has beside its playbook's: what each step must show, and that other models still answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from playbooks import requests
from playbooks.facts import lookup_for
from playbooks.proof import BESIDE
from playbooks.session import Check, Outcome
from playbooks.verifying import with_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine_probe.events import Ready, RequestAnswered
    from engine_probe.facts import Fact
    from engine_probe.launch import Launch
    from engine_probe.requests import Request
    from playbooks.session import FixStep

_STEP = "step-"
_ASKED = "one-short-completion"
_TIMEOUT_S = 60.0


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
    return f"{BESIDE}{name}"


def beside_checks(names: Iterable[str]) -> tuple[Check, ...]:
    """That each of these models loads and answers beside the mended one."""
    expected = requests.named(_ASKED).expected(0)
    return tuple(Check(beside_check(name), f"{name} answers beside it", expected) for name in names)


def asked_beside(check_id: str) -> str | None:
    """The other model that a check asks; None: it asks the mended one."""
    return check_id.removeprefix(BESIDE) if check_id.startswith(BESIDE) else None


def beside_request(check_id: str, ready: Ready | None) -> Request:
    """`ready`: what the other model's load said when it came up."""
    served = ready.served_models[0] if ready is not None and ready.served_models else ""
    return requests.build(requests.named(_ASKED), check_id, served, 0, _TIMEOUT_S)


def judge_beside(check: Check, answer: RequestAnswered) -> Check:
    judged = requests.named(_ASKED).judge(answer, 0)
    outcome = Outcome.FAIL if judged.passed is False else Outcome.PASS  # an answer whose tokens nobody counts is one
    return replace(check, measured=judged.measured, outcome=outcome)
