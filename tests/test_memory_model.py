"""Models from config.json alone: every family's parameters, quantisations, class defaults, what vLLM adds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.errors import InputError
from engine_probe.memory.read_model import read_model
from engine_probe.memory.shapes_parts import MADE_WHILE_LOADING
from tests.memory_configs import (
    DEEPSEEK_V2_LITE,
    GEMMA_3_4B,
    GEMMA_3_27B,
    GPT_OSS_20B,
    LLAMA_4_SCOUT,
    LLAMA_8B,
    MODELS,
    QWEN2_VL_7B,
    QWEN_05B,
    Known,
    llama,
    sized,
)
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.model import ModelShape

GIB = 1 << 30


def gib(shape: ModelShape) -> float:
    return sum(part.size_bytes for part in shape.weights) / GIB


def parameters(shape: ModelShape) -> int:
    return sum(part.floats for part in shape.weights if part.name != MADE_WHILE_LOADING)


def made_gib(shape: ModelShape) -> float:
    return sum(part.size_bytes for part in shape.weights if part.name == MADE_WHILE_LOADING) / GIB


@pytest.mark.parametrize(("name", "known"), MODELS.items(), ids=list(MODELS))
def test_config_json_makes_as_many_parameters_as_the_card_names(tmp_path: Path, name: str, known: Known) -> None:
    shape = read_model(write_config(tmp_path, known.config))
    assert parameters(shape) == pytest.approx(known.parameters, rel=known.tolerance), name
    assert shape.doubts == ()
    assert shape.source == "computed: config.json"


def quantised(scheme: dict[str, Any], base: dict[str, Any] = LLAMA_8B) -> dict[str, Any]:
    return {**base, "quantization_config": scheme}


def compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **more}


# What vLLM printed as "Model loading took" for such checkpoints of Llama-3.1-8B, or arithmetic from the card's sizes.
@pytest.mark.parametrize(
    ("scheme", "wanted_gib"),
    [
        (compressed({"num_bits": 8, "strategy": "channel", "type": "int"}), 8.49),
        (compressed({"num_bits": 8, "strategy": "tensor", "type": "float"}), 8.49),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, 8.49),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, 5.37),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}, 5.37),
        (compressed({"num_bits": 4, "strategy": "group", "group_size": 128, "type": "int"}), 5.34),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8.49),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 5.64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8.49),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, 8.49),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, 5.64),
    ],
)
def test_a_quantised_checkpoint_keeps_its_vocabulary_in_16_bits(
    tmp_path: Path, scheme: dict[str, Any], wanted_gib: float
) -> None:
    shape = read_model(write_config(tmp_path, quantised(scheme)))
    assert gib(shape) == pytest.approx(wanted_gib, rel=0.003)
    embedding = next(part for part in shape.weights if part.name == "embedding")
    assert embedding.size_bytes == 128256 * 4096 * 2
    assert shape.quantization is not None


def test_modelopt_writes_its_own_file(tmp_path: Path) -> None:
    folder = write_config(tmp_path, LLAMA_8B)
    plain = gib(read_model(folder))
    said = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(said), encoding="utf-8")
    shape = read_model(folder)
    assert gib(shape) == pytest.approx(8.49, rel=0.003)
    assert gib(shape) < plain
    assert shape.kv_cache_dtype == "fp8"


def test_modules_that_are_not_converted_stay_as_they_were(tmp_path: Path) -> None:
    attention = [f"model.layers.{layer}.self_attn.{part}_proj" for layer in range(32) for part in "qkvo"]
    everything = compressed({"num_bits": 8, "strategy": "channel", "type": "float"})
    some = {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head", *attention]}
    globbed = {**everything, "ignore": ["lm_head", "re:.*self_attn.*"]}
    starred = {**everything, "ignore": ["lm_head", "model.layers.*.self_attn.*"]}
    sizes = [
        gib(read_model(write_config(tmp_path / str(at), quantised(scheme))))
        for at, scheme in enumerate((everything, some, globbed, starred))
    ]
    attention_numbers = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096)
    assert sizes[1] - sizes[0] == pytest.approx(attention_numbers / GIB, rel=0.01)
    assert sizes[2] == pytest.approx(sizes[1])
    assert sizes[3] == pytest.approx(sizes[1])


def test_targets_of_several_groups(tmp_path: Path) -> None:
    groups = {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "strategy": "channel", "type": "float"}},
        "group_1": {
            "targets": ["re:.*mlp.*"],
            "weights": {"num_bits": 4, "strategy": "group", "group_size": 128, "type": "int"},
        },
    }
    scheme = {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}
    shape = read_model(write_config(tmp_path, quantised(scheme)))
    down = next(part for part in shape.weights if part.name == "down_proj")
    output = next(part for part in shape.weights if part.name == "o_proj")
    assert down.size_bytes == pytest.approx(4096 * 14336 * 4.125 / 8, rel=1e-3)
    assert output.size_bytes == pytest.approx(4096 * 4096, rel=1e-2)


def test_mxfp4_is_for_experts(tmp_path: Path) -> None:
    scheme = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    shape = read_model(write_config(tmp_path, quantised(scheme, GPT_OSS_20B)))
    experts = sum(part.size_bytes for part in shape.weights if part.name.startswith("experts."))
    biases = 24 * 32 * (2 * 2880 + 2880) * 2
    assert experts == 24 * 32 * 3 * 2880 * 2880 * 17 // 32 + biases
    assert gib(shape) == pytest.approx(12.85, rel=0.002)


def test_an_unknown_quantisation_widens_the_range(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, quantised({"quant_method": "newest_thing"})))
    assert "newest-thing" in shape.doubts[0]
    assert shape.weights_high - shape.weights_low > 0.9


def test_an_unknown_class_is_taken_for_a_kin_of_llama_with_a_doubt(tmp_path: Path) -> None:
    known = read_model(write_config(tmp_path / "a", LLAMA_8B))
    other = read_model(write_config(tmp_path / "b", {**LLAMA_8B, "model_type": "brand_new"}))
    assert gib(other) == pytest.approx(gib(known))
    assert "brand_new" in other.doubts[0]
    assert other.weights_high > known.weights_high


def test_total_size_of_an_index_narrows_an_unknown_class(tmp_path: Path) -> None:
    folder = write_config(tmp_path, {**LLAMA_8B, "model_type": "brand_new"})
    before = read_model(folder)
    index = {"metadata": {"total_size": 17_000_000_000}, "weight_map": {}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    shape = read_model(folder)
    assert shape.source == "measured: total_size of the index"
    assert (gib(shape) - made_gib(shape)) * GIB == pytest.approx(17_000_000_000, rel=1e-3)
    assert shape.weights_high < before.weights_high


def test_what_real_files_leave_out_comes_from_the_class(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, GEMMA_3_4B))
    assert (shape.attention_heads, shape.kv_heads, shape.vocab_size, shape.max_position) == (8, 4, 262208, 131072)
    assert shape.ties_embeddings
    assert shape.has_vision


def test_null_is_not_left_out(tmp_path: Path) -> None:
    config = sized("mistral", "MistralForCausalLM", (4096, 14336, 32, 32, 8, 32000))
    left_out = read_model(write_config(tmp_path / "a", config))
    null = read_model(write_config(tmp_path / "b", {**config, "sliding_window": None}))
    assert {cache.kind for cache in left_out.layers} == {"sliding"}
    assert {cache.kind for cache in null.layers} == {"full"}


def test_tied_embeddings_are_held_once(tmp_path: Path) -> None:
    tied = read_model(write_config(tmp_path / "a", QWEN_05B))
    apart = read_model(write_config(tmp_path / "b", {**QWEN_05B, "tie_word_embeddings": False}))
    assert parameters(apart) - parameters(tied) == 151936 * 896


@pytest.mark.parametrize(
    "architecture", ["LlamaModel", "LlamaForSequenceClassification", "LlamaForTokenClassification"]
)
def test_a_model_that_embeds_or_classifies_has_no_head(tmp_path: Path, architecture: str) -> None:
    shape = read_model(write_config(tmp_path, {**LLAMA_8B, "architectures": [architecture]}))
    assert parameters(shape) == 8_030_261_248 - 128256 * 4096
    assert not shape.ties_embeddings


@pytest.mark.parametrize(
    "architecture", ["LlamaForCausalLM", "LlamaLMHeadModel", "InternVLChatModel", "ChatGLMModel", ""]
)
def test_a_model_that_writes_has_one(tmp_path: Path, architecture: str) -> None:
    shape = read_model(write_config(tmp_path, {**LLAMA_8B, "architectures": [architecture]}))
    assert parameters(shape) == 8_030_261_248


def test_a_vocabulary_is_rounded_up_to_64(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, llama(2048, 8192, 2, 32, 8, 49155, tie_word_embeddings=True)))
    embedding = next(part for part in shape.weights if part.name == "embedding")
    assert embedding.size_bytes == 49216 * 2048 * 2
    assert embedding.padding_bytes == 61 * 2048 * 2


@pytest.mark.parametrize(
    ("config", "wanted_gib"),
    [
        (LLAMA_8B, 131072 * 128 * 2 / GIB),
        (LLAMA_4_SCOUT, 10485760 * 128 * 2 / GIB),  # 2.5 GiB
        (GEMMA_3_27B, 9 * 131072 * 128 * 2 / GIB),  # eight times the positions, and once for the sliding layers
        (QWEN2_VL_7B, 4 * 32768 * 128 * 2 / GIB),
        (DEEPSEEK_V2_LITE, (163840 * 64 + 27 * 16 * 256 * 512) * 2 / GIB),  # with kv_b_proj's halves
        (GPT_OSS_20B, 131072 * 64 * 4 / GIB),
    ],
    ids=["plain", "ten million positions", "scaled and local", "for video", "latent attention", "float32"],
)
def test_tables_that_are_made_while_loading(tmp_path: Path, config: dict[str, Any], wanted_gib: float) -> None:
    assert made_gib(read_model(write_config(tmp_path, config))) == pytest.approx(wanted_gib)


def test_a_folder_without_a_model_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json"):
        read_model(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_model(tmp_path / "gone")


@pytest.mark.parametrize("dtype", [None, "float32", "float64", "torch.bfloat16"])
def test_float32_is_loaded_as_16_bits(tmp_path: Path, dtype: str | None) -> None:
    shape = read_model(write_config(tmp_path, {**LLAMA_8B, "torch_dtype": dtype}))
    assert shape.dtype == "bfloat16"
    assert gib(shape) == pytest.approx(14.99, rel=1e-3)
