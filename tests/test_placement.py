"""Several models on shared GPUs: start order, who is in the way, replicas, adapters, other processes, the host."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.host import HostState
from engine_probe.launch import Deployment, Launch
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.estimates import exact
from playbooks.placement import held_gib, plan_of
from playbooks.plan_proposal import propose
from tests import memory_configs as configs
from tests.memory_plans import planned, shape_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.model import ModelShape
    from playbooks.placement import PlacedModel, Plan

QWEN2_72B = configs.sized(
    "qwen2",
    "Qwen2ForCausalLM",
    (8192, 29568, 80, 64, 8, 152064),
    max_position_embeddings=32768,
    tie_word_embeddings=False,
)
LLAMA_2_13B = configs.llama(5120, 13824, 40, 40, 40, 32000, max_position_embeddings=4096)
EIGHT = tuple(range(8))


@pytest.fixture
def shapes(tmp_path: Path) -> dict[str, ModelShape]:
    found = {
        "qwen-72b": QWEN2_72B,
        "llama-70b": configs.LLAMA_70B,
        "llama-13b": LLAMA_2_13B,
        "llama-8b": configs.LLAMA_8B,
        "qwen-0.5b": configs.QWEN_05B,
        "moe": configs.DEEPSEEK_V2_LITE,
    }
    return {name: shape_of(tmp_path / name, config) for name, config in found.items()}


def launch(name: str, model: str, gpus: tuple[int, ...] | None = None, **args: Any) -> Launch:
    return Launch(name=name, model=model, gpus=gpus, args=args)


def verdicts(plan: Plan) -> dict[str, str | None]:
    return {model.launch.name: None if model.why_not is None else model.why_not.id for model in plan.models}


def model(plan: Plan, name: str) -> PlacedModel:
    return next(one for one in plan.models if one.launch.name == name)


def test_two_big_models_at_the_default_share_do_not_start_on_the_same_gpus(shapes: dict[str, ModelShape]) -> None:
    """The course's first case: 72B and 70B on 8 x A100-80GB, tensor parallel over all of them."""
    pair = [launch(name, name, EIGHT, tensor_parallel_size=8) for name in ("qwen-72b", "llama-70b")]
    plan = planned(shapes, pair, "8xA100-80GB")
    assert not plan.fits
    assert verdicts(plan) == {"qwen-72b": None, "llama-70b": "co-located-models-budgets-exceed-gpu"}
    second = model(plan, "llama-70b").why_not
    assert second is not None
    assert "71.3 GiB must be free at the start" in second.text
    assert "beside qwen-72b" in second.text


def test_the_same_two_start_with_shares_that_add_up_below_the_card(shapes: dict[str, ModelShape]) -> None:
    pair = [
        launch(name, name, EIGHT, tensor_parallel_size=8, gpu_memory_utilization=0.45)
        for name in ("qwen-72b", "llama-70b")
    ]
    plan = planned(shapes, pair, "8xA100-80GB")
    assert plan.fits, verdicts(plan)
    for card in plan.cards:
        held = [amount.value for _, amount in held_gib(plan, card) if not isinstance(amount, Unknown)]
        assert sum(held) < card.total_gib.value


def test_each_of_the_two_fits_on_its_own_half(shapes: dict[str, ModelShape]) -> None:
    pair = [
        launch("qwen-72b", "qwen-72b", (0, 1, 2, 3), tensor_parallel_size=4),
        launch("llama-70b", "llama-70b", (4, 5, 6, 7), tensor_parallel_size=4),
    ]
    plan = planned(shapes, pair, "8xA100-80GB")
    assert plan.fits
    worst = model(plan, "qwen-72b").worst
    assert worst is not None
    assert not isinstance(worst.parts.weights, Unknown)
    assert worst.parts.weights.value == pytest.approx(33.9, abs=0.2)
    assert not isinstance(worst.kv_pool, Unknown)
    assert worst.kv_pool.low < 36.7 < worst.kv_pool.high


def adapters(folder: Path, rank: int) -> dict[str, str]:
    found = {}
    for name in ("sql", "chat", "summary"):
        place = folder / "adapters" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "adapter_config.json").write_text(json.dumps({"r": rank, "peft_type": "LORA"}), encoding="utf-8")
        found[name] = str(place)
    return found


def test_a_model_with_adapters_on_an_occupied_gpu(shapes: dict[str, ModelShape], tmp_path: Path) -> None:
    """The course's second case: the 13B with three adapters was put beside the 70B; on a GPU of its own it starts."""
    big = launch("big", "llama-70b", (0, 1, 2, 3), tensor_parallel_size=4)
    small = replace(launch("small", "llama-13b", (0,), max_loras=3), lora=adapters(tmp_path, 16))
    plan = planned(shapes, [big, small], "8xA100-80GB")
    assert verdicts(plan) == {"big": None, "small": "co-located-models-budgets-exceed-gpu"}
    moved = planned(shapes, [big, small.with_gpus((4,))], "8xA100-80GB")
    assert moved.fits
    bare = planned(shapes, [launch("small", "llama-13b", (4,))], "8xA100-80GB")
    with_room, without = model(moved, "small").worst, model(bare, "small").worst
    assert with_room is not None
    assert without is not None
    assert not isinstance(with_room.parts.weights, Unknown)
    assert not isinstance(without.parts.weights, Unknown)
    assert 0.2 < with_room.parts.weights.value - without.parts.weights.value < 1.0


def test_an_adapter_above_the_limit_is_refused(shapes: dict[str, ModelShape], tmp_path: Path) -> None:
    one = replace(launch("small", "llama-13b"), lora=adapters(tmp_path, 64))
    assert verdicts(planned(shapes, [one], "1xA100-80GB")) == {"small": "lora-rank-exceeds-max"}
    higher = one.with_arg("max-lora-rank", 64)
    assert verdicts(planned(shapes, [higher], "1xA100-80GB")) == {"small": None}


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no adapter_config.json in"), ("{", "cannot be read"), ("{}", "it names no rank")],
)
def test_an_adapter_that_cannot_be_read_is_a_note(
    shapes: dict[str, ModelShape], tmp_path: Path, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "adapter_config.json").write_text(content, encoding="utf-8")
    one = replace(launch("small", "llama-13b"), lora={"sql": str(tmp_path)})
    plan = planned(shapes, [one], "1xA100-80GB")
    assert plan.fits
    (note,) = [note for note in model(plan, "small").notes if "adapter" in note]
    assert note.startswith("adapter sql is not held against max-lora-rank 16: ")
    assert said in note


def test_one_gpu_too_few(shapes: dict[str, ModelShape]) -> None:
    big = launch("big", "llama-70b", tensor_parallel_size=8)
    plan = planned(shapes, [big], "7xA100-80GB")
    assert verdicts(plan) == {"big": "multi-node-needs-ray-backend"}
    why_not = model(plan, "big").why_not
    assert why_not is not None
    assert why_not.text == "tensor-parallel-size 8 needs 8 GPUs, and there are 7"
    assert planned(shapes, [big], "8xA100-80GB").fits
    named = planned(shapes, [big.with_gpus((0, 1, 2))], "8xA100-80GB")
    assert model(named, "big").why_not == (
        "multi-node-needs-ray-backend",
        "tensor-parallel-size 8 needs 8 GPUs, and gpus names 3",
    )
    absent = planned(shapes, [launch("m", "llama-8b", (8,))], "8xA100-80GB")
    assert "gpus names GPU 8, and there are 8: 0 to 7" in str(model(absent, "m").why_not)


def test_a_model_that_its_arguments_stop_has_its_numbers_all_the_same(shapes: dict[str, ModelShape]) -> None:
    plan = planned(shapes, [launch("m", "llama-8b", max_model_len=200_000)], "1xA100-80GB")
    placed = model(plan, "m")
    assert verdicts(plan) == {"m": "max-model-len-above-model-limit"}
    assert placed.worst is not None
    assert not isinstance(placed.worst.kv_pool, Unknown)
    assert held_gib(plan, plan.cards[0]) == ()
    stages = planned(shapes, [launch("m", "llama-8b", pipeline_parallel_size=40)], "64xA100-80GB")
    assert verdicts(stages) == {"m": "pp-exceeds-layers"}
    assert model(stages, "m").worst is None


def test_without_gpus_a_launch_takes_the_first_ones(shapes: dict[str, ModelShape]) -> None:
    plan = planned(shapes, [launch("m", "llama-8b", tensor_parallel_size=2, pipeline_parallel_size=2)], "8xA100-80GB")
    assert model(plan, "m").gpus == (0, 1, 2, 3)


def test_more_gpus_than_ranks_stay_unused_and_it_is_said(shapes: dict[str, ModelShape]) -> None:
    placed = model(planned(shapes, [launch("m", "llama-8b", (0, 1, 2))], "8xA100-80GB"), "m")
    assert placed.gpus == (0,)
    assert placed.notes == ("GPUs 1, 2 stay unused: its sizes need 1",)


def test_a_close_call_is_said(shapes: dict[str, ModelShape]) -> None:
    notes = []
    for share in (0.9, 0.978):
        one = launch("m", "llama-8b", max_model_len=8192, gpu_memory_utilization=share)
        plan = planned(shapes, [one], "1xH100-80GB")
        assert plan.fits
        notes.append(model(plan, "m").notes)
    assert notes[0] == ()
    assert notes[1][0].startswith("close: 0.")


def test_arguments_that_are_not_counted_are_said(shapes: dict[str, ModelShape]) -> None:
    one = launch("m", "llama-8b", max_model_len=8192, kv_transfer_config="{}")
    assert model(planned(shapes, [one], "1xH100-80GB"), "m").notes == (
        "not in these numbers: buffers of the KV connector (--kv-transfer-config)",
    )


def test_replicas_each_have_their_gpus(shapes: dict[str, ModelShape]) -> None:
    two = launch("m", "llama-8b", (0, 1, 2, 3), tensor_parallel_size=2, data_parallel_size=2)
    placed = model(planned(shapes, [two], "4xH100-80GB"), "m")
    assert sorted(placed.ranks) == [0, 1, 2, 3]
    weights = {one.parts.weights for one in placed.ranks.values()}
    assert len(weights) == 1
    experts = launch("moe", "moe", (0, 1), data_parallel_size=2, enable_expert_parallel=True, max_model_len=4096)
    alone = launch("moe", "moe", (0,), max_model_len=4096)
    shared, whole = (model(planned(shapes, [one], "2xH100-80GB"), "moe").worst for one in (experts, alone))
    assert shared is not None
    assert whole is not None
    assert not isinstance(shared.parts.weights, Unknown)
    assert not isinstance(whole.parts.weights, Unknown)
    assert shared.parts.weights.value < 0.7 * whole.parts.weights.value


def test_a_model_that_does_not_start_takes_nothing_from_the_next(shapes: dict[str, ModelShape]) -> None:
    order = [
        launch("too-big", "llama-70b", (0,)),
        launch("small", "llama-8b", (0,), max_model_len=8192),
    ]
    assert verdicts(planned(shapes, order, "1xA100-80GB")) == {
        "too-big": "utilization-too-low-for-weights",
        "small": None,
    }


def test_the_order_decides_who_does_not_start(shapes: dict[str, ModelShape]) -> None:
    pair = [launch(name, name, (0,), max_model_len=4096) for name in ("llama-8b", "llama-13b")]
    for order in (pair, pair[::-1]):
        first, second = (one.name for one in order)
        expected = {first: None, second: "co-located-models-budgets-exceed-gpu"}
        assert verdicts(planned(shapes, order, "1xA100-80GB")) == expected


def test_started_together_they_pass_the_check_and_run_out_later(shapes: dict[str, ModelShape]) -> None:
    pair = [launch(name, name, (0,), max_model_len=4096) for name in ("llama-8b", "llama-13b")]
    plan = planned(shapes, pair, "1xA100-80GB", start="parallel")
    assert verdicts(plan) == {"llama-8b": None, "llama-13b": "co-located-models-budgets-exceed-gpu"}
    why_not = model(plan, "llama-13b").why_not
    assert why_not is not None
    assert "which of them runs out of memory is a race" in why_not.text
    halves = [one.with_arg("gpu-memory-utilization", 0.45) for one in pair]
    together = planned(shapes, halves, "1xA100-80GB", start="parallel")
    assert together.fits
    assert any("see each other's growth" in note for note in model(together, "llama-13b").notes)
    assert model(planned(shapes, halves, "1xA100-80GB"), "llama-13b").notes == ()


def test_small_models_share_a_small_card(shapes: dict[str, ModelShape]) -> None:
    two = [
        launch(name, "qwen-0.5b", (0,), gpu_memory_utilization=0.4, max_model_len=4096, enforce_eager=True)
        for name in ("a", "b")
    ]
    assert planned(shapes, two, "1xRTX4060-8GB").fits


def test_processes_that_are_there_already_count(shapes: dict[str, ModelShape]) -> None:
    cards = [replace(card, others_gib=exact(30.0, "measured: a test")) for card in parse_gpus("1xA100-80GB")]
    deployment = Deployment((launch("m", "llama-8b", max_model_len=8192),))
    plan = plan_of(deployment, {"m": shapes["llama-8b"]}, cards, "0.19.0")
    assert verdicts(plan) == {"m": "gpu-memory-held-by-other-process"}


def test_unlike_cards_are_judged_each_for_itself(shapes: dict[str, ModelShape]) -> None:
    one = launch("m", "llama-70b", (0, 1), tensor_parallel_size=2, max_model_len=4096)
    plan = planned(shapes, [one], "1xA100-80GB,1xL40S-48GB")
    assert verdicts(plan) == {"m": "utilization-too-low-for-weights"}
    worst = model(plan, "m").worst
    assert worst is not None
    assert worst.total_gib == pytest.approx(44.42)


def test_the_worst_rank_decides_the_pool(shapes: dict[str, ModelShape]) -> None:
    placed = model(
        planned(shapes, [launch("m", "llama-8b", pipeline_parallel_size=2, max_model_len=8192)], "2xH100-80GB"), "m"
    )
    pools = [one.kv_pool.value for one in placed.ranks.values() if not isinstance(one.kv_pool, Unknown)]
    assert placed.worst is not None
    assert not isinstance(placed.worst.kv_pool, Unknown)
    assert placed.worst.kv_pool.value == min(pools) < max(pools)


def test_an_old_engine_is_chosen_by_its_variable(shapes: dict[str, ModelShape]) -> None:
    plain = launch("m", "llama-8b", max_model_len=4096)
    names = []
    for value in ("0", "1"):
        worst = model(planned(shapes, [plain.with_env("VLLM_USE_V1", value)], "1xA100-80GB", "0.8.5"), "m").worst
        assert worst is not None
        names.append(worst.rules)
    assert ["(V0)" in name for name in names] == [True, False]


def host(available_gib: float, shm_gib: float) -> HostState:
    unknown = Unknown("not asked in this test")
    ram, shm = Known(available_gib, "measured", "a test"), Known(shm_gib, "measured", "a test")
    return HostState(ram, ram, unknown, unknown, shm, shm, None, None)


def test_what_the_host_lacks_is_said(shapes: dict[str, ModelShape]) -> None:
    deployment = Deployment((launch("m", "llama-8b", tensor_parallel_size=4, max_model_len=8192),))
    cards = parse_gpus("4xH100-80GB")
    poor = plan_of(deployment, {"m": shapes["llama-8b"]}, cards, "0.19.0", host(4, 0.0625))
    assert [("host-ram-exhausted" in note, "shm-too-small" in note) for note in poor.notes] == [
        (True, False),
        (False, True),
    ]
    assert plan_of(deployment, {"m": shapes["llama-8b"]}, cards, "0.19.0", host(500, 100)).notes == ()
    one = plan_of(
        Deployment((launch("m", "llama-8b", max_model_len=8192),)), {"m": shapes["llama-8b"]}, cards, "0.19.0"
    )
    assert not isinstance(one.host.shm, Unknown)
    assert one.host.shm.high == 0


def test_old_releases_pin_swap_space(shapes: dict[str, ModelShape]) -> None:
    needs = []
    for version in ("0.7.3", "0.19.0"):
        ram = planned(
            shapes, [launch("m", "llama-8b", tensor_parallel_size=2, max_model_len=4096)], "2xA100-80GB", version
        ).host.ram
        assert not isinstance(ram, Unknown)
        needs.append(ram.value)
    assert needs[0] - needs[1] == pytest.approx(8.0)


def test_on_a_cpu_models_share_the_hosts_memory(shapes: dict[str, ModelShape]) -> None:
    two = [launch(name, "llama-8b", max_model_len=4096).with_env("VLLM_CPU_KVCACHE_SPACE", "4") for name in ("a", "b")]
    assert planned(shapes, two, "cpu-48GB", "0.32.0").fits
    assert verdicts(planned(shapes, two, "cpu-24GB", "0.32.0")) == {"a": None, "b": "host-ram-exhausted"}
    assert planned(shapes, two, "cpu-48GB", "0.32.0").models[0].gpus == ()


@pytest.mark.parametrize(
    ("gpus", "sizes", "cause", "said"),
    [
        (
            (6,),
            {},
            "gpu-not-visible-in-container",
            "gpus names GPU 6, and there are 4: 0 to 3; so the model would see no",
        ),
        ((6, 0), {}, "gpu-not-visible-in-container", "gpus names GPU 6"),
        (
            (0, 6),
            {"tensor_parallel_size": 2},
            "multi-node-needs-ray-backend",
            "see 1 of the 2 GPUs that its sizes need",
        ),
    ],
)
def test_gpus_that_are_not_there_leave_the_model_those_before_them(
    shapes: dict[str, ModelShape], gpus: tuple[int, ...], sizes: dict[str, int], cause: str, said: str
) -> None:
    """CUDA_VISIBLE_DEVICES ends at the first index that is not there."""
    plan = planned(shapes, [launch("m", "llama-8b", gpus, max_model_len=4096, **sizes)], "4xA100-80GB")
    why_not = model(plan, "m").why_not
    assert why_not is not None
    assert why_not.id == cause
    assert said in why_not.text
    proposal = propose(plan)
    assert proposal is not None
    assert [one.key for one in proposal.changes] == ["gpus"]


def test_a_gpu_that_is_not_there_and_not_needed_is_a_note(shapes: dict[str, ModelShape]) -> None:
    plan = planned(shapes, [launch("m", "llama-8b", (0, 6), max_model_len=4096)], "4xA100-80GB")
    assert plan.fits
    assert model(plan, "m").notes == ("gpus names GPU 6, and there are 4: 0 to 3",)
