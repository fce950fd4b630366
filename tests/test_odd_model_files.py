"""A model's files may be anything: what cannot be read is unknown with its reason, and nothing waits for it."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING

import pytest

from engine_probe.child import warm_imports
from engine_probe.facts import Known, Unknown
from engine_probe.preflight import weights_gib
from playbooks.model_config import model_facts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(20)
NESTED = "[" * 100_000


@pytest.mark.parametrize("text", [NESTED, "[]", "3", "", "{", '{"num_attention_heads": [1]}', "\x00"])
def test_an_odd_config_is_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    assert isinstance(model_facts(str(tmp_path))["model.num_kv_heads"], Unknown)


@pytest.mark.parametrize("inner", [3, "x", [], {}, None])
def test_a_text_config_that_is_none_leaves_the_outer_one(tmp_path: Path, inner: object) -> None:
    content = {"text_config": inner, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    found = model_facts(str(tmp_path))["model.max_position_embeddings"]
    assert isinstance(found, Known)
    assert found.value == 4096


@pytest.mark.parametrize("header", [NESTED, "[]", '{"a": {"data_offsets": ["x", "y"]}}', '{"a": 1}', '{"a": {}}'])
def test_an_odd_safetensors_header_is_unknown(tmp_path: Path, header: str) -> None:
    content = struct.pack("<Q", len(header)) + header.encode()
    (tmp_path / "model.safetensors").write_bytes(content)
    size, why_not = weights_gib(tmp_path)
    assert size is None
    assert why_not is not None
    assert "no readable safetensors header" in why_not


def test_pipes_in_the_place_of_files_are_not_waited_for(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        os.mkfifo(tmp_path / name)
    assert weights_gib(tmp_path)[0] is None
    assert isinstance(model_facts(str(tmp_path))["model.num_kv_heads"], Unknown)
    warm_imports._import_model_class(str(tmp_path))
