"""A GGUF file → what decides its memory: sizes of its tensors, and its metadata as a config.json would say it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError
from engine_probe.memory.gguf import Gguf, GgufTensor, read_gguf
from engine_probe.memory.model import ModelShape
from engine_probe.memory.shapes_caches import layer_caches
from engine_probe.memory.shapes_decoder import decoder_of
from engine_probe.memory.shapes_modules import Module, Role
from engine_probe.memory.shapes_parts import Parts
from engine_probe.memory.shapes_runtime import runtime_modules
from engine_probe.memory.shapes_settings import Settings
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.model import Split
    from engine_probe.memory.shapes_decoder import Decoder

_BLOCK = re.compile(r"^blk\.(\d{1,8})\.(.+)$")
_TYPES = {
    "llama": "llama", "qwen2": "qwen2", "qwen2moe": "qwen2_moe", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "gemma":
    "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text", "phi2": "phi", "phi3": "phi3", "deepseek2": "deepseek_v3",
    "falcon": "falcon", "gpt2": "gpt2", "gptneox": "gpt_neox", "stablelm": "stablelm", "starcoder2": "starcoder2",
    "command-r": "cohere", "granite": "granite", "gpt-oss": "gpt_oss", "mistral": "mistral", "bloom": "bloom",
    "olmo2": "olmo2", "nemotron": "nemotron",
}  # fmt: skip
_KEYS = {
    "embedding_length": "hidden_size", "block_count": "num_hidden_layers", "feed_forward_length":
    "intermediate_size", "attention.head_count": "num_attention_heads", "attention.head_count_kv":
    "num_key_value_heads", "context_length": "max_position_embeddings", "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window", "expert_count": "num_experts", "expert_used_count":
    "num_experts_per_tok", "vocab_size": "vocab_size", "expert_feed_forward_length": "moe_intermediate_size",
    "attention.kv_lora_rank": "kv_lora_rank", "attention.q_lora_rank": "q_lora_rank", "rope.dimension_count":
    "qk_rope_head_dim", "expert_shared_count": "n_shared_experts", "leading_dense_block_count":
    "first_k_dense_replace",
}  # fmt: skip
_FLOATS = ("F32", "F16", "BF16")


def gguf_file(folder: Path) -> Path | None:
    """The folder's only GGUF file that is a model, or the first part of one; None where there is none."""
    found = sorted(path for path in folder.iterdir() if path.suffix == ".gguf" and not path.name.startswith("mmproj"))
    return found[0] if found else None


def read_gguf_model(path: Path) -> ModelShape:
    """Raises InputError where the file is no GGUF file, or says no sizes."""
    found = read_gguf(path)
    architecture = str(found.metadata.get("general.architecture", ""))
    config = _config(found, architecture)
    decoder = decoder_of(Settings(config, str(path), {}))
    is_known = architecture in _TYPES
    parts = Parts(2)
    for name, tensor in found.tensors.items():
        _add(parts, decoder, name, tensor)
    for module in runtime_modules(decoder):
        parts.add(module, floats=module.elements)
    doubts = [] if is_known else [f"the architecture {quoted(architecture, 60)!r} is taken for a kin of Llama"]
    shards = found.metadata.get("split.count")
    if isinstance(shards, int) and shards > 1:
        raise InputError(f"is one of {shards} parts; vLLM loads a model from one file", file=str(path))
    return ModelShape(
        folder=str(path), architecture=architecture, source="parsed: GGUF header", weights=parts.parts(),
        weights_low=0.98, weights_high=1.05, layers=layer_caches(decoder, 2), hidden_size=decoder.hidden,
        intermediate_size=decoder.intermediate, vocab_size=decoder.vocab, max_position=decoder.max_position,
        attention_heads=decoder.heads, kv_heads=decoder.kv_heads, dtype="float16", quantization="gguf",
        experts=decoder.experts.count if decoder.experts else 0,
        experts_per_token=decoder.experts.per_token if decoder.experts else 0,
        expert_intermediate_size=decoder.experts.width if decoder.experts else 0, ties_embeddings=decoder.is_tied,
        doubts=tuple(doubts),
    )  # fmt: skip


def _config(found: Gguf, architecture: str) -> dict[str, Any]:
    config: dict[str, Any] = {"model_type": _TYPES.get(architecture, architecture)}
    for key, name in _KEYS.items():
        value = found.metadata.get(f"{architecture}.{key}")
        if value is not None:
            config[name] = value
    config.setdefault("vocab_size", found.lengths.get("tokenizer.ggml.tokens", 0))
    config["tie_word_embeddings"] = "output.weight" not in found.tensors
    return config


def _add(parts: Parts, decoder: Decoder, name: str, tensor: GgufTensor) -> None:
    place = _BLOCK.match(name)
    floats = math.prod(tensor.shape) if tensor.kind in _FLOATS else 0
    fixed = 0 if floats else tensor.size_bytes
    if place is None:
        is_vocab = name in ("token_embd.weight", "output.weight")
        where: Any = "first" if name.startswith(("token_embd", "position")) else "last"
        role: Any = {"token_embd.weight": "embedding", "output.weight": "head"}.get(name, "plain")
        module = Module(name, decoder.vocab or 1, 1, role, "vocab" if is_vocab else "replicated", place=where)
    else:
        role, split = _kind(place[2])
        module = Module(place[2], 1, 1, role, split, int(place[1]))
    if module.layer is None or module.layer < decoder.layers:
        parts.add(module, floats=floats, fixed_bytes=fixed)


def _kind(inner: str) -> tuple[Role, Split]:
    if "_exps" in inner:
        return "experts", "experts"
    if "norm" in inner or "gate_inp" in inner or "_a." in inner:
        return "plain", "replicated"
    return "linear", "kv_heads" if inner.startswith(("attn_k.", "attn_v.")) else "tp"
