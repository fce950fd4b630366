"""Weights as the headers of safetensors files tell them: every tensor's bytes, and by its name where it will lie."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError
from engine_probe.memory.shapes_modules import Module
from engine_probe.memory.shapes_parts import Parts
from engine_probe.memory.shapes_settings import read_json
from engine_probe.model_files.headers import NoHeaderError, read_header
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from engine_probe.memory.model import WeightPart
    from engine_probe.memory.shapes_decoder import Decoder

_INDEX = "model.safetensors.index.json"
_MOST_FILES = 5_000
_MOST_BYTES = 1 << 50
_LFS = b"version https://git-lfs.github.com/spec/"
_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U64": 64, "U32": 32, "U16": 16, "F4": 4, "C64": 64,
    "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
}  # fmt: skip
"""All types of the format (safetensors, tensor.rs): its readers take no file with another."""
_FLOATS = ("F64", "F32", "F16", "BF16")
_NUMBERS = re.compile(r"\d+")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)\.(\d+)\.")
_OUTSIDE = re.compile(
    r"vision|visual|image|audio|(?:^|\.)vit\.|multi_?modal|mm_|projector|connector|resampler|^mlp1\.|\.merger\.|vit_large"
)
_NEVER_LOADED = re.compile(
    r"^mtp\.|rotary_emb|inv_freq|masked_bias|\.attn\.bias$|\.attention\.bias$|position_ids|^cls\.predictions|lora_"
)
_EXPERT = re.compile(
    r"\.experts?[._]|\.local_experts\.|block_sparse_moe\.(?:input|output)_linear|\.moe\.(?:input|output)_linear"
)
_ROUTER = re.compile(
    r"(?:mlp|moe|block_sparse_moe|feed_forward|mixer)\.(?:gate|router|wg)\b|\.router\.|shared_expert_gate|e_score"
)
_EMBEDDING = re.compile(
    r"(?:embed_tokens|wte|word_embeddings|embed_in|tok_embeddings|token_embd|(?:model|backbone)\.embeddings?)\.weight"
)
_HEAD = re.compile(r"^(?:[a-z_]+\.)?(?:lm_head|embed_out|output|output_layer)\.")
_POSITIONS = re.compile(r"wpe|embed_positions|position_embedding|token_type")
_FUSED = re.compile(r"(?:^|\.)(?:qkv_proj|query_key_value|c_attn|W_pack|wqkv|qkv|Wqkv)(?:\.|$)")
_KEY_OR_VALUE = re.compile(r"(?:attn|attention|mixer)\.(?:[a-z_]+\.)?(?:k|v|k_proj|v_proj|key|value|wk|wv)\.")
_WHOLE_ON_ALL = re.compile(r"norm|ln_|q_a_proj|kv_a_proj|sinks|fused_qkv_a|score\.|classifier")
_VISION_SPLIT = re.compile(r"\.(?:attn|attention|self_attn|mlp|feed_forward|fc1|fc2|qkv|block\d*|\w*merger\w*)\.")
_VISION_WHOLE = re.compile(r"projector|connector|embeddings|patch|norm|mlp1|pos_emb|positional")
_HELD_APART = re.compile(r"scale|zero|g_idx|absmax|quant_|e_score|_blocks$")
_PARAMETER = re.compile(
    r"\.(?:weight|bias|[a-z_]*scales?[a-z_]*|q?zeros?|qzeros|qweight|g_idx|weight_packed|weight_shape)(?:\..*)?$"
)


@dataclass(frozen=True)
class Stored:
    """`tensors`: type and shape by name. `total_bytes`: what the index says. `trouble`: why the headers do not do."""

    tensors: Mapping[str, tuple[str, tuple[int, ...]]]
    total_bytes: int | None = None
    trouble: str | None = None


def stored_tensors(folder: Path) -> Stored:
    """Of the files that vLLM would load; adapters are not among them. Raises InputError for a header that lies."""
    index = read_json(folder / _INDEX) if (folder / _INDEX).exists() else {}
    named = index.get("weight_map")
    files = sorted({str(one) for one in named.values()}) if isinstance(named, dict) and named else _files(folder)
    total = _total(index)
    if len(files) > _MOST_FILES:
        raise InputError(f"names {len(files):,} files of weights", file=str(folder / _INDEX))
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name in files:
        trouble = _read(folder, name, tensors)
        if trouble is not None:
            return Stored({}, total, trouble)
    if sum(_bytes(*one) for one in tensors.values()) > _MOST_BYTES:
        raise InputError("its files' headers claim more bytes than any model has", file=str(folder))
    return Stored(tensors, total)


def _files(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(".safetensors"))
    names = [name for name in names if not name.startswith(("adapter_", "training_args"))]
    rest = [name for name in names if not name.startswith("consolidated")]
    return rest or names


def _total(index: Mapping[str, Any]) -> int | None:
    metadata = index.get("metadata")
    found = metadata.get("total_size") if isinstance(metadata, dict) else None
    found = int(found) if isinstance(found, float) and math.isfinite(found) else found
    return found if isinstance(found, int) and 0 < found <= _MOST_BYTES else None


def _read(folder: Path, name: str, into: dict[str, tuple[str, tuple[int, ...]]]) -> str | None:
    """Adds the file's tensors; a sentence where its content never came."""
    path = folder / name
    if "/" in name or "\\" in name or not path.is_file():
        if "/" not in name and path.exists():
            raise InputError("is no regular file", file=str(path))
        return f"{quoted(name, 80)} is not there, and the load fails without it; sizes are computed from config.json"
    try:
        with path.open("rb") as content:
            head = content.read(len(_LFS))
        if not head or head == _LFS:
            return f"{name} was never downloaded, so sizes are computed from config.json"
        header = read_header(path)
    except NoHeaderError as error:
        raise InputError(str(error), file=str(path)) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
    for tensor, place in header.tensors.items():
        if min(place.shape, default=0) < 0 or place.start < 0 or place.end < place.start:
            raise InputError(f"the tensor {quoted(tensor, 80)} has a negative size", file=str(path))
        if place.dtype not in _BITS:
            kind = f"the type {quoted(place.dtype, 20)!r}, which no safetensors file has"
            raise InputError(f"the tensor {quoted(tensor, 80)} has {kind}", file=str(path))
        if _bytes(place.dtype, place.shape) != place.end - place.start:
            raise InputError(f"the tensor {quoted(tensor, 80)} has other bytes than its shape", file=str(path))
        into[tensor] = (place.dtype, place.shape)
    return None


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return -(-math.prod(shape) * _BITS[dtype] // 8)


def measured_parts(
    stored: Stored, described: Iterable[Module], decoder: Decoder | None, runtime: Iterable[Module],
    float_bytes: int, is_quantised: bool,
) -> tuple[WeightPart, ...]:  # fmt: skip
    """All that is loaded of `stored`, what vLLM makes beside it, and a head that no file holds."""
    parts, seen, described = Parts(float_bytes), dict[str, Module | None](), list(described)
    vocab = next((module.rows for module in described if module.role == "embedding"), 0)
    is_tied = not any(module.role == "head" for module in described)
    for name, (dtype, shape) in stored.tensors.items():
        pattern = _NUMBERS.sub("0", name)
        if pattern not in seen:
            seen[pattern] = _module(pattern, vocab, is_tied)
        module = seen[pattern]
        layer = _layer(name) if module is not None and module.layer is not None else None
        if module is None or (layer is not None and decoder is not None and layer >= decoder.layers):
            continue
        _add(parts, replace(module, layer=layer), name, (dtype, shape), decoder, is_quantised)
    for module in runtime:
        own = module.elements * module.float_bytes if module.float_bytes else 0
        parts.add(module, fixed_bytes=own, floats=0 if own else module.elements)
    has_head = any(module is not None and module.role == "head" for module in seen.values())
    for module in () if has_head else described:
        if module.role == "head":
            parts.add(module, floats=module.elements + module.bias_elements)
    return parts.parts()


def _layer(name: str) -> int:
    found = _LAYER.search(name)
    return int(found[1]) if found is not None and len(found[1]) < 9 else 0


def _module(name: str, vocab: int, is_tied: bool) -> Module | None:
    """Where a tensor of this name lies; None: vLLM does not load it. Digits in `name` mean nothing."""
    if _NEVER_LOADED.search(name):
        return None
    short = _PARAMETER.sub("", name)
    if _OUTSIDE.search(name):
        is_split = _VISION_SPLIT.search(name) and not _VISION_WHOLE.search(name)
        return Module(short, 1, 1, "linear", "tp" if is_split else "replicated", place="every", is_vision=True)
    if _LAYER.search(name):
        return _in_layer(name, short)
    if _EMBEDDING.search(name):
        return Module(short, vocab or 1, 1, "embedding", "vocab", place="first")
    if _HEAD.search(name):
        return None if is_tied else Module(short, vocab or 1, 1, "head", "vocab", place="last")
    return Module(short, 1, 1, "plain", "replicated", place="first" if _POSITIONS.search(name) else "last")


def _in_layer(name: str, short: str) -> Module:
    if _EXPERT.search(name) and "shared" not in name:
        return Module(short, 1, 1, "experts", "experts", 0)
    if _ROUTER.search(name) or _WHOLE_ON_ALL.search(name):
        is_linear = "_a_proj" in name or "qkv_a" in name
        return Module(short, 1, 1, "linear" if is_linear else "plain", "replicated", 0)
    return Module(short, 1, 1, "linear", "kv_heads" if _KEY_OR_VALUE.search(name) else "tp", 0)


def _add(
    parts: Parts,
    module: Module,
    name: str,
    tensor: tuple[str, tuple[int, ...]],
    decoder: Decoder | None,
    is_quantised: bool,
) -> None:
    dtype, shape = tensor
    numbers = math.prod(shape)
    is_float = dtype in _FLOATS and not _HELD_APART.search(name)
    fixed = 0 if is_float else _bytes(dtype, shape)
    if name.endswith("A_log"):
        is_float, fixed = False, 4 * numbers  # layers/mamba/mamba_mixer*.py: always float32
    if name.endswith(".absmax") and dtype == "U8":
        fixed *= 4  # vLLM unpacks nested ones to float32 (model_loader/bitsandbytes_loader.py)
    floats = numbers if is_float else 0
    converts = is_float and not is_quantised and module.role in ("linear", "experts") and not module.is_vision
    linear = numbers if converts and len(shape) >= 2 and "conv" not in name else 0
    if module.role == "linear" and module.layer is not None and decoder is not None and _FUSED.search(name):
        share = _key_value_share(decoder)
        cut = [int(one * share) for one in (floats, fixed, linear)]
        parts.add(replace(module, split="kv_heads"), floats=cut[0], fixed_bytes=cut[1], linear_floats=cut[2])
        floats, fixed, linear = floats - cut[0], fixed - cut[1], linear - cut[2]
    parts.add(module, floats=floats, fixed_bytes=fixed, linear_floats=linear)


def _key_value_share(decoder: Decoder) -> float:
    return 2 * decoder.kv_heads / max(decoder.heads + 2 * decoder.kv_heads, 1)
