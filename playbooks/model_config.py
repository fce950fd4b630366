"""Facts from a model's config.json: lengths and the shape that decides the bytes of a token in the KV cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Fact

_NAMES = (
    "model.max_position_embeddings",
    "model.num_hidden_layers",
    "model.num_kv_heads",
    "model.head_dim",
    "model.dtype",
    "model.plain_attention",
)
# Any of these makes some layers hold something else than K and V of every token.
_OTHER_ATTENTION = ("kv_lora_rank", "layer_types", "attention_chunk_size", "mamba_d_state", "linear_num_value_heads")


def model_facts(model: str, base: Path | None = None) -> dict[str, Fact]:
    """Facts of the model in folder `model` (relative to `base`). All unknown, with why, where it cannot be read."""
    path = (base or Path()) / model / "config.json"
    if not path.is_file():
        return _all_unknown(f"there is no {path.name} on this host for {model}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return _all_unknown(f"{path} cannot be read: {error}")
    if not isinstance(config, dict):
        return _all_unknown(f"{path} holds no JSON object")
    inner = config.get("text_config")
    return _facts_of(inner if isinstance(inner, dict) and inner else config, str(path))


def _all_unknown(reason: str) -> dict[str, Fact]:
    return {name: Unknown(reason) for name in _NAMES}


def _facts_of(config: Mapping[str, Any], origin: str) -> dict[str, Fact]:
    heads = config.get("num_attention_heads")
    head_dim = config.get("head_dim")
    if head_dim is None and isinstance(heads, int) and heads and isinstance(config.get("hidden_size"), int):
        head_dim = config["hidden_size"] // heads
    values = {
        "model.max_position_embeddings": config.get("max_position_embeddings"),
        "model.num_hidden_layers": config.get("num_hidden_layers"),
        "model.num_kv_heads": config.get("num_key_value_heads", heads),
        "model.head_dim": head_dim,
        "model.dtype": config.get("torch_dtype", config.get("dtype")),
    }
    facts: dict[str, Fact] = {
        name: Known(value, "declared", origin) if isinstance(value, (int, str)) else Unknown(f"{origin} does not say")
        for name, value in values.items()
    }
    facts["model.plain_attention"] = Known(_is_plain(config), "computed", origin)
    return facts


def _is_plain(config: Mapping[str, Any]) -> bool:
    if any(config.get(key) is not None for key in _OTHER_ATTENTION):
        return False
    return config.get("sliding_window") is None or config.get("use_sliding_window") is False
