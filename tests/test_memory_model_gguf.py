"""Models in one GGUF file: sizes of its tensors, and its metadata as a config.json would say it."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.errors import InputError
from engine_probe.memory.gguf import read_gguf
from engine_probe.memory.kv_layout import KvLayout, kv_layout
from engine_probe.memory.parallel import Parallel
from engine_probe.memory.read_model import read_model
from engine_probe.memory.shapes_parts import MADE_WHILE_LOADING
from tests.memory_configs import LLAMA_8B
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

F32, Q4_K, Q6_K = 0, 12, 14
BYTES_OF_256 = {F32: 1024, Q4_K: 144, Q6_K: 210}
Tensors = dict[str, tuple[int, tuple[int, ...]]]
META: dict[str, Any] = {
    "general.architecture": "llama", "llama.embedding_length": 256, "llama.block_count": 2,
    "llama.feed_forward_length": 512, "llama.attention.head_count": 8, "llama.attention.head_count_kv": 2,
    "llama.context_length": 4096, "llama.rope.dimension_count": 32, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.tokens": ["a"] * 1024, "general.file_type": 15,
}  # fmt: skip


def tensors_of(layers: int, *, has_head: bool = True) -> Tensors:
    found: Tensors = {"token_embd.weight": (Q4_K, (256, 1024)), "output_norm.weight": (F32, (256,))}
    for layer in range(layers):
        at = f"blk.{layer}."
        found |= {
            at + "attn_q.weight": (Q4_K, (256, 256)), at + "attn_k.weight": (Q4_K, (256, 64)),
            at + "attn_v.weight": (Q6_K, (256, 64)), at + "attn_output.weight": (Q4_K, (256, 256)),
            at + "ffn_gate.weight": (Q4_K, (256, 512)), at + "ffn_up.weight": (Q4_K, (256, 512)),
            at + "ffn_down.weight": (Q6_K, (512, 256)), at + "attn_norm.weight": (F32, (256,)),
        }  # fmt: skip
    return {**found, "output.weight": (Q6_K, (256, 1024))} if has_head else found


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def value_of(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)


def write_gguf(path: Path, meta: Mapping[str, Any], tensors: Tensors) -> Path:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    entries = b"".join(text(name) + value_of(value) for name, value in meta.items())
    infos = b"".join(
        text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
        for name, (kind, shape) in tensors.items()
    )
    path.write_bytes(head + entries + infos)
    return path


def test_tensors_and_metadata(tmp_path: Path) -> None:
    found = read_gguf(write_gguf(tmp_path / "m.gguf", META, tensors_of(2)))
    assert found.metadata["llama.block_count"] == 2
    assert found.lengths["tokenizer.ggml.tokens"] == 1024
    assert found.tensors["blk.1.ffn_down.weight"].kind == "Q6_K"
    for name, (kind, shape) in tensors_of(2).items():
        assert found.tensors[name].size_bytes == math.prod(shape) // 256 * BYTES_OF_256[kind]


def test_a_model_in_one_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m-Q4_K_M.gguf", META, tensors_of(2))
    shape = read_model(tmp_path)
    quantised = sum(math.prod(size) // 256 * BYTES_OF_256[kind] for kind, size in tensors_of(2).values() if kind != F32)
    loaded = sum(part.size_bytes for part in shape.weights if part.name != MADE_WHILE_LOADING)
    assert loaded == quantised + 3 * 256 * 2
    assert (shape.quantization, shape.source, shape.vocab_size) == ("gguf", "parsed: GGUF header", 1024)
    assert (shape.hidden_size, shape.attention_heads, shape.kv_heads, shape.max_position) == (256, 8, 2, 4096)
    layout = kv_layout(shape, Parallel())
    assert isinstance(layout, KvLayout)
    assert layout.bytes_per_token == 2 * 2 * 2 * 32 * 2


def test_the_file_itself_may_be_named(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", META, tensors_of(2))
    assert read_model(path).folder == str(path)


def test_a_config_beside_it_goes_before(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", META, tensors_of(2))
    assert read_model(write_config(tmp_path, LLAMA_8B)).source == "computed: config.json"


def test_without_an_output_the_embedding_is_the_head(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", META, tensors_of(2, has_head=False))
    assert read_model(tmp_path).ties_embeddings


def test_key_heads_may_differ_by_layer(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", {**META, "llama.attention.head_count_kv": [2, 4]}, tensors_of(2))
    assert read_model(tmp_path).kv_heads == 4


def test_an_unknown_architecture_is_a_doubt(tmp_path: Path) -> None:
    meta = {name.replace("llama.", "novel."): value for name, value in META.items()} | {"general.architecture": "novel"}
    write_gguf(tmp_path / "m.gguf", meta, tensors_of(2))
    assert "novel" in read_model(tmp_path).doubts[0]


@pytest.mark.parametrize("left_out", ["llama.embedding_length", "llama.block_count"])
def test_metadata_without_a_size(tmp_path: Path, left_out: str) -> None:
    write_gguf(tmp_path / "m.gguf", {name: one for name, one in META.items() if name != left_out}, tensors_of(2))
    with pytest.raises(InputError):
        read_model(tmp_path)


def test_one_of_several_parts_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m-00001-of-00003.gguf", {**META, "split.count": 3}, tensors_of(2))
    with pytest.raises(InputError, match="3 parts"):
        read_model(tmp_path)
