"""A plan after a start like it: what was printed goes before what is computed, and the plan says so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from engine_probe.launch import Deployment, Launch
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.estimates import Estimate
from engine_probe.memory.learned import Printed, Start, card_key, predictions_of
from engine_probe.memory.learned_args import launch_args
from engine_probe.memory.learned_lookup import Lookup
from engine_probe.memory.learned_model import fingerprint_of
from engine_probe.memory.learned_store import Learned, keep_learned
from engine_probe.memory.read_model import read_model
from playbooks.placement import plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.accounting_result import RankMemory

VERSION = "0.19.0"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
PRINTED = {
    "weights_gib": 15.25,
    "activation_gib": 1.75,
    "non_torch_gib": 0.5,
    "graphs_gib": 0.9,
    "kv_pool_gib": 53.5,
    "kv_tokens": 438272.0,
    "max_concurrency": 53.5,
}


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    return Launch("m", str(folder))


def start_of(launch: Launch, tmp_path: Path) -> Start:
    printed = {name: Printed(value, f"a.log:{number}") for number, (name, value) in enumerate(PRINTED.items(), 10)}
    model = fingerprint_of(tmp_path / "m")
    return Start("one", 1.0, model, VERSION, card_key("H100-80GB"), launch_args(launch), printed)


def planned(
    launch: Launch, tmp_path: Path, *starts: Start, gpus: str = "1xH100-80GB", version: str = VERSION
) -> RankMemory:
    shapes = {"m": read_model(tmp_path / "m")}
    lookup = Lookup(Learned(starts), version)
    made = plan_of(Deployment((launch,)), shapes, parse_gpus(gpus), version, learned_of=lookup)
    memory = made.models[0].worst
    assert memory is not None
    return memory


def test_the_same_start_is_planned_as_it_was_printed(launch: Launch, tmp_path: Path) -> None:
    memory = planned(launch, tmp_path, start_of(launch, tmp_path))
    assert {name: predictions_of(memory)[name] for name in PRINTED} == PRINTED
    for amount in (memory.parts.weights, memory.parts.activation, memory.kv_pool):
        assert isinstance(amount, Estimate)
        assert amount.source.startswith("learnt from 1 start (a.log:1")
        assert amount.high - amount.low == pytest.approx(0.01)


def test_another_share_takes_the_parts_and_computes_the_pool(launch: Launch, tmp_path: Path) -> None:
    changed = launch.with_arg("gpu-memory-utilization", 0.5)
    memory = planned(changed, tmp_path, start_of(launch, tmp_path))
    assert isinstance(memory.kv_pool, Estimate)
    assert memory.kv_pool.value == pytest.approx(memory.budget.value - 15.25 - 1.75 - 0.5, abs=0.01)
    assert not memory.kv_pool.source.startswith("learnt")


def test_other_sequences_take_the_weights_alone(launch: Launch, tmp_path: Path) -> None:
    changed = launch.with_arg("max-num-seqs", 16)
    memory, before = planned(changed, tmp_path, start_of(launch, tmp_path)), planned(changed, tmp_path)
    assert memory.parts.activation == before.parts.activation
    assert isinstance(memory.parts.weights, Estimate)
    assert memory.parts.weights.source.startswith("learnt")


@pytest.mark.parametrize(("gpus", "version"), [("1xA100-80GB", VERSION), ("1xH100-80GB", "0.18.0")])
def test_another_card_or_release_takes_nothing(launch: Launch, tmp_path: Path, gpus: str, version: str) -> None:
    start = start_of(launch, tmp_path)
    assert planned(launch, tmp_path, start, gpus=gpus, version=version) == planned(
        launch, tmp_path, gpus=gpus, version=version
    )


def test_a_pipeline_s_stages_stay_computed(launch: Launch, tmp_path: Path) -> None:
    changed = launch.with_arg("pipeline-parallel-size", 2)
    start = replace(start_of(launch, tmp_path), args=launch_args(changed))
    memory = planned(changed, tmp_path, start, gpus="2xH100-80GB")
    assert isinstance(memory.parts.weights, Estimate)
    assert memory.parts.weights.source.startswith("computed")
    assert predictions_of(memory)["kv_pool_gib"] == PRINTED["kv_pool_gib"]


def test_the_command_says_what_was_learnt(launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tui.commands.plan import plan

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "d.yaml").write_text(f"models:\n  - {{name: m, model: {launch.model}}}\n")
    words = [str(tmp_path / "d.yaml"), "--gpus", "1xH100-80GB", "--vllm", VERSION, "--json"]
    before = json.loads(CliRunner().invoke(plan, words).stdout)["models"][0]
    keep_learned([start_of(launch, tmp_path)])
    after = json.loads(CliRunner().invoke(plan, words).stdout)["models"][0]
    assert before["sources"]["weights_gib"].startswith("computed")
    assert after["sources"]["weights_gib"] == "learnt from 1 start (a.log:10)"
    assert (after["kv_pool_gib"], after["kv_tokens"], after["max_concurrency"]) == (53.5, 438272, 53.5)
