"""Tensors against config.json: as many layers as it says, and sizes that it says. Plain names only: others are unknown.

Names and shapes as transformers' Llama-like models have them, which most decoders follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.model_files.headers import Header

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_FLOATS = ("F16", "BF16", "F32")


@dataclass(frozen=True)
class Mismatch:
    """`text` is a whole sentence without its end."""

    tensor: str
    text: str


def mismatches(config: Mapping[str, Any], headers: Mapping[str, Header]) -> Iterator[Mismatch]:
    """What does not fit, layers first."""
    inner = config.get("text_config")
    config = inner if isinstance(inner, dict) and inner else config
    shapes = {
        name: place.shape
        for header in headers.values()
        for name, place in header.tensors.items()
        if place.dtype in _FLOATS
    }
    yield from _layers(config, headers)
    for name, shape in shapes.items():
        wanted = _wanted(name, config)
        if wanted is not None and shape != wanted:
            yield Mismatch(name, f"{name} is {_text(shape)} and config.json makes it {_text(wanted)}")


def _layers(config: Mapping[str, Any], headers: Mapping[str, Header]) -> Iterator[Mismatch]:
    numbers = {
        int(found[1]) for header in headers.values() for name in header.tensors if (found := _LAYER.search(name))
    }
    says = config.get("num_hidden_layers")
    if not numbers or not isinstance(says, int):
        return
    extra = config.get("num_nextn_predict_layers")
    count, most = max(numbers) + 1, says + (extra if isinstance(extra, int) else 0)
    if count < says:
        yield Mismatch("", f"the files hold {count} layers and config.json says {says}")
    elif count > most:
        yield Mismatch("", f"the files hold {count} layers and config.json says only {says}")


def _wanted(name: str, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if not isinstance(hidden, int) or not isinstance(heads, int) or not heads:
        return None
    head = config.get("head_dim") or hidden // heads
    kv_heads = config.get("num_key_value_heads") or heads
    is_latent = config.get("kv_lora_rank") is not None
    sizes: dict[str, tuple[Any, Any]] = {
        "embed_tokens.weight": (config.get("vocab_size"), hidden),
        "mlp.gate_proj.weight": (config.get("intermediate_size"), hidden),
        "mlp.up_proj.weight": (config.get("intermediate_size"), hidden),
        "mlp.down_proj.weight": (hidden, config.get("intermediate_size")),
    }
    if not is_latent:
        sizes |= {
            "self_attn.k_proj.weight": (kv_heads * head, hidden),
            "self_attn.v_proj.weight": (kv_heads * head, hidden),
            "self_attn.o_proj.weight": (hidden, heads * head),
        }
    wanted = next((size for ending, size in sizes.items() if name.endswith("." + ending)), None)
    is_expert = ".experts." in name or ".shared_expert" in name or config.get("moe_intermediate_size") is not None
    if wanted is None or not all(isinstance(one, int) for one in wanted) or (is_expert and ".mlp." in name):
        return None
    if "vision" in name or "visual" in name or "audio" in name:
        return None
    return wanted


def _text(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{one:,}" for one in shape) or "a single value"
