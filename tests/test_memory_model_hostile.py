"""Folders that are damaged or made to harm: one clear error, at once, without much memory."""

from __future__ import annotations

import json
import resource
import struct
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.errors import InputError
from engine_probe.memory.parallel import Parallel
from engine_probe.memory.rank_weights import weights_on_rank
from engine_probe.memory.read_model import read_model
from tests.memory_configs import BAMBA_9B, GEMMA_3_27B, LLAMA_8B, QWEN3_NEXT
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def no_gigabytes() -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10  # KiB


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"a": ' * 100_000,
        "[" * 200_000,
        '{"hidden_size": ' + "9" * 10_000 + "}",
        "\xff\xfe",
        '{"hidden_size": NaN}',
    ],
    ids=["empty", "list", "null", "cut", "deep", "deep list", "long number", "no text", "not a number"],
)
def test_what_is_no_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read_model(tmp_path)
    assert "config.json" in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("value", [-1, 1 << 62, "4096", [4096], {"a": 1}, True, 0.5, float("inf"), float("nan"), 1e300])
@pytest.mark.parametrize(
    "key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"]
)
def test_sizes_that_are_none(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(InputError, match=key):
        read_model(write_config(tmp_path, {**LLAMA_8B, key: value}))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_hidden_layers": 0}, "at least 1"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"intermediate_size": 0}, "intermediate_size is 0"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"head_dim": 0}, "head_dim is 0"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 0}}, "bits is 0"),
        ({"num_local_experts": 10**9}, "num_local_experts"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": [1] * 32}, "layer_types"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"partial_rotary_factor": "half"}, "partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": -8}}, "factor"),
        ({"quantization_config": {"quant_method": "awq", "bits": "four"}}, "bits"),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, "x"]}}, "weight_block_size"),
        ({"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": "lm_head"}}, "modules_to_not"),
        ({"vision_config": {"hidden_size": -1}}, "hidden_size"),
        ({"kv_lora_rank": "much"}, "kv_lora_rank"),
        ({"sliding_window": "wide"}, "sliding_window"),
    ],
)
def test_one_wrong_value_is_named(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_model(write_config(tmp_path, {**LLAMA_8B, **more}))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers"])
def test_an_unknown_class_without_a_size_is_not_guessed(tmp_path: Path, key: str) -> None:
    config = {name: value for name, value in LLAMA_8B.items() if name != key} | {"model_type": "brand_new"}
    with pytest.raises(InputError, match=key):
        read_model(write_config(tmp_path, config))


def test_text_inside_text_is_followed_once(tmp_path: Path) -> None:
    nested: dict[str, Any] = dict(LLAMA_8B)
    for _ in range(200):
        nested = {"model_type": "llava", "text_config": nested}
    with pytest.raises(InputError):
        read_model(write_config(tmp_path, nested))


def test_patterns_are_not_trusted(tmp_path: Path) -> None:
    evil = ["re:(a+)+$", "re:(.*)*x", "re:(a|aa)+$", "re:" + "(" * 5000, "re:[", "*" * 5000, "a" * 100_000, ""]
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": evil * 200}}
    assert read_model(write_config(tmp_path, config)).quantization == "fp8"


@pytest.mark.parametrize(
    ("config", "more"),
    [
        (QWEN3_NEXT, {"layer_types": ["linear_attention"]}),
        (QWEN3_NEXT, {"layer_types": ["teleport"] * 48}),
        (QWEN3_NEXT, {"linear_num_value_heads": -1}),
        (BAMBA_9B, {"mamba_n_heads": "many"}),
        (BAMBA_9B, {"attn_layer_indices": [-1]}),
        (GEMMA_3_27B, {"vision_config": {"model_type": "siglip_vision_model", "num_hidden_layers": 10**9}}),
        (GEMMA_3_27B, {"text_config": {"model_type": "gemma3_text", "num_hidden_layers": -3}}),
    ],
)
def test_odd_layers(tmp_path: Path, config: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_model(write_config(tmp_path, {**config, **more}))


@pytest.mark.parametrize(
    "index", [{"weight_map": {"x": "../../etc/passwd"}}, {"weight_map": []}, {"weight_map": {"x": 3}}, {"metadata": 1}]
)
def test_an_index_leads_nowhere_else(tmp_path: Path, index: dict[str, Any]) -> None:
    folder = write_config(tmp_path, LLAMA_8B)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert read_model(folder).source == "computed: config.json"


@pytest.mark.parametrize("total", [-1, 0, 1 << 70, "much", 1e400, None, True])
def test_a_total_that_is_none_is_not_taken(tmp_path: Path, total: Any) -> None:
    folder = write_config(tmp_path, {**LLAMA_8B, "model_type": "brand_new"})
    index = {"metadata": {"total_size": total}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert read_model(folder).source == "computed: config.json"


def gguf(tensors: int = 0, entries: int = 0, rest: bytes = b"", magic: bytes = b"GGUF", version: int = 3) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, entries) + rest


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        gguf(magic=b"GGML"),
        gguf(version=1 << 31),
        gguf(tensors=1 << 60),
        gguf(entries=1 << 60),
        gguf(entries=1, rest=struct.pack("<Q", 1 << 60)),
        gguf(entries=1, rest=text("a") + struct.pack("<I", 99)),
        gguf(entries=1, rest=text("a") + struct.pack("<IIQ", 9, 4, 1 << 60)),
        gguf(entries=1, rest=text("a") + struct.pack("<IIQ", 9, 9, 1)),
        gguf(entries=1, rest=text("a") + struct.pack("<If", 6, float("nan"))),
        gguf(tensors=1, rest=text("a") + struct.pack("<I", 1 << 30)),
        gguf(tensors=1, rest=text("a") + struct.pack("<IQQIQ", 2, 1 << 39, 1 << 39, 0, 0)),
        gguf(tensors=1, rest=text("a") + struct.pack("<IQIQ", 1, 32, 77, 0)),
        gguf(),
    ],
)
def test_a_gguf_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_model(tmp_path)
    assert "model.gguf" in str(caught.value)


def test_a_pipe_does_not_hold_the_plan(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(InputError):
        read_model(tmp_path)


@pytest.mark.parametrize("rank", [-1, 8, 1 << 40])
def test_a_rank_that_is_not_there(tmp_path: Path, rank: int) -> None:
    shape = read_model(write_config(tmp_path, LLAMA_8B))
    with pytest.raises(InputError, match="rank"):
        weights_on_rank(shape, Parallel(4, 2), rank)


@pytest.mark.parametrize("sizes", [{"tp": 0}, {"pp": -1}, {"dp": 0}])
def test_parallel_sizes_that_are_none(sizes: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 1"):
        Parallel(**sizes)


@pytest.mark.parametrize("partition", [(16, 17), (32,), (33, -1), ()])
def test_a_partition_that_does_not_fit(tmp_path: Path, partition: tuple[int, ...]) -> None:
    shape = read_model(write_config(tmp_path, LLAMA_8B))
    with pytest.raises(InputError, match="VLLM_PP_LAYER_PARTITION"):
        weights_on_rank(shape, Parallel(1, 2, pp_partition=partition))
