"""Which argument or variable of the launch a message is about, so that a fix may take it away."""

from __future__ import annotations

import pytest

from engine_probe.facts import Fact, Known
from engine_probe.launch import Launch
from playbooks.facts import lookup_for

LAUNCH = Launch(
    "tiny",
    "/models/tiny",
    args={"max-num-seqs": 0, "hf-overrides": "{bad"},
    env={"VLLM_CPU_KVCACHE_SPACE": "0.5", "VLLM_ATTENTION_BACKEND": "FOO"},
)


def found(name: str, **told: object) -> object:
    facts: dict[str, Fact] = {key: Known(str(value), "parsed", "load-1.log") for key, value in told.items()}
    answer = lookup_for(LAUNCH, facts)(name)
    return answer.value if isinstance(answer, Known) else None


@pytest.mark.parametrize(
    ("told", "argument"),
    [
        ({"argument": "--max-num-seqs"}, "max-num-seqs"),
        ({"argument": "max_num_seqs"}, "max-num-seqs"),
        ({"argument": "hf_overrides"}, "hf-overrides"),
        ({"flag": "--hf-overrides"}, "hf-overrides"),
        ({"argument": "max_num_batched_tokens"}, None),
        ({"argument": "max_num_batched_tokens", "next_argument": "max_num_seqs"}, "max-num-seqs"),
        ({}, None),
    ],
)
def test_the_argument_that_the_launch_sets(told: dict[str, str], argument: str | None) -> None:
    assert found("config.argument_at_fault", **told) == argument


@pytest.mark.parametrize(
    ("told", "variable"),
    [
        ({"variable": "VLLM_ATTENTION_BACKEND"}, "VLLM_ATTENTION_BACKEND"),
        ({"variable": "VLLM_PORT"}, None),
        ({"value": "0.5"}, "VLLM_CPU_KVCACHE_SPACE"),
        ({"value": "0.25"}, None),
        ({}, None),
    ],
)
def test_the_variable_that_the_launch_sets(told: dict[str, str], variable: str | None) -> None:
    assert found("environment.variable_at_fault", **told) == variable
