"""How computed facts are made: functions of other facts that say which of them is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine_probe.facts import Known, Unknown
from engine_probe.numbers import is_credible, shortened
from playbooks.conditions import Answer, Lookup, Unset

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.facts import Value


MOST_RANKS = 65_536
"""Sizes up to this are tried one by one; a log or a launch that tells more tells no number of GPUs."""


class Computed(NamedTuple):
    """One computed fact."""

    name: str
    label: str
    unit: str
    meaning: str
    compute: Callable[[Lookup], Answer]

    def answer(self, lookup: Lookup) -> Answer:
        """What `compute` answers; Unknown where the numbers that others wrote cannot be computed with."""
        try:
            found = self.compute(lookup)
        except (ArithmeticError, ValueError) as error:  # by nothing, or of more digits than a float has room for
            return Unknown(f"its numbers cannot be: {shortened(str(error))}")
        if isinstance(found, Known) and isinstance(found.value, (int, float)) and not is_credible(found.value):
            return Unknown("its numbers cannot be: they make more than anything can have")
        return found


class MissingInputError(Exception):
    """An input is unknown; the message says which and why."""


def number(lookup: Lookup, name: str, unset: float | None = None) -> float:
    """The value of `name`. `unset` is what vLLM takes when it is not given. Raises MissingInputError."""
    answer = lookup(name)
    if isinstance(answer, Unset) and unset is not None:
        return unset
    if isinstance(answer, Known) and isinstance(answer.value, (int, float)) and not isinstance(answer.value, bool):
        if not is_credible(answer.value):
            raise MissingInputError(f"{name} is no number that can be")
        return answer.value
    if isinstance(answer, Known):
        raise MissingInputError(f"{name} is {shortened(repr(answer.value))}, not a number")
    raise MissingInputError(f"{name} is " + (f"unknown: {answer.reason}" if isinstance(answer, Unknown) else "not set"))


def first_number(lookup: Lookup, *names: str) -> float:
    """The first of `names` that is known. Raises MissingInputError with the reason of the last."""
    known = next((name for name in names if isinstance(lookup(name), Known)), names[-1])
    return number(lookup, known)


def known(function: Callable[[Lookup], tuple[Value, str]]) -> Callable[[Lookup], Answer]:
    """Make `function`, which returns a value with how it was made, answer Unknown where an input is missing."""

    def compute(lookup: Lookup) -> Answer:
        try:
            value, origin = function(lookup)
        except MissingInputError as missing:
            return Unknown(str(missing))
        return Known(value, "computed", origin)

    return compute
