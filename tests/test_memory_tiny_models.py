"""Weights of the models that an engine loads in test_plan_engine.py: config.json tells the bytes of a checkpoint."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from engine_probe.memory.read_model import read_model
from engine_probe.memory.shapes_parts import MADE_WHILE_LOADING
from tests.memory_folders import write_config
from tests.tiny_checkpoints import write_checkpoint
from tests.tiny_plans import CASES, Case

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.model import ModelShape

MODELS = list({case.config["model_type"]: case for case in CASES}.values())


def loaded_bytes(shape: ModelShape) -> int:
    """Without what no file holds."""
    return sum(part.size_bytes - part.padding_bytes for part in shape.weights if part.name != MADE_WHILE_LOADING)


def held_bytes(case: Case) -> int:
    """All in bfloat16, but for the decay of states, which vLLM holds in float32 (mamba_mixer.py, 0.32)."""
    sizes = {name: math.prod(shape) for name, shape in case.shapes.items()}
    return sum(2 * size * (2 if name.endswith("A_log") else 1) for name, size in sizes.items())


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.config["model_type"])
def test_config_and_headers_tell_the_bytes_of_the_checkpoint(case: Case, tmp_path: Path) -> None:
    measured = read_model(write_checkpoint(tmp_path / "whole", case.config, case.shapes))
    computed = read_model(write_config(tmp_path / "config alone", case.config))
    assert measured.source == "measured: safetensors headers"
    assert loaded_bytes(measured) == held_bytes(case)
    assert computed.source == "computed: config.json"
    assert loaded_bytes(computed) == held_bytes(case)
