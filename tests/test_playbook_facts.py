"""Facts of launches, of config.json, and those computed from others; an unknown input makes an unknown answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Fact, Known, Unknown, Value
from engine_probe.launch import Launch
from playbooks.conditions import Unset
from playbooks.facts import is_fact, lookup_for, register
from playbooks.lab.tiny_model import TinyLlama, write_tiny_llama
from playbooks.model_config import model_facts

if TYPE_CHECKING:
    from pathlib import Path

SHAPE: dict[str, Value] = {
    "model.plain_attention": True,
    "model.num_kv_heads": 32,
    "model.num_hidden_layers": 4,
    "model.head_dim": 128,
}
MESSAGE: dict[str, Value] = {"asked_len": 4096, "needed_gib": 0.25, "available_gib": 0.09, "estimated_len": 1408}


def fact(name: str, args: dict[str, object] | None = None, env: dict[str, str] | None = None, **known: Value) -> object:
    """The value of `name`, or the reason why it is unknown."""
    launch = Launch("tiny", "/models/tiny", args or {}, env or {})  # type: ignore[arg-type]
    facts: dict[str, Fact] = {key.replace("__", "."): Known(value, "parsed", "a test") for key, value in known.items()}
    answer = lookup_for(launch, facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


def dotted(values: dict[str, Value]) -> dict[str, Value]:
    return {key.replace(".", "__"): value for key, value in values.items()}


def test_the_register_has_no_name_twice() -> None:
    names = [info.name for info in register()]
    assert len(names) == len(set(names))
    assert all(info.meaning for info in register())


def test_names() -> None:
    assert is_fact("kv.tokens")
    assert is_fact("launch.env.VLLM_CPU_KVCACHE_SPACE")
    assert is_fact("asked_len", {"asked_len"})
    assert not is_fact("asked_len")
    assert not is_fact("launch.env.")
    assert not is_fact("kv.token")


def test_launch_arguments() -> None:
    assert fact("launch.max_model_len", {"max-model-len": 1408}) == 1408
    assert fact("launch.kv_cache_memory_bytes", {"kv-cache-memory-bytes": "96M"}) == 96 * 2**20
    assert fact("launch.max_model_len") == "unset"
    assert fact("launch.env.VLLM_CPU_KVCACHE_SPACE", env={"VLLM_CPU_KVCACHE_SPACE": "2"}) == 2


def test_what_nobody_told_is_unknown() -> None:
    assert fact("gpu.total_gib") == "nothing in this session has told it yet"


@pytest.mark.parametrize(
    ("args", "env", "fixed"),
    [
        ({}, {}, False),
        ({"gpu-memory-utilization": 0.9}, {}, False),
        ({"kv-cache-memory-bytes": "96M"}, {}, True),
        ({"num-gpu-blocks-override": 12}, {}, True),
        ({}, {"VLLM_CPU_KVCACHE_SPACE": "1"}, True),
    ],
)
def test_who_sets_the_pool(args: dict[str, object], env: dict[str, str], fixed: bool) -> None:
    assert fact("memory.pool_is_fixed", args, env) is fixed


def test_bytes_of_a_token() -> None:
    assert fact("memory.kv_bytes_per_token", **dotted(SHAPE)) == TinyLlama().kv_bytes_per_token == 65536
    assert fact("memory.kv_bytes_per_token", {"tensor-parallel-size": 4}, **dotted(SHAPE)) == 65536 // 4
    assert fact("memory.kv_bytes_per_token", {"tensor-parallel-size": 64}, **dotted(SHAPE)) == 65536 // 32
    assert fact("memory.kv_bytes_per_token", {"pipeline-parallel-size": 2}, **dotted(SHAPE)) == 65536 // 2
    assert fact("memory.kv_bytes_per_token", {"kv-cache-dtype": "fp8"}, **dotted(SHAPE)) == 65536 // 2
    assert fact("memory.kv_bytes_per_token", {"dtype": "float32"}, **dotted(SHAPE)) == 65536 * 2
    assert "not all plain" in str(
        fact("memory.kv_bytes_per_token", **dotted({**SHAPE, "model.plain_attention": False}))
    )
    assert "unknown" in str(fact("memory.kv_bytes_per_token"))


def test_the_pool_for_one_request_is_exact_when_the_shape_is_known() -> None:
    """32 blocks of 128 tokens and the one held back: what vLLM 0.32.0 on a CPU wants."""
    assert fact("memory.pool_needed_bytes", **MESSAGE, **dotted(SHAPE)) == 33 * 128 * 65536
    assert fact("memory.pool_needed_bytes", {"block-size": 16}, **MESSAGE, **dotted(SHAPE)) == 257 * 16 * 65536
    assert fact("memory.pool_needed_whole_gib", **MESSAGE, **dotted(SHAPE)) == 1


def test_the_pool_is_bounded_from_above_when_only_the_message_is_known() -> None:
    exact = 33 * 128 * 65536
    by_estimate = fact("memory.pool_needed_bytes", {"kv-cache-memory-bytes": "96M"}, **MESSAGE)
    by_size = fact("memory.pool_needed_bytes", asked_len=4096, needed_gib=0.25)
    for needed in (by_estimate, by_size):
        assert isinstance(needed, int)
        assert exact <= needed <= exact * 1.1
        assert needed % 2**20 == 0


def test_the_length_that_fits() -> None:
    assert fact("memory.length_that_fits", **MESSAGE) == 1408
    without = {key: value for key, value in MESSAGE.items() if key != "estimated_len"}
    length = fact("memory.length_that_fits", **without)
    assert isinstance(length, int)
    assert 0 < length <= 1408
    assert length % 16 == 0
    assert fact("memory.length_that_fits", asked_len=256, needed_gib=0.0, available_gib=0.0) == (
        "vLLM printed no estimate, and its rounded sizes leave room for no length"
    )


def test_utilization() -> None:
    known = {**MESSAGE, "needed_gib": 24.0, "available_gib": 3.18, **dotted({"gpu.total_gib": 79.25})}
    assert fact("memory.utilization_needed", {"gpu-memory-utilization": 0.6}, **known) == 0.87
    assert "release" in str(fact("memory.utilization_needed", **known))
    assert fact("memory.utilization_now", **dotted({"engine.vllm_version": "0.19.1"})) == 0.9
    assert fact("memory.utilization_now", **dotted({"engine.vllm_version": "0.20.0"})) == 0.92


def test_an_eight_bit_cache() -> None:
    assert fact("memory.needed_gib_at_fp8", needed_gib=24.0) == pytest.approx(12.0025)
    assert "needed_gib" in str(fact("memory.needed_gib_at_fp8"))


def test_tokens_of_v0() -> None:
    assert fact("kv.tokens", **dotted({"kv.blocks": 346})) == 5536


def test_config_of_the_tiny_model(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path / "m")
    facts = model_facts("m", tmp_path)
    assert {name: answer.value for name, answer in facts.items() if isinstance(answer, Known)} == {
        "model.max_position_embeddings": 4096,
        "model.num_hidden_layers": 4,
        "model.num_kv_heads": 32,
        "model.head_dim": 128,
        "model.dtype": "bfloat16",
        "model.plain_attention": True,
    }


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        ({"sliding_window": 4096}, False),
        ({"sliding_window": 4096, "use_sliding_window": False}, True),
        ({"kv_lora_rank": 512}, False),
        ({"layer_types": ["full_attention", "linear_attention"]}, False),
        ({}, True),
    ],
)
def test_other_kinds_of_attention_are_told_apart(tmp_path: Path, config: dict[str, object], plain: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 8, "hidden_size": 64, **config}))
    facts = model_facts(str(tmp_path))
    assert facts["model.plain_attention"] == Known(plain, "computed", str(tmp_path / "config.json"))
    assert facts["model.head_dim"] == Known(8, "declared", str(tmp_path / "config.json"))


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_config_that_cannot_be_read_is_unknown(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert all(isinstance(answer, Unknown) and answer.reason for answer in model_facts(str(tmp_path)).values())


def test_unset_is_not_unknown() -> None:
    assert lookup_for(Launch("a", "m"), {})("launch.max_model_len") == Unset("launch a")
