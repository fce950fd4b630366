"""Conditions, values and fact names as a person reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.launch import Launch
from engine_probe.logs import stages
from playbooks.conditions import Answer, Unset
from playbooks.diagnosis_report import value_of
from playbooks.facts import register
from playbooks.wording import (
    arguments,
    change,
    expected,
    measured,
    nothing_to_do,
    quantity,
    sentence,
    size,
    with_labels,
)

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
    assert arguments(launch) == "enforce-eager, kv-cache-memory-bytes 96 MiB, dtype half, port 8000"
    assert arguments(Launch("tiny", "m")) == "none given"


def test_every_fact_has_a_label_and_texts_get_it() -> None:
    assert all(one.label and "_" not in one.label for one in register())
    said = with_labels("needed_gib is unknown: kv.tokens.txt, launch.max_model_len and x.kv.tokens stay or not")
    assert said == "KV cache needed is unknown: kv.tokens.txt, max-model-len as launched and x.kv.tokens stay or not"


def test_what_names_something_is_no_quantity() -> None:
    assert quantity(49671, name="launch.port") == "49671"
    assert quantity(4711, name="gpu.largest_other_pid") == "4711"
    assert quantity(49671, name="engine.max_model_len") == "49,671"


def test_small_and_single_quantities() -> None:
    assert quantity(0.004, "GiB") == "4.1 MiB"
    assert quantity(1, "tokens") == "1 token"
    assert quantity(8192.0) == "8,192"
    words = {"unit": "processes", "name": "engine.world_size"}
    assert [value_of({**words, "value": one}) for one in (1, 2)] == ["1 process", "2 processes"]
    assert value_of({"value": "qwn25", "unit": "as vLLM's argument", "name": "launch.model"}) == "qwn25"


def test_a_change_of_bytes_has_its_unit_wherever_it_is_told() -> None:
    assert change("args.kv-cache-memory-bytes", 293601280) == "args.kv-cache-memory-bytes = 280 MiB (293,601,280 bytes)"
    assert change("args.max-model-len", 1408) == "args.max-model-len = 1408"
    assert change("args.port", None) == "args.port = ?"


def test_every_number_that_a_log_gives_has_a_label() -> None:
    names = {one.name for one in register()}
    table = (Path(stages.__file__).parent / "data" / "stages.tsv").read_text("utf-8")
    told = set(re.findall(r"(?<![\w/.])([a-z]+\.[a-z_]+)=", table))
    assert len(told) > 30
    assert not told - names


def test_a_change_that_does_nothing_says_so_without_a_riddle() -> None:
    unset, known = Unset("as launched"), Known(4, "declared", "as launched")
    without = nothing_to_do("launch.max_num_seqs is set", lambda _name: unset)
    assert without == "max-num-seqs is not set in this launch, so there is nothing to take out or to change"
    assert "is set in this launch already" in nothing_to_do("launch.max_num_seqs is unset", lambda _name: known)
    unknown = nothing_to_do("launch.max_num_seqs is set", lambda _name: Unknown("the log does not say"))
    assert "is not known" in unknown
    assert "the log does not say" in unknown
