"""Models whose files' headers are there: measured bytes, what is loaded of them, and where each tensor lies."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.errors import InputError
from engine_probe.memory.parallel import Parallel
from engine_probe.memory.rank_weights import weights_on_rank
from engine_probe.memory.read_model import read_model
from engine_probe.memory.shapes_parts import MADE_WHILE_LOADING
from tests.memory_configs import DEEPSEEK_V2_LITE, QWEN_05B, llama, sized
from tests.memory_folders import BITS, Tensors, llama_tensors, write_config, write_header

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.estimates import Estimate
    from engine_probe.memory.model import ModelShape

SMALL = llama(256, 704, 3, 8, 2, 1000, max_position_embeddings=512)
WEIGHTS = "model.safetensors"


def stored(folder: Path, config: dict[str, Any], tensors: Tensors) -> ModelShape:
    write_config(folder, config)
    write_header(folder / WEIGHTS, tensors)
    return read_model(folder)


def loaded(shape: ModelShape, name: str | None = None) -> int:
    """Bytes without padding and without what is made while loading."""
    parts = [part for part in shape.weights if name is None or part.name == name]
    return sum(part.size_bytes - part.padding_bytes for part in parts if part.name != MADE_WHILE_LOADING)


def on_rank(shape: ModelShape, parallel: Parallel) -> float:
    found: Estimate = weights_on_rank(shape, parallel, family="ampere")  # type: ignore[assignment]
    return found.value


def size_of(tensors: Tensors) -> int:
    return sum(math.prod(shape) * BITS[dtype] // 8 for dtype, shape in tensors.values())


def test_headers_are_measured_to_the_byte(tmp_path: Path) -> None:
    tensors = llama_tensors(SMALL)
    shape = stored(tmp_path, SMALL, tensors)
    assert loaded(shape) == size_of(tensors)
    assert shape.source == "measured: safetensors headers"
    assert (shape.weights_low, shape.weights_high) == (1.0, 1.0)


@pytest.mark.parametrize(
    "parallel", [Parallel(), Parallel(2), Parallel(4), Parallel(8), Parallel(2, 3), Parallel(1, 2)]
)
def test_headers_and_config_agree_on_every_rank(tmp_path: Path, parallel: Parallel) -> None:
    measured = stored(tmp_path / "headers", SMALL, llama_tensors(SMALL))
    computed = read_model(write_config(tmp_path / "config", SMALL))
    for rank in range(parallel.ranks):
        one = weights_on_rank(measured, parallel, rank)
        other = weights_on_rank(computed, parallel, rank)
        assert one.value == pytest.approx(other.value, rel=1e-6)  # type: ignore[union-attr]


def test_a_float32_checkpoint_is_loaded_in_16_bits(tmp_path: Path) -> None:
    tensors = llama_tensors(SMALL, "F32")
    shape = stored(tmp_path, {**SMALL, "torch_dtype": "float32"}, tensors)
    assert loaded(shape) == size_of(tensors) // 2


def test_a_head_that_config_ties_is_not_loaded(tmp_path: Path) -> None:
    tied = {**SMALL, "tie_word_embeddings": True}
    shape = stored(tmp_path, tied, llama_tensors(SMALL))
    assert loaded(shape) == size_of(llama_tensors(SMALL, has_head=False))


def test_a_head_that_no_file_holds_is_there_all_the_same(tmp_path: Path) -> None:
    shape = stored(tmp_path, SMALL, llama_tensors(SMALL, has_head=False))
    assert loaded(shape, "head") == 1000 * 256 * 2


def test_adapters_and_layers_behind_the_last_are_not_counted(tmp_path: Path) -> None:
    extra: Tensors = {
        "model.layers.3.mlp.up_proj.weight": ("BF16", (704, 256)),  # a draft layer, as DeepSeek-V3's
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", (704, 256)),
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (16,)),
    }
    write_config(tmp_path, SMALL)
    write_header(tmp_path / "adapter_model.safetensors", {"x.lora_A.weight": ("F32", (8, 256))})
    shape = stored(tmp_path, SMALL, {**llama_tensors(SMALL), **extra})
    assert loaded(shape) == size_of(llama_tensors(SMALL))


def test_only_files_of_the_index_count(tmp_path: Path) -> None:
    tensors = llama_tensors(SMALL)
    first = {name: one for name, one in tensors.items() if "layers.0" in name}
    rest = {name: one for name, one in tensors.items() if name not in first}
    write_config(tmp_path, SMALL)
    write_header(tmp_path / "model-00001-of-00002.safetensors", first)
    write_header(tmp_path / "model-00002-of-00002.safetensors", rest)
    write_header(tmp_path / "consolidated.safetensors", tensors)
    assert loaded(read_model(tmp_path)) == size_of(tensors)
    places = dict.fromkeys(first, "model-00001-of-00002.safetensors")
    index = {"weight_map": places, "metadata": {"total_size": 1}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert loaded(read_model(tmp_path)) == size_of(first) + 1000 * 256 * 2


@pytest.mark.parametrize("content", [None, b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n"])
def test_a_file_that_never_came_leaves_config_json(tmp_path: Path, content: bytes | None) -> None:
    write_config(tmp_path, SMALL)
    index = {"weight_map": {"lm_head.weight": WEIGHTS}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    if content is not None:
        (tmp_path / WEIGHTS).write_bytes(content)
    shape = read_model(tmp_path)
    assert shape.source == "computed: config.json"
    assert WEIGHTS in shape.doubts[0]
    assert loaded(shape) == size_of(llama_tensors(SMALL))


def quantised_tensors(bits: int) -> Tensors:
    """As GPTQ packs them: eight or four numbers in one of 32 bits."""
    found: Tensors = {}
    for name, (dtype, shape) in llama_tensors(SMALL).items():
        if "_proj" not in name:
            found[name] = (dtype, shape)
            continue
        base, (rows, columns) = name.removesuffix(".weight"), shape
        found[base + ".qweight"] = ("I32", (columns * bits // 32, rows))
        found[base + ".qzeros"] = ("I32", (columns // 64, rows * bits // 32))
        found[base + ".scales"] = ("F16", (columns // 64, rows))
        found[base + ".g_idx"] = ("I32", (columns,))
    return found


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantised_checkpoint_is_measured_too(tmp_path: Path, bits: int) -> None:
    config = {**SMALL, "quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": 64}}
    shape = stored(tmp_path, config, quantised_tensors(bits))
    assert loaded(shape) == size_of(quantised_tensors(bits))
    computed = loaded(read_model(write_config(tmp_path / "config", config)))
    assert loaded(shape) == pytest.approx(computed, rel=0.02)
    half = weights_on_rank(shape, Parallel(2))
    whole = weights_on_rank(shape, Parallel(1))
    assert 0.5 <= half.value / whole.value < 0.52  # type: ignore[union-attr]


def test_nested_scales_of_bitsandbytes_are_unpacked(tmp_path: Path) -> None:
    config = {**SMALL, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    tensors = llama_tensors(SMALL)
    tensors["model.layers.0.mlp.up_proj.weight"] = ("U8", (704 * 256 // 2, 1))
    tensors["model.layers.0.mlp.up_proj.weight.absmax"] = ("U8", (704 * 256 // 64,))
    assert loaded(stored(tmp_path, config, tensors)) == size_of(tensors) + 3 * 704 * 256 // 64


def mixture(names: dict[str, tuple[int, ...]], experts: int) -> Tensors:
    found: Tensors = {}
    for name, (dtype, shape) in llama_tensors(SMALL).items():
        if ".mlp." not in name:
            found[name] = (dtype, shape)
    for layer in range(3):
        for name, shape in names.items():
            for expert in range(experts if "%d" in name else 1):
                full = f"model.layers.{layer}." + (name % expert if "%d" in name else name)
                found[full] = ("BF16", shape)
    return found


MIXTURES = {
    "mixtral": (
        {
            "block_sparse_moe.gate.weight": (8, 256), "block_sparse_moe.experts.%d.w1.weight": (704, 256),
            "block_sparse_moe.experts.%d.w3.weight": (704, 256), "block_sparse_moe.experts.%d.w2.weight": (256, 704),
        },
        {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
    ),
    "fused, with a shared expert": (
        {
            "mlp.gate.weight": (8, 256), "mlp.experts.gate_up_proj": (8, 256, 1408),
            "mlp.experts.down_proj": (8, 704, 256), "mlp.shared_expert.gate_proj.weight": (512, 256),
            "mlp.shared_expert.up_proj.weight": (512, 256), "mlp.shared_expert.down_proj.weight": (256, 512),
            "mlp.shared_expert_gate.weight": (1, 256),
        },
        {
            "model_type": "qwen2_moe", "num_experts": 8, "moe_intermediate_size": 704, "qkv_bias": False,
            "shared_expert_intermediate_size": 512, "num_experts_per_tok": 2, "decoder_sparse_step": 1,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MIXTURES)
def test_experts_are_found_by_their_names(tmp_path: Path, kind: str) -> None:
    names, more = MIXTURES[kind]
    shape = stored(tmp_path / "headers", {**SMALL, **more}, mixture(names, 8))
    computed = read_model(write_config(tmp_path / "config", {**SMALL, **more}))
    experts = [sum(part.size_bytes for part in one.weights if part.split == "experts") for one in (shape, computed)]
    assert experts == [3 * 8 * 3 * 704 * 256 * 2] * 2
    for parallel in (Parallel(2), Parallel(8), Parallel(2, dp=2, expert_parallel=True)):
        assert on_rank(shape, parallel) == pytest.approx(on_rank(computed, parallel), rel=1e-6)


def test_fused_attention_is_cut_by_heads(tmp_path: Path) -> None:
    fused = {
        name: one for name, one in llama_tensors(SMALL).items() if not any(f"{part}_proj" in name for part in "qkv")
    }
    fused |= {f"model.layers.{layer}.self_attn.qkv_proj.weight": ("BF16", (384, 256)) for layer in range(3)}
    one = stored(tmp_path / "fused", {**SMALL, "model_type": "phi3"}, fused)
    other = stored(tmp_path / "apart", SMALL, llama_tensors(SMALL))
    for tp in (1, 2, 4, 8):
        assert on_rank(one, Parallel(tp)) == pytest.approx(on_rank(other, Parallel(tp)), rel=1e-6)


def test_latent_attention_compresses_on_every_rank(tmp_path: Path) -> None:
    at = "model.layers.0.self_attn."
    tensors: Tensors = {
        at + "q_proj.weight": ("BF16", (3072, 2048)), at + "kv_a_proj_with_mqa.weight": ("BF16", (576, 2048)),
        at + "kv_a_layernorm.weight": ("BF16", (512,)), at + "kv_b_proj.weight": ("BF16", (4096, 512)),
        at + "o_proj.weight": ("BF16", (2048, 2048)), "model.layers.1.mlp.gate.weight": ("BF16", (64, 2048)),
    }  # fmt: skip
    shape = stored(tmp_path, DEEPSEEK_V2_LITE, tensors)
    whole = {part.name for part in shape.weights if part.split == "replicated"}
    assert {"qkv_a_proj", "norms and others"} <= whole
    cut = sum(part.size_bytes for part in shape.weights if part.split == "tp" and part.name != MADE_WHILE_LOADING)
    assert cut == (3072 * 2048 + 4096 * 512 + 2048 * 2048) * 2


def test_a_vision_tower_is_on_every_stage(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"], **QWEN_05B,
        "vision_config": {"depth": 1, "embed_dim": 64, "hidden_size": 896},
    }  # fmt: skip
    config["model_type"] = "qwen2_vl"
    tensors: Tensors = {
        "visual.blocks.0.attn.qkv.weight": ("BF16", (192, 64)), "visual.patch_embed.proj.weight": ("BF16", (64, 1176)),
        "model.layers.0.self_attn.q_proj.weight": ("BF16", (896, 896)),
        "model.embed_tokens.weight": ("BF16", (64, 896)),
    }  # fmt: skip
    shape = stored(tmp_path, config, tensors)
    vision = [part for part in shape.weights if part.name == "vision"]
    assert {(part.split, part.place) for part in vision} == {("tp", "every"), ("replicated", "every")}
    assert sum(part.size_bytes for part in vision) == (192 * 64 + 64 * 1176) * 2


def test_many_tensors_are_read_once_each(tmp_path: Path) -> None:
    config = sized(
        "deepseek_v3", "DeepseekV3ForCausalLM", (7168, 18432, 61, 128, 128, 129280), kv_lora_rank=512, q_lora_rank=1536,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256, n_shared_experts=1,
        num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=3,
        quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
    )  # fmt: skip
    tensors: Tensors = {
        f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight": ("F8_E4M3", (2048, 7168))
        for layer in range(3, 61)
        for expert in range(256)
        for part in ("gate", "up", "down")
    }
    shape = stored(tmp_path, config, tensors)
    assert sum(part.size_bytes for part in shape.weights if part.split == "experts") == 58 * 256 * 3 * 2048 * 7168
    assert len(shape.weights) < 400


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (struct.pack("<Q", 1 << 60) + b"{}", "does not begin with the length of a header"),
        (struct.pack("<Q", 90) + b"{}", "ends inside its header"),
        (b"<!DOCTYPE html><html>sign in</html>", "does not begin with the length"),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, header: bytes, words: str) -> None:
    write_config(tmp_path, SMALL)
    (tmp_path / WEIGHTS).write_bytes(header)
    with pytest.raises(InputError, match=words):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"dtype": "BF16", "shape": [-4, 4], "data_offsets": [0, 32]}, "negative"),
        ({"dtype": "BF16", "shape": [4, 4], "data_offsets": [32, 0]}, "negative"),
        ({"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 1 << 60]}, "other bytes than its shape"),
        ({"dtype": "BF16", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 1 << 81]}, "more bytes than any model"),
        ({"dtype": "BF16", "shape": "wide", "data_offsets": [0, 32]}, "no safetensors header"),
        ({"shape": [4]}, "no safetensors header"),
        ([], "no safetensors header"),
    ],
)
def test_a_header_that_lies_is_an_error(tmp_path: Path, entry: Any, words: str) -> None:
    write_config(tmp_path, SMALL)
    text = json.dumps({"model.norm.weight": entry}).encode()
    (tmp_path / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(InputError, match=words):
        read_model(tmp_path)


def test_a_type_that_the_format_has_not_is_refused(tmp_path: Path) -> None:
    folder = write_config(tmp_path, SMALL)
    content = b'{"model.norm.weight":{"dtype":"X","shape":[2],"data_offsets":[0,2]}}'
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(content)) + content + b"..")
    with pytest.raises(InputError, match="the type 'X', which no safetensors file has"):
        read_model(folder)


def test_a_file_that_the_index_names_and_that_is_not_there_is_said(tmp_path: Path) -> None:
    folder = write_config(tmp_path, SMALL)
    index = {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    (doubt,) = read_model(folder).doubts
    assert doubt.startswith("model-00002-of-00002.safetensors is not there, and the load fails without it")
