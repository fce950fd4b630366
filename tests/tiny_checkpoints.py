"""Checkpoints of several families, small enough that an engine loads one in a second: all weights are zero."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

from playbooks.lab.tiny_model import write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Config = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]
_DTYPES = {"bfloat16": ("BF16", 2), "float16": ("F16", 2), "float32": ("F32", 4)}
_VOCAB = 512
_SOUND = {
    "feature_extractor_type": "WhisperFeatureExtractor", "processor_class": "WhisperProcessor", "feature_size": 80,
    "sampling_rate": 16000, "hop_length": 160, "chunk_length": 30, "n_fft": 400,
}  # fmt: skip


def write_checkpoint(folder: Path, config: Config, shapes: Shapes) -> Path:
    """Beside the weights a tokenizer of 512 words. The file's bytes are a hole: zeros that take no disk."""
    write_tiny_llama(folder)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if config["model_type"] == "whisper":
        (folder / "preprocessor_config.json").write_text(json.dumps(_SOUND), encoding="utf-8")
    word, size = _DTYPES[config["torch_dtype"]]
    header: dict[str, object] = {}
    start = 0
    for name, shape in shapes.items():
        end = start + math.prod(shape) * size
        header[name] = {"dtype": word, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + start)
    return folder


def config_of(model_type: str, architecture: str, **more: Any) -> Config:
    """Two layers of 4 heads, 2 of them for keys and values, 64 numbers each."""
    sizes = {
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 64, "vocab_size": _VOCAB, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1,
        "eos_token_id": 2,
    }  # fmt: skip
    return {"model_type": model_type, "architectures": [architecture], **sizes, **more}


def decoder_shapes(config: Mapping[str, Any], *extra_norms: str, bias: bool = False) -> Shapes:
    """Llama's tensors; `extra_norms`: further ones of a layer. `bias`: of query, key and value."""
    found = around(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= dict(attention(config, at, bias=bias)) | dict(mlp(config, at + "mlp."))
        found |= norms(config, at, "input_layernorm", "post_attention_layernorm", *extra_norms)
    return found


def around(config: Mapping[str, Any]) -> Shapes:
    """The embedding, the last norm, and the head where it is not the embedding."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    found: Shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    return found if config["tie_word_embeddings"] else {**found, "lm_head.weight": (vocab, hidden)}


def attention(config: Mapping[str, Any], at: str, *, bias: bool = False) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, size = config["hidden_size"], config["head_dim"]
    query, key = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    for name, rows in (("q", query), ("k", key), ("v", key)):
        yield f"{at}self_attn.{name}_proj.weight", (rows, hidden)
        if bias:
            yield f"{at}self_attn.{name}_proj.bias", (rows,)
    yield f"{at}self_attn.o_proj.weight", (hidden, query)


def mlp(config: Mapping[str, Any], at: str, width: int | None = None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """`at` ends with the module's name and a dot."""
    hidden, inner = config["hidden_size"], width or config["intermediate_size"]
    yield f"{at}gate_proj.weight", (inner, hidden)
    yield f"{at}up_proj.weight", (inner, hidden)
    yield f"{at}down_proj.weight", (hidden, inner)


def deepseek_shapes(config: Mapping[str, Any]) -> Shapes:
    """Multi-head latent attention and a plain MLP in every layer."""
    found = around(config)
    hidden, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    nope, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= norms(config, at, "input_layernorm", "post_attention_layernorm") | dict(mlp(config, at + "mlp."))
        found |= {
            at + "self_attn.q_proj.weight": (heads * (nope + rope), hidden),
            at + "self_attn.kv_a_proj_with_mqa.weight": (rank + rope, hidden),
            at + "self_attn.kv_a_layernorm.weight": (rank,),
            at + "self_attn.kv_b_proj.weight": (heads * (nope + value), rank),
            at + "self_attn.o_proj.weight": (hidden, heads * value),
        }
    return found


def llama4_shapes(config: Mapping[str, Any]) -> Shapes:
    """No layer with experts."""
    found = around(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= dict(attention(config, at)) | norms(config, at, "input_layernorm", "post_attention_layernorm")
        found |= dict(mlp(config, at + "feed_forward.", config["intermediate_size_mlp"]))
    return found


def jamba_shapes(config: Mapping[str, Any]) -> Shapes:
    """Layers that keep a state (Mamba 1) beside layers with attention; no experts."""
    hidden, inner = config["hidden_size"], config["mamba_expand"] * config["hidden_size"]
    size, rank = config["mamba_d_state"], config["mamba_dt_rank"]
    found = around(config)
    found["model.final_layernorm.weight"] = found.pop("model.norm.weight")
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= norms(config, at, "input_layernorm", "pre_ff_layernorm") | dict(mlp(config, at + "feed_forward."))
        if layer % config["attn_layer_period"] == config["attn_layer_offset"]:
            found |= dict(attention(config, at))
            continue
        state: Shapes = {
            "in_proj.weight": (2 * inner, hidden), "conv1d.weight": (inner, 1, config["mamba_d_conv"]),
            "conv1d.bias": (inner,), "x_proj.weight": (rank + 2 * size, inner), "dt_proj.weight": (inner, rank),
            "dt_proj.bias": (inner,), "A_log": (inner, size), "D": (inner,), "out_proj.weight": (hidden, inner),
            "dt_layernorm.weight": (rank,), "b_layernorm.weight": (size,), "c_layernorm.weight": (size,),
        }  # fmt: skip
        found |= {f"{at}mamba.{name}": shape for name, shape in state.items()}
    return found


def qwen3_next_shapes(config: Mapping[str, Any]) -> Shapes:
    """Gated delta nets beside gated attention, experts in every layer."""
    found, hidden = around(config), config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= norms(config, at, "input_layernorm", "post_attention_layernorm") | _experts(config, at + "mlp.")
        if (layer + 1) % config["full_attention_interval"]:
            found |= _delta_net(config, at + "linear_attn.")
            continue
        query = at + "self_attn.q_proj.weight"
        found |= dict(attention(config, at)) | {query: (2 * config["num_attention_heads"] * config["head_dim"], hidden)}
        found |= {f"{at}self_attn.{name}.weight": (config["head_dim"],) for name in ("q_norm", "k_norm")}
    return found


def _delta_net(config: Mapping[str, Any], at: str) -> Shapes:
    hidden, heads = config["hidden_size"], config["linear_num_value_heads"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = heads * config["linear_value_head_dim"]
    return {
        at + "in_proj_qkvz.weight": (2 * keys + 2 * values, hidden),
        at + "in_proj_ba.weight": (2 * heads, hidden),
        at + "conv1d.weight": (2 * keys + values, 1, config["linear_conv_kernel_dim"]),
        at + "A_log": (heads,),
        at + "dt_bias": (heads,),
        at + "norm.weight": (config["linear_value_head_dim"],),
        at + "out_proj.weight": (hidden, values),
    }


def _experts(config: Mapping[str, Any], at: str) -> Shapes:
    hidden = config["hidden_size"]
    found: Shapes = {at + "gate.weight": (config["num_experts"], hidden), at + "shared_expert_gate.weight": (1, hidden)}
    found |= dict(mlp(config, at + "shared_expert.", config["shared_expert_intermediate_size"]))
    for expert in range(config["num_experts"]):
        found |= dict(mlp(config, f"{at}experts.{expert}.", config["moe_intermediate_size"]))
    return found


def norms(config: Mapping[str, Any], at: str, *names: str) -> Shapes:
    return {f"{at}{name}.weight": (config["hidden_size"],) for name in names}


def bert_shapes(config: Mapping[str, Any]) -> Shapes:
    """An encoder."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found: Shapes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        linear = {
            "attention.self.query": (hidden, hidden), "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden), "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (inner, hidden), "output.dense": (hidden, inner),
        }  # fmt: skip
        found |= {f"{at}{name}.weight": shape for name, shape in linear.items()}
        found |= {f"{at}{name}.bias": shape[:1] for name, shape in linear.items()}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{at}{name}.weight": (hidden,), f"{at}{name}.bias": (hidden,)}
    return found


def whisper_shapes(config: Mapping[str, Any]) -> Shapes:
    """An encoder of sound, and a decoder that looks at it."""
    width, bins = config["d_model"], config["num_mel_bins"]
    found: Shapes = {
        "model.encoder.conv1.weight": (width, bins, 3), "model.encoder.conv1.bias": (width,),
        "model.encoder.conv2.weight": (width, width, 3), "model.encoder.conv2.bias": (width,),
        "model.encoder.embed_positions.weight": (config["max_source_positions"], width),
        "model.decoder.embed_positions.weight": (config["max_target_positions"], width),
        "model.decoder.embed_tokens.weight": (config["vocab_size"], width),
    }  # fmt: skip
    for side, looks in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        linear: Shapes = {"layer_norm": (width,)}
        for layer in range(config[f"{side}_layers"]):
            at, inner = f"layers.{layer}.", config[f"{side}_ffn_dim"]
            linear |= {at + "fc1": (inner, width), at + "fc2": (width, inner), at + "final_layer_norm": (width,)}
            for look in looks:
                linear |= {f"{at}{look}.{name}": (width, width) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
                linear[f"{at}{look}_layer_norm"] = (width,)
        found |= {f"model.{side}.{name}.weight": shape for name, shape in linear.items()}
        found |= {f"model.{side}.{name}.bias": shape[:1] for name, shape in linear.items() if "k_proj" not in name}
    return found
