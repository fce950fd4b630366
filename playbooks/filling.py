"""Placeholders in the texts and values of a playbook: `{estimated_len}` is the fact of that name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.claims import Verdict
from playbooks.conditions import show

if TYPE_CHECKING:
    from playbooks.claims import Cause
    from playbooks.conditions import Lookup

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_ORDER = {
    Verdict.CONFIRMED: 0,
    Verdict.INCONCLUSIVE: 1,
    Verdict.UNTESTED: 1,
    Verdict.RUNNING: 1,
    Verdict.REFUTED: 2,
}


def placeholders(text: str) -> tuple[str, ...]:
    """Facts that `text` wants filled in."""
    return tuple(_PLACEHOLDER.findall(text))


def fill(text: str, lookup: Lookup, readable: bool = False) -> str:
    """`text` with its placeholders filled in; one that is unknown stays as `?`. `readable` writes 1,408 for 1408."""
    for name in placeholders(text):
        answer = lookup(name)
        written = show if readable else str
        value = written(answer.value) if isinstance(answer, Known) else "?"
        text = text.replace("{" + name + "}", value)
    return text


def rank_of(fix: str, cause: Cause) -> int:
    """0 when a hypothesis that leads to `fix` is confirmed, 2 when all are refuted."""
    return min((_ORDER[one.verdict] for one in cause.hypotheses if fix in one.fixes), default=1)
