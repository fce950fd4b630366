"""A model's files: what a good folder shows, and every kind of damage found without loading."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.launch import Launch
from engine_probe.model_files.adapters import read_adapter
from engine_probe.model_files.audit import audit
from engine_probe.model_files.finite import not_finite
from engine_probe.model_files.headers import read_header
from engine_probe.model_files.shapes import mismatches
from playbooks.evidence_files import file_facts
from playbooks.lab.tiny_model import TinyLlama, write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WEIGHTS = "model.safetensors"
SMALL = TinyLlama(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, hidden_size=64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "m", SMALL)


def write_tensors(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_a_good_folder_has_no_trouble(folder: Path) -> None:
    found = audit(folder)
    assert found.troubles == ()
    assert (found.has_weights, found.has_tokenizer) == (True, True)
    assert found.tensor_bytes == (folder / WEIGHTS).stat().st_size - found.headers[WEIGHTS].data_offset
    assert found.config is not None
    assert list(mismatches(found.config, found.headers)) == []
    assert list(not_finite(folder, found.headers)) == []


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", "empty", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n", "lfs-pointer", "git-lfs pointer"),
        (b"<!DOCTYPE html><html>sign in</html>", "web-page", "web page"),
        (b"\x08\0", "truncated", "too few for a header"),
        (struct.pack("<Q", 900) + b"{}", "truncated", "ends inside its header"),
        (struct.pack("<Q", 2) + b"[]", "no-header", "no safetensors header"),
        (b"\xff" * 64, "no-header", "does not begin with the length of a header"),
    ],
)
def test_what_is_no_weight_file_is_named(folder: Path, content: bytes, kind: str, words: str) -> None:
    (folder / WEIGHTS).write_bytes(content)
    (trouble,) = audit(folder).troubles
    assert (trouble.file, trouble.kind) == (WEIGHTS, kind)
    assert words in trouble.text


def test_a_cut_file_says_how_much_is_missing(folder: Path) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1000])
    (trouble,) = audit(folder).troubles
    assert trouble.kind == "truncated"
    assert "1,000 of its" in trouble.text


def test_a_shard_that_the_index_names_and_that_is_not_there(folder: Path) -> None:
    tensors = read_header(folder / WEIGHTS).tensors
    places = dict.fromkeys(tensors, WEIGHTS) | {"lm_head.extra": "model-00002-of-00002.safetensors", "gone": WEIGHTS}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    missing, lacking = audit(folder).troubles
    assert (missing.file, missing.kind) == ("model-00002-of-00002.safetensors", "missing")
    assert (lacking.file, lacking.kind) == (WEIGHTS, "index-names-it-not")


def test_tensors_that_do_not_fit_the_config(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"num_hidden_layers": 3, "vocab_size": 500}), encoding="utf-8")
    found = audit(folder)
    assert found.config is not None
    texts = [one.text for one in mismatches(found.config, found.headers)]
    assert texts[0] == "the files hold 2 layers and config.json says 3"
    assert texts[1] == "model.embed_tokens.weight is 512 × 64 and config.json makes it 500 × 64"


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [("BF16", b"\x80\x3f", b"\xc0\x7f"), ("F16", b"\x00\x3c", b"\x00\x7c"), ("F32", b"\0\0\x80\x3f", b"\0\0\xc0\x7f")],
)
def test_values_that_are_no_numbers_are_found(tmp_path: Path, dtype: str, good: bytes, bad: bytes) -> None:
    fine, broken = good * 100, good * 99 + bad
    write_tensors(tmp_path / WEIGHTS, {"fine": (dtype, (100,), fine), "broken": (dtype, (100,), broken)})
    (found,) = not_finite(tmp_path, audit(tmp_path).headers)
    assert (found.tensor, found.bad_values, found.looked_at) == ("broken", 1, 100)


def test_an_adapter_says_rank_base_and_modules(tmp_path: Path) -> None:
    config = {"r": 8, "target_modules": ["q_proj"], "base_model_name_or_path": "acme/base", "use_dora": True}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    name = "base_model.model.model.layers.0.self_attn.{}.{}.weight"
    tensors = {
        name.format("q_proj", "lora_A"): ("F32", (1,), b"\0" * 4),
        name.format("embed", "whole"): ("F32", (1,), b"\0" * 4),
    }
    write_tensors(tmp_path / "adapter_model.safetensors", tensors)
    adapter = read_adapter(tmp_path)
    assert (adapter.rank, adapter.base_model, adapter.uses_dora) == (8, "acme/base", True)
    assert (adapter.modules, adapter.full_weights, adapter.trouble) == (frozenset({"q_proj"}), 1, None)


def test_no_adapter_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no adapter_config\.json in "):
        read_adapter(tmp_path)


def test_facts_of_a_folder_have_a_source_and_of_none_a_reason(folder: Path, tmp_path: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    facts = file_facts(Launch("m", str(folder)), tmp_path)
    assert facts["files.lfs_pointers"] == Known(1, "measured", str(folder))
    assert facts["files.damaged_file"] == Known(WEIGHTS, "measured", str(folder))
    assert facts["model.num_attention_heads"] == Known(4, "declared", str(folder / "config.json"))
    nowhere = file_facts(Launch("m", "acme/small"), tmp_path)
    assert isinstance(nowhere["files.trouble"], Unknown)
    assert "there is no folder" in nowhere["files.trouble"].reason
