"""Conditions, values and fact names as a person reads them: labels for names, units beside numbers.

`kv.tokens >= launch.max_model_len` becomes `KV cache tokens ≥ 1,408 (max-model-len as launched)`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.redact import MASKED, names_a_secret
from playbooks.conditions import Unset, evaluate, parse, show, show_of
from playbooks.facts import info_of, named, number_or_text

if TYPE_CHECKING:
    from engine_probe.facts import Value
    from engine_probe.launch import ArgValue, Launch
    from playbooks.conditions import Answer, Condition, Lookup

_SIGNS = {"<=": "≤", ">=": "≥", "==": "=", "!=": "≠"}
_STATES = {"set": "set", "unset": "not set", "true": "yes", "false": "no", "unchanged": "unchanged"}
_NAME = re.compile(r"(?<![\w./-])[a-z]+[a-z0-9_]*(?:\.[a-zA-Z0-9_]+)*(?![\w/-])")
_COUNTED = ("tokens", "blocks")
_LEAST_GIB = 0.01
"""What is less would be rounded to nothing."""
_BYTE_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def expected(text: str, lookup: Lookup, *, brief: bool = False) -> str:
    """What the condition wants, with the value that it compares with. `brief` leaves out where that comes from."""
    condition = parse(text)
    label = info_of(condition.fact).label
    if condition.op == "is":
        return f"{label}: {_STATES[str(condition.right)]}"
    return f"{label} {_SIGNS.get(condition.op, condition.op)} {_right(condition, lookup, brief)}"


def measured(text: str, lookup: Lookup, before: Lookup | None = None, *, beside_label: bool = False) -> str:
    """What there is: a value with its unit, `not set`, or `unknown`. With `unchanged` also what there was.

    `beside_label`: a unit that the label has already is not said again.
    """
    condition = parse(text)
    info = info_of(condition.fact)
    unit = _unsaid(info.unit, info.label) if beside_label else info.unit
    now = _answer(lookup(condition.fact), unit, condition.fact)
    if condition.right == "unchanged" and condition.op == "is" and before is not None:
        return f"{now} (was {_answer(before(condition.fact), unit, condition.fact)})"
    return now


def sentence(text: str, lookup: Lookup, before: Lookup | None = None) -> str:
    """The condition as it came out: `KV cache tokens 1,536 ≥ 1,408 (max-model-len as launched)`."""
    condition = parse(text)
    label, value = info_of(condition.fact).label, measured(text, lookup, before, beside_label=True)
    result = evaluate(condition, lookup, before)
    if result.holds is None and value != "not set":
        reason = (result.reason or "nothing tells it").removeprefix(f"{condition.fact} is unknown: ")
        return f"{label}: unknown, because {with_labels(reason)}"
    if condition.op == "is" or result.holds is None:
        return f"{label}: {value}"
    sign = _SIGNS.get(condition.op, condition.op)
    return f"{label} {value}{'' if result.holds else ', not'} {sign} {_right(condition, lookup)}"


def nothing_to_do(text: str, lookup: Lookup) -> str:
    """Why a change that is for this condition alone does nothing where it does not hold."""
    condition = parse(text)
    name = info_of(condition.fact).label.removesuffix(" as launched")
    if isinstance(lookup(condition.fact), Unknown):
        return f"whether it would do anything here is not known: {sentence(text, lookup)}"
    if condition.op == "is" and condition.right == "set":
        return f"{name} is not set in this launch, so there is nothing to take out or to change"
    if condition.op == "is" and condition.right == "unset":
        return f"{name} is set in this launch already, and this is for one without it"
    wish = expected(text, lookup, brief=True)
    return f"it would do nothing here: {sentence(text, lookup)}; it helps only with {wish}"


def with_labels(text: str) -> str:
    """`text` with the names of registered facts replaced by their labels."""
    known = {one.name: one.label for one in named()}
    return _NAME.sub(lambda found: known.get(found[0], found[0]), text)


def label_of(name: str) -> str:
    """The label of a fact: `max-model-len as launched`."""
    return info_of(name).label


def quantity(value: Value, unit: str = "", name: str = "") -> str:
    """A value with its unit: `264 MiB`, `0.09 GiB`, `yes`, `1,536 tokens`, `0.9`. `name`: of the fact, if it is one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "bytes" or (unit == "GiB" and 0 < value < _LEAST_GIB):
        return size(value if unit == "bytes" else value * 2**30)
    if unit in ("GiB", "s"):
        return f"{show(round(value, 2))} {unit}"
    if unit in _COUNTED:
        return f"{show(value)} {unit if value != 1 else unit.removesuffix('s')}"
    return show_of(name, value)


def change(key: str, value: Value | None) -> str:
    """What a key is set to, with its unit: `args.kv-cache-memory-bytes = 280 MiB (293,601,280 bytes)`, `?`."""
    if isinstance(value, int) and not isinstance(value, bool) and unit_of(key) == "bytes":
        return f"{key} = {size(value)} ({value:,} bytes)"
    return f"{key} = {'?' if value is None else value}"


def unit_of(key: str) -> str:
    """The unit of what an argument takes; empty for all else."""
    name = key.partition(".")[2]
    return info_of(f"launch.{name.replace('-', '_')}").unit if key.startswith("args.") else ""


def arguments(launch: Launch) -> str:
    """The launch's arguments with their units: `enforce-eager, kv-cache-memory-bytes 96 MiB`."""
    return ", ".join(_argument(name, value) for name, value in launch.args.items()) or "none given"


def _argument(name: str, value: ArgValue) -> str:
    if value is True:
        return name
    if names_a_secret(name):
        return f"{name} {MASKED}"
    plain = " ".join(value) if isinstance(value, tuple) else value
    number = number_or_text(plain) if isinstance(plain, str) else plain
    return f"{name} {quantity(number, unit_of(f'args.{name}'), name)}"


def size(count: float) -> str:
    """Bytes in the largest unit that leaves a number of at least 1: `96 MiB`, `1.5 GiB`, `512 bytes`."""
    name, factor = next(((name, factor) for name, factor in _BYTE_UNITS if abs(count) >= factor), ("bytes", 1))
    return f"{show(round(count / factor, 2)).removesuffix('.0')} {name}"


def _right(condition: Condition, lookup: Lookup, brief: bool = False) -> str:
    """What is compared with; a unit that the label on the left has already is not said again."""
    left = info_of(condition.fact)
    if condition.right_fact is None:
        return quantity(condition.right, _unsaid(left.unit, left.label))
    answer, right = lookup(condition.right_fact), info_of(condition.right_fact)
    if not isinstance(answer, Known):
        return right.label
    value = quantity(answer.value, _unsaid(right.unit, left.label))
    return value if brief else f"{value} ({right.label})"


def _unsaid(unit: str, label: str) -> str:
    return "" if unit in label.split() else unit


def _answer(answer: Answer, unit: str, name: str) -> str:
    if isinstance(answer, Unset):
        return "not set"
    return "unknown" if isinstance(answer, Unknown) else quantity(answer.value, unit, name)
