"""Makes whole models and adapters, by the names that a fault's file uses.

A maker of a model gets its folder and returns its shape; a maker of an adapter gets its folder and that shape.
"""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING

from playbooks.lab.registry import Registry
from playbooks.lab.safetensors_file import Tensor, write_tensors
from playbooks.lab.tiny_model import TinyLlama, noise, small_bfloat16_values, write_tiny_llama

if TYPE_CHECKING:
    from pathlib import Path


def tiny_llama(  # noqa: PLR0913 -- a shape
    folder: Path,
    *,
    hidden_size: int = TinyLlama.hidden_size,
    intermediate_size: int = TinyLlama.intermediate_size,
    num_hidden_layers: int = TinyLlama.num_hidden_layers,
    num_attention_heads: int = TinyLlama.num_attention_heads,
    num_key_value_heads: int = TinyLlama.num_key_value_heads,
    head_dim: int = TinyLlama.head_dim,
    vocab_size: int = TinyLlama.vocab_size,
    max_position_embeddings: int = TinyLlama.max_position_embeddings,
    shards: int = 1,
    seed: int = 7,
) -> TinyLlama:
    """A random Llama of a few MiB; with `shards`, in so many files and an index."""
    shape = TinyLlama(
        hidden_size,
        intermediate_size,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads,
        head_dim,
        vocab_size,
        max_position_embeddings,
    )
    write_tiny_llama(folder, shape, seed, shards)
    return shape


def adapter(
    folder: Path,
    base: TinyLlama,
    *,
    rank: int = 8,
    alpha: int = 16,
    targets: list[str] = ["q_proj", "v_proj"],  # noqa: B006 -- never changed
    hidden_size: int | None = None,
    base_name: str = "tiny",
    seed: int = 11,
) -> None:
    """A LoRA adapter for the model beside it; `hidden_size`: as if made for another base."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_name,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": targets,
        "modules_to_save": None,
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    dice = random.Random(seed)  # noqa: S311 -- not a secret
    pool = small_bfloat16_values(dice)
    tensors = {}
    for layer in range(base.num_hidden_layers):
        for target in targets:
            where, wide, high = _module(base, target, hidden_size or base.hidden_size)
            prefix = f"base_model.model.model.layers.{layer}.{where}.{target}"
            for side, shape in (("lora_A", (rank, wide)), ("lora_B", (high, rank))):
                tensors[f"{prefix}.{side}.weight"] = Tensor("BF16", shape, noise(math.prod(shape), pool, dice))
    write_tensors(folder / "adapter_model.safetensors", tensors)


def _module(base: TinyLlama, target: str, hidden: int) -> tuple[str, int, int]:
    """Where the linear layer `target` is, and its inputs and outputs."""
    queries = base.num_attention_heads * base.head_dim
    keys = base.num_key_value_heads * base.head_dim
    sizes = {
        "q_proj": ("self_attn", hidden, queries),
        "k_proj": ("self_attn", hidden, keys),
        "v_proj": ("self_attn", hidden, keys),
        "o_proj": ("self_attn", queries, hidden),
        "gate_proj": ("mlp", hidden, base.intermediate_size),
        "up_proj": ("mlp", hidden, base.intermediate_size),
        "down_proj": ("mlp", base.intermediate_size, hidden),
    }
    return sizes.get(target, ("self_attn", hidden, hidden))


MODEL_MAKERS = Registry("maker of models", (tiny_llama,))
ADAPTER_MAKERS = Registry("maker of adapters", (adapter,))
