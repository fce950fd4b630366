"""Conditions, values and fact names as a person reads them."""

from __future__ import annotations

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.launch import Launch
from playbooks.conditions import Answer, Unset
from playbooks.facts import register
from playbooks.wording import arguments, expected, measured, quantity, sentence, size, with_labels

FACTS: dict[str, Answer] = {
    "kv.tokens": Known(1536, "parsed", "load-1.log:51"),
    "launch.max_model_len": Known(1408, "declared", "launch tiny"),
    "launch.dtype": Unset("launch tiny"),
    "gpu.total_gib": Unknown("no GPU was read"),
    "engine.config_accepted": Known(True, "measured", "a dry load"),
    "memory.needed_gib_at_fp8": Known(0.1275, "computed", "a test"),
    "available_gib": Known(0.09, "parsed", "load-1.log:65"),
    "memory.pool_needed_bytes": Known(276_824_064, "computed", "a test"),
}
EARLIER: dict[str, Answer] = {**FACTS, "kv.tokens": Known(1000, "parsed", "load-1.log:51")}


@pytest.mark.parametrize(
    ("text", "wanted", "found", "whole"),
    [
        (
            "kv.tokens >= launch.max_model_len",
            "KV cache tokens ≥ 1,408 (max-model-len as launched)",
            "1,536 tokens",
            "KV cache tokens 1,536 ≥ 1,408 (max-model-len as launched)",
        ),
        ("kv.tokens < 1000", "KV cache tokens < 1,000", "1,536 tokens", "KV cache tokens 1,536, not < 1,000"),
        (
            "memory.needed_gib_at_fp8 <= available_gib",
            "8-bit KV cache needed ≤ 0.09 GiB (KV cache available)",
            "0.13 GiB",
            "8-bit KV cache needed 0.13 GiB, not ≤ 0.09 GiB (KV cache available)",
        ),
        ("launch.dtype == fp8", "dtype as launched = fp8", "not set", "dtype as launched: not set"),
        ("launch.dtype is unset", "dtype as launched: not set", "not set", "dtype as launched: not set"),
        ("launch.max_model_len is set", "max-model-len as launched: set", "1,408", "max-model-len as launched: 1,408"),
        (
            "engine.config_accepted is true",
            "vLLM accepts the configuration: yes",
            "yes",
            "vLLM accepts the configuration: yes",
        ),
        (
            "gpu.total_gib >= 1",
            "memory of the smallest GPU ≥ 1 GiB",
            "unknown",
            "memory of the smallest GPU: unknown, because no GPU was read",
        ),
        (
            "kv.tokens is unchanged",
            "KV cache tokens: unchanged",
            "1,536 tokens (was 1,000 tokens)",
            "KV cache tokens: 1,536 (was 1,000)",
        ),
    ],
)
def test_words(text: str, wanted: str, found: str, whole: str) -> None:
    assert expected(text, FACTS.__getitem__) == wanted
    assert measured(text, FACTS.__getitem__, EARLIER.__getitem__) == found
    assert sentence(text, FACTS.__getitem__, EARLIER.__getitem__) == whole


def test_a_right_side_that_is_not_known_is_named() -> None:
    assert expected("kv.tokens >= gpu.total_gib", FACTS.__getitem__) == "KV cache tokens ≥ memory of the smallest GPU"
    brief = expected("kv.tokens >= launch.max_model_len", FACTS.__getitem__, brief=True)
    assert brief == "KV cache tokens ≥ 1,408"


def test_quantities_have_their_unit() -> None:
    assert size(96 * 2**20) == "96 MiB"
    assert size(276_824_064) == "264 MiB"
    assert size(1.5 * 2**30) == "1.5 GiB"
    assert size(12) == "12 bytes"
    assert quantity(0.0912, "GiB") == "0.09 GiB"
    assert quantity(4096, "tokens") == "4,096 tokens"
    assert quantity(False) == "no"
    assert quantity("fp8", "GiB") == "fp8"


def test_arguments_of_a_launch() -> None:
    launch = Launch("tiny", "m", {"enforce-eager": True, "kv-cache-memory-bytes": "96M", "dtype": "half", "port": 8000})
    assert arguments(launch) == "enforce-eager, kv-cache-memory-bytes 96 MiB, dtype half, port 8,000"
    assert arguments(Launch("tiny", "m")) == "none given"


def test_every_fact_has_a_label_and_texts_get_it() -> None:
    assert all(one.label and "_" not in one.label for one in register())
    said = with_labels("needed_gib is unknown: kv.tokens.txt, launch.max_model_len and x.kv.tokens stay or not")
    assert said == "KV cache needed is unknown: kv.tokens.txt, max-model-len as launched and x.kv.tokens stay or not"
