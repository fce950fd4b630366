"""Folders with a config.json and, where a test wants them, headers of safetensors files without their bytes."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "I8": 8, "U8": 8, "I32": 32}
Tensors = dict[str, tuple[str, tuple[int, ...]]]


def write_config(folder: Path, config: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def write_header(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """A file that ends behind its header, as if the rest were still on its way."""
    header, start = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = start + math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def llama_tensors(config: Mapping[str, Any], dtype: str = "BF16", *, has_head: bool = True) -> Tensors:
    """What a Llama's checkpoint holds."""
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or hidden // heads
    query, key = heads * size, config["num_key_value_heads"] * size
    found: Tensors = {"model.embed_tokens.weight": (dtype, (vocab, hidden)), "model.norm.weight": (dtype, (hidden,))}
    for layer in range(config["num_hidden_layers"]):
        shapes = {
            "self_attn.q_proj": (query, hidden), "self_attn.k_proj": (key, hidden), "self_attn.v_proj": (key, hidden),
            "self_attn.o_proj": (hidden, query), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner), "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
        }  # fmt: skip
        found |= {f"model.layers.{layer}.{name}.weight": (dtype, shape) for name, shape in shapes.items()}
    if has_head:
        found["lm_head.weight"] = (dtype, (vocab, hidden))
    return found
