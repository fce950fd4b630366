"""Placeholders in the texts and values of a playbook: `{estimated_len}` is the fact of that name.

`{gpu.largest_other_pid or PID}` is the fact where it is known, else the word: a text that can do without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from engine_probe.redact import MASKED, mask, names_a_secret
from playbooks.claims import Verdict
from playbooks.conditions import show_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from playbooks.claims import Cause
    from playbooks.conditions import Lookup
    from playbooks.schema import Scalar

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_OR = " or "
_ORDER = {
    Verdict.CONFIRMED: 0,
    Verdict.INCONCLUSIVE: 1,
    Verdict.UNTESTED: 1,
    Verdict.RUNNING: 1,
    Verdict.REFUTED: 2,
}


def placeholders(text: str) -> tuple[str, ...]:
    """Facts that `text` names."""
    return tuple(name.partition(_OR)[0] for name in _PLACEHOLDER.findall(text))


def needed(text: str) -> tuple[str, ...]:
    """Facts that `text` cannot do without."""
    return tuple(name for name in _PLACEHOLDER.findall(text) if _OR not in name)


def fill(text: str, lookup: Lookup, readable: bool = False) -> str:
    """`text` with its placeholders filled in; one that is unknown stays as `?`. `readable` writes 1,408 for 1408."""
    for whole in _PLACEHOLDER.findall(text):
        name, _, instead = whole.partition(_OR)
        answer = lookup(name)
        value = instead or "?"
        if isinstance(answer, Known):
            value = show_of(name, answer.value) if readable else str(answer.value)
        value = safe(name, value) if readable else value
        text = text.replace("{" + whole + "}", value)
    return text


def with_filled_keys(change: Mapping[str, Scalar], lookup: Lookup) -> dict[str, Scalar]:
    """What a fix sets, with the placeholders of its keys filled in."""
    return {fill(key, lookup): value for key, value in change.items()}


def in_words(text: str, label_of: Callable[[str], str], *, is_command: bool = False) -> str:
    """`text` with what each placeholder stands for, where nothing is known that could be filled in.

    A value is `the length that fits`; in a command it is `[length that fits]`, for one does not type that.
    """
    for whole in _PLACEHOLDER.findall(text):
        name, _, instead = whole.partition(_OR)
        label = label_of(name).removeprefix("the ")
        text = text.replace("{" + whole + "}", instead or (f"[{label}]" if is_command else f"the {label}"))
    return text


def safe(name: str, value: str) -> str:
    """The value of a fact as it may be shown: facts are what others wrote, and a playbook's own words are not."""
    is_secret = name.startswith("launch.") and names_a_secret(name)
    return MASKED if is_secret else mask(value)


def rank_of(fix: str, cause: Cause) -> int:
    """0 when a hypothesis that leads to `fix` is confirmed, 2 when all are refuted."""
    return min((_ORDER[one.verdict] for one in cause.hypotheses if fix in one.fixes), default=1)
