"""Folders near those of the launch: the model that was meant, a whole adapter, the adapter's base, a plain copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.launch import Launch
from playbooks.evidence_near import near_facts
from playbooks.lab.makers import adapter
from playbooks.lab.tiny_model import TinyLlama, write_tiny_llama

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = TinyLlama(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, head_dim=8)


def value(facts: dict[str, Fact], name: str) -> object:
    fact = facts[name]
    return fact.value if isinstance(fact, Known) else None


def facts_of(folder: Path, model: str, lora: dict[str, str] | None = None, *sources: str) -> dict[str, Fact]:
    launch = Launch("tiny", str(folder / model), lora={name: str(folder / path) for name, path in (lora or {}).items()})
    return near_facts(launch, folder, folder / model, sources)


def test_a_misspelt_model_has_a_neighbour(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path / "tiny", SHAPE)
    (tmp_path / "tinted").mkdir()
    assert value(facts_of(tmp_path, "tinny"), "files.model_nearby") == str(tmp_path / "tiny")
    assert isinstance(facts_of(tmp_path, "tiny")["files.model_nearby"], Unknown)
    assert isinstance(facts_of(tmp_path, "something-else")["files.model_nearby"], Unknown)


def test_the_plain_model_beside_a_quantized_one(tmp_path: Path) -> None:
    for name, more in (("chat-awq", {"quantization_config": {"quant_method": "awq"}}), ("chat", {})):
        write_tiny_llama(tmp_path / name, SHAPE)
        config = tmp_path / name / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | more))
    write_tiny_llama(tmp_path / "another", TinyLlama(hidden_size=32))
    assert value(facts_of(tmp_path, "chat-awq"), "files.plain_model_nearby") == str(tmp_path / "chat")
    assert isinstance(facts_of(tmp_path, "chat")["files.plain_model_nearby"], Unknown)


@pytest.mark.parametrize("damage", ["cut", "no config", "misspelt"])
def test_a_whole_adapter_is_found(tmp_path: Path, damage: str) -> None:
    for place in ("poet", "whole/poet"):
        adapter(tmp_path / place, SHAPE)
    weights = tmp_path / "poet" / "adapter_model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:20])
    elif damage == "no config":
        (tmp_path / "poet" / "adapter_config.json").unlink()
    path = "poets" if damage == "misspelt" else "poet"
    facts = facts_of(tmp_path, "tiny", {"a": path}, str(tmp_path / "whole" / "poet"))
    assert value(facts, "adapter.name") == "a"
    wanted = tmp_path / "poet" if damage == "misspelt" else tmp_path / "whole" / "poet"
    assert value(facts, "adapter.whole_copy") == str(wanted)


def test_the_same_adapter_is_no_other_copy(tmp_path: Path) -> None:
    for place in ("poet", "whole/poet"):
        adapter(tmp_path / place, SHAPE)
    facts = facts_of(tmp_path, "tiny", {"a": "poet"}, str(tmp_path / "whole"))
    assert isinstance(facts["adapter.whole_copy"], Unknown)


def test_the_adapter_at_fault_is_named(tmp_path: Path) -> None:
    for place in ("poet", "clerk"):
        adapter(tmp_path / place, SHAPE)
    (tmp_path / "clerk" / "adapter_model.safetensors").unlink()
    assert value(facts_of(tmp_path, "tiny", {"a": "poet", "b": "clerk"}), "adapter.name") == "b"
    assert isinstance(facts_of(tmp_path, "tiny")["adapter.name"], Unknown)


def test_the_base_of_an_adapter(tmp_path: Path) -> None:
    adapter(tmp_path / "poet", SHAPE, base_name="acme/tiny-wide")
    assert isinstance(facts_of(tmp_path, "tiny", {"a": "poet"})["adapter.base_nearby"], Unknown)
    write_tiny_llama(tmp_path / "tiny-wide", SHAPE)
    assert value(facts_of(tmp_path, "tiny", {"a": "poet"}), "adapter.base_nearby") == str(tmp_path / "tiny-wide")
