"""The whole language of conditions: `FACT is set|unset|true|false|unchanged` and `FACT op FACT-or-VALUE`.

Nothing is evaluated but this: no arithmetic, no calls, no `and`. An answer is true, false, or unknown with the
reason, and always shows the values that it was made from.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from engine_probe.facts import Fact, Known, Unknown, Value


class Unset(NamedTuple):
    """Known not to be given: a launch argument that nobody wrote. `origin` says where that was seen."""

    origin: str


Answer = Fact | Unset
Lookup = Callable[[str], Answer]

_STATES = ("set", "unset", "true", "false", "unchanged")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_FACT = r"[a-z_][a-z0-9_]*(?:\.[a-zA-Z0-9_-]+)*"
_IS = re.compile(rf"^(?P<fact>{_FACT}) +is +(?P<state>\w+)$")
_COMPARE = re.compile(rf"^(?P<fact>{_FACT}) *(?P<op><=|>=|==|!=|<|>) *(?P<right>\S.*)$")
_NUMBER = re.compile(r"-?\d+(?P<fraction>\.\d+)?$")
_LANGUAGE = "`FACT is set|unset|true|false|unchanged` or `FACT <|<=|>|>=|==|!= FACT-or-VALUE`"


class ConditionError(ValueError):
    """The text is no condition. The message says what is allowed."""


class Condition(NamedTuple):
    """`op` is an operator, or `is`; then `right` is the state. `right_fact` names a fact to compare with."""

    text: str
    fact: str
    op: str
    right: Value = ""
    right_fact: str | None = None

    def facts(self) -> tuple[str, ...]:
        """Every fact that the condition reads."""
        return (self.fact,) if self.right_fact is None else (self.fact, self.right_fact)


class Result(NamedTuple):
    """`holds` None means unknown, and `reason` then says why. `text` has the values: `kv.tokens 1,536 >= 1,408`.

    These are the words of YAML and JSON; what a person reads is made in wording.py.
    """

    condition: str
    holds: bool | None
    text: str
    reason: str | None = None


def parse(text: str) -> Condition:
    """Read one condition. Raises ConditionError."""
    plain = " ".join(text.split())
    if found := _IS.match(plain):
        if found["state"] not in _STATES:
            raise ConditionError(f"`{plain}`: after `is` comes one of {', '.join(_STATES)}, not `{found['state']}`")
        return Condition(plain, found["fact"], "is", found["state"])
    if found := _COMPARE.match(plain):
        right = found["right"]
        if re.fullmatch(_FACT, right) and right not in ("true", "false") and ("." in right or "_" in right):
            return Condition(plain, found["fact"], found["op"], right_fact=right)
        return Condition(plain, found["fact"], found["op"], _value(right, plain))
    raise ConditionError(f"`{plain}` is no condition; a condition is {_LANGUAGE}")


def _value(text: str, whole: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    if number := _NUMBER.match(text):
        return float(text) if number["fraction"] else int(text)
    if text[0] == text[-1] and text[0] in "'\"" and len(text) > 1:
        return text[1:-1]
    if re.search(r"[\s()<>=*/+]", text):
        raise ConditionError(f"`{whole}`: `{text}` is neither a fact nor a value; a condition is {_LANGUAGE}")
    return text


def evaluate(condition: Condition, lookup: Lookup, before: Lookup | None = None) -> Result:
    """Answer `condition`. `before` gives the facts of an earlier moment, which `is unchanged` compares with."""
    answer = lookup(condition.fact)
    if condition.op == "is":
        return _evaluate_state(condition, answer, before)
    right = Known(condition.right, "declared", "playbook")
    other: Answer = lookup(condition.right_fact) if condition.right_fact is not None else right
    for name, side in ((condition.fact, answer), (condition.right_fact, other)):
        if isinstance(side, Unknown):
            return Result(condition.text, None, condition.text, f"{name} is unknown: {side.reason}")
        if isinstance(side, Unset):
            return Result(condition.text, None, condition.text, f"{name} is not set ({side.origin})")
    assert isinstance(answer, Known)
    assert isinstance(other, Known)
    shown = condition.right_fact + " " if condition.right_fact else ""
    text = f"{condition.fact} {show(answer.value)} {condition.op} {shown}{show(other.value)}"
    if not _comparable(answer.value, other.value, condition.op):
        return Result(condition.text, None, text, "the two cannot be compared")
    return Result(condition.text, _OPERATORS[condition.op](answer.value, other.value), text)


def _comparable(left: Value, right: Value, op: str) -> bool:
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
    return numbers or (type(left) is type(right) and (op in ("==", "!=")))


def _evaluate_state(condition: Condition, answer: Answer, before: Lookup | None) -> Result:
    state = condition.right
    if isinstance(answer, Unknown):
        return Result(condition.text, None, condition.text, f"{condition.fact} is unknown: {answer.reason}")
    if state in ("set", "unset"):
        is_unset = isinstance(answer, Unset)
        value = "" if isinstance(answer, Unset) else f" ({show(answer.value)})"
        return Result(condition.text, is_unset == (state == "unset"), condition.text + value)
    if state == "unchanged":
        return _evaluate_unchanged(condition, answer, before)
    if isinstance(answer, Unset) or not isinstance(answer.value, bool):
        shown = "not set" if isinstance(answer, Unset) else f"{show(answer.value)}, neither true nor false"
        return Result(condition.text, None, condition.text, f"{condition.fact} is {shown}")
    return Result(condition.text, answer.value == (state == "true"), condition.text)


def _evaluate_unchanged(condition: Condition, answer: Known | Unset, before: Lookup | None) -> Result:
    if before is None:
        return Result(condition.text, None, condition.text, "there is no earlier value to compare with")
    earlier = before(condition.fact)
    if isinstance(earlier, Unknown):
        return Result(condition.text, None, condition.text, f"the earlier value is unknown: {earlier.reason}")
    then = "not set" if isinstance(earlier, Unset) else show(earlier.value)
    now = "not set" if isinstance(answer, Unset) else show(answer.value)
    return Result(condition.text, then == now, f"{condition.fact} was {then}, is {now}")


_NAMES_SOMETHING = re.compile(r"(?:^|[._])(?:pid|port|seed)$")


def show_of(name: str, value: Value) -> str:
    """The value of the fact `name`: a number that names something is typed, not read, as port 49671 and pid 4711."""
    return str(value) if isinstance(value, int) and _NAMES_SOMETHING.search(name) else show(value)


def show(value: Value) -> str:
    """A value as a person reads it: `1,408`, `0.25`, `true`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}".removesuffix(".0")
    return str(value)
