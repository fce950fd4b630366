"""The language of conditions: complete, three-valued, and nothing more than it says."""

from __future__ import annotations

import pytest

from engine_probe.facts import Known, Unknown
from playbooks.conditions import Answer, ConditionError, Unset, evaluate, parse

FACTS: dict[str, Answer] = {
    "kv.tokens": Known(1536, "parsed", "load-1.log:51"),
    "launch.max_model_len": Known(1408, "declared", "launch tiny"),
    "launch.dtype": Unset("launch tiny"),
    "launch.quantization": Known("fp8", "declared", "launch tiny"),
    "gpu.total_gib": Unknown("no GPU was read"),
    "engine.config_accepted": Known(True, "measured", "a dry load"),
    "needed_gib": Known(0.25, "parsed", "load-1.log:65"),
}


def lookup(name: str) -> Answer:
    return FACTS[name]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("kv.tokens >= launch.max_model_len", True),
        ("kv.tokens < launch.max_model_len", False),
        ("kv.tokens >= 1536", True),
        ("kv.tokens > 1536", False),
        ("kv.tokens != 1536", False),
        ("kv.tokens == 1536", True),
        ("needed_gib <= 0.25", True),
        ("launch.dtype is unset", True),
        ("launch.dtype is set", False),
        ("launch.max_model_len is set", True),
        ("launch.max_model_len is unset", False),
        ("engine.config_accepted is true", True),
        ("engine.config_accepted is false", False),
        ("launch.quantization == fp8", True),
        ("launch.quantization != 'awq'", True),
        ("gpu.total_gib >= 1", None),
        ("gpu.total_gib is set", None),
        ("gpu.total_gib is unset", None),
        ("kv.tokens > gpu.total_gib", None),
        ("launch.dtype == float16", None),
        ("kv.tokens is true", None),
        ("launch.quantization > 3", None),
        ("launch.quantization == 3", None),
    ],
)
def test_answers(text: str, holds: bool | None) -> None:
    result = evaluate(parse(text), lookup)
    assert result.holds is holds
    assert (result.reason is None) == (holds is not None)


def test_the_values_are_shown() -> None:
    result = evaluate(parse("kv.tokens >= launch.max_model_len"), lookup)
    assert result.text == "kv.tokens 1,536 >= launch.max_model_len 1,408"


def test_unknown_says_why() -> None:
    result = evaluate(parse("gpu.total_gib >= 1"), lookup)
    assert result.reason == "gpu.total_gib is unknown: no GPU was read"


def test_unchanged_compares_with_the_earlier_moment() -> None:
    earlier: dict[str, Answer] = {**FACTS, "kv.tokens": Known(1000, "parsed", "load-1.log:51")}
    condition = parse("kv.tokens is unchanged")
    assert evaluate(condition, lookup).holds is None
    assert evaluate(condition, lookup, lookup).holds is True
    changed = evaluate(condition, lookup, earlier.__getitem__)
    assert changed.holds is False
    assert changed.text == "kv.tokens was 1,000, is 1,536"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kv.tokens",
        "kv.tokens is",
        "kv.tokens is big",
        "kv.tokens = 3",
        "kv.tokens >= 3 and kv.tokens < 9",
        "kv.tokens >= 3 + 4",
        "kv.tokens >= max(1, 2)",
        "__import__('os') is set",
        "3 < kv.tokens",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse(text)
    assert "`" in str(error.value)


def test_facts_read_are_named() -> None:
    assert parse("kv.tokens >= launch.max_model_len").facts() == ("kv.tokens", "launch.max_model_len")
    assert parse("kv.tokens >= 3").facts() == ("kv.tokens",)
