"""Writes a tiny random Llama that real vLLM loads and serves: config, tokenizer, weights.

Standard library only, so that a lab model needs neither torch nor a network. The shape is chosen so that the
KV cache is large (256 KiB a token would be a 70B's) while the weights stay small: memory faults then show real
numbers within a second.
"""

from __future__ import annotations

import json
import math
import random
import struct
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbooks.lab.safetensors_file import Tensor, write_tensors

if TYPE_CHECKING:
    from pathlib import Path

_BYTES_PER_VALUE = 2  # bfloat16
_CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True)
class TinyLlama:
    """Shape of the model; every field is a key of Hugging Face's Llama `config.json`."""

    hidden_size: int = 128
    intermediate_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 32
    num_key_value_heads: int = 32
    head_dim: int = 128
    vocab_size: int = 512
    max_position_embeddings: int = 4096

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache for one token: K and V, all layers, in bfloat16."""
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim * _BYTES_PER_VALUE


def write_tiny_llama(folder: Path, shape: TinyLlama | None = None, seed: int = 7, shards: int = 1) -> Path:
    """Write a loadable model into `folder` (created if need be) and return it.

    The same shape and seed give the same bytes. With several `shards` its weights lie in as many files and an index.
    """
    shape = shape or TinyLlama()
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", _config(shape))
    _write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    _write_json(folder / "tokenizer.json", _tokenizer(shape.vocab_size))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "unk_token": "<unk>",
            "model_max_length": shape.max_position_embeddings,
            "chat_template": _CHAT_TEMPLATE,
        },
    )
    tensors = _random_tensors(_tensor_shapes(shape), random.Random(seed))  # noqa: S311 - not a secret
    _write_weights(folder, tensors, shards)
    return folder


def _write_weights(folder: Path, tensors: dict[str, Tensor], shards: int) -> None:
    if shards == 1:
        write_tensors(folder / "model.safetensors", tensors)
        return
    names = list(tensors)
    files: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = names[number * len(names) // shards : (number + 1) * len(names) // shards]
        write_tensors(folder / file, {name: tensors[name] for name in part})
        files |= dict.fromkeys(part, file)
    total = sum(len(one.data) for one in tensors.values())
    _write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": files})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _config(shape: TinyLlama) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_hidden_layers,
        "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": shape.max_position_embeddings,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _byte_alphabet() -> list[str]:
    """The 256 printable stand-ins for bytes that byte-level BPE uses (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(byte if byte in printable else next(shifted)) for byte in range(256)]


def _tokenizer(vocab_size: int) -> dict[str, object]:
    specials = ["<unk>", "<bos>", "<eos>"]
    words = specials + _byte_alphabet()
    words += [f"<filler{number}>" for number in range(vocab_size - len(words))]
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": False, "special": True}
            for number, word in enumerate(specials)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {word: number for number, word in enumerate(words)}, "merges": []},
    }


def _tensor_shapes(shape: TinyLlama) -> dict[str, tuple[int, ...]]:
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocab_size, hidden)}
    for layer in range(shape.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "self_attn.q_proj.weight": (queries, hidden),
            prefix + "self_attn.k_proj.weight": (keys, hidden),
            prefix + "self_attn.v_proj.weight": (keys, hidden),
            prefix + "self_attn.o_proj.weight": (hidden, queries),
            prefix + "mlp.gate_proj.weight": (inner, hidden),
            prefix + "mlp.up_proj.weight": (inner, hidden),
            prefix + "mlp.down_proj.weight": (hidden, inner),
            prefix + "input_layernorm.weight": (hidden,),
            prefix + "post_attention_layernorm.weight": (hidden,),
        }
    return shapes | {"model.norm.weight": (hidden,), "lm_head.weight": (shape.vocab_size, hidden)}


def _random_tensors(shapes: dict[str, tuple[int, ...]], dice: random.Random) -> dict[str, Tensor]:
    pool = small_bfloat16_values(dice)
    return {
        name: Tensor("BF16", dims, _ones(math.prod(dims)) if "norm" in name else noise(math.prod(dims), pool, dice))
        for name, dims in shapes.items()
    }


def _bfloat16(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16


def _ones(count: int) -> bytes:
    return struct.pack("<H", _bfloat16(1.0)) * count


def small_bfloat16_values(dice: random.Random) -> array[int]:
    """A pool of bfloat16 patterns around 0 (σ 0.05): drawing each weight singly would take seconds."""
    return array("H", (_bfloat16(dice.gauss(0.0, 0.05)) for _ in range(4099)))


def noise(count: int, pool: array[int], dice: random.Random) -> bytes:
    """`count` random bfloat16 values."""
    start = dice.randrange(len(pool))
    rotated = pool[start:] + pool[:start]
    repeats = -(-count // len(rotated))
    return (rotated * repeats)[:count].tobytes()
