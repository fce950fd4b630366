"""What is proposed so that all models start: the fewest changes, each kind where it is the one that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from playbooks.plan_proposal import advise, propose
from playbooks.plan_proposal_sizes import gpu_sets, lengths_below, quantised_group, tensor_sizes
from tests.plan_proposal_samples import EIGHT, ONE, launch, planned, replanned, write_models

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.placement import Plan

LENGTH, SHARE, TENSOR = "args.max-model-len", "args.gpu-memory-utilization", "args.tensor-parallel-size"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


def changes(plan: Plan, **keep: int) -> list[tuple[str | None, str, object]]:
    """Of what is proposed, which must really fit, by the middle and by the unfavourable end."""
    proposal = propose(plan, keep)
    assert proposal is not None
    assert replanned(plan, proposal.deployment).fits
    assert proposal.is_safe
    assert all(one.why and one.costs for one in proposal.changes)
    return [(one.launch, one.key, one.value) for one in proposal.changes]


def keys(plan: Plan) -> list[tuple[str | None, str]]:
    return [(name, key) for name, key, _ in changes(plan)]


# The two cases that everybody knows


@pytest.mark.parametrize("version", ["0.10.2", "0.11.2", "0.19.0", "0.20.2", "0.33.0"])
def test_two_large_models_on_eight_gpus_share_them_by_two_smaller_shares(models: Path, version: str) -> None:
    plan = planned(
        launch("qwen", models / "qwen-72b", tensor_parallel_size=8),
        launch("llama", models / "llama-70b", tensor_parallel_size=8),
        version=version,
    )
    assert [one.fits for one in plan.models] == [True, False]
    found = changes(plan)
    assert [(name, key) for name, key, _ in found] == [("qwen", SHARE), ("llama", SHARE)]
    shares = [value for _, _, value in found]
    assert all(0.35 <= share <= 0.5 for share in shares), shares
    assert all(round(share * 100) == pytest.approx(share * 100) for share in shares), "hundredths"


def test_a_release_that_counts_neighbours_needs_one_smaller_share_of_the_first(models: Path) -> None:
    plan = planned(
        launch("qwen", models / "qwen-72b", tensor_parallel_size=8),
        launch("llama", models / "llama-70b", tensor_parallel_size=8),
        version="0.8.5",
    )
    proposal = propose(plan)
    assert proposal is not None
    assert [(one.launch, one.key) for one in proposal.changes] == [("qwen", SHARE)]
    second = proposal.plan.models[1]
    assert second.worst is not None
    assert second.worst.utilization == 0.9, "of all that is used: what the first holds is in it"
    assert second.worst.after_warm_up.value > 0


def test_a_model_on_an_occupied_gpu_moves_to_a_free_one(models: Path) -> None:
    chat = launch("chat-70b", models / "llama-70b", (0, 1, 2, 3), tensor_parallel_size=4)
    code = launch("code-13b", models / "llama-13b", (0,), max_loras=3)
    for name in ("sql", "review", "tests"):
        code = code.with_lora(name, f"/adapters/{name}")
    plan = planned(chat, code)
    assert plan.models[1].why_not is not None
    assert plan.models[1].why_not.id == "co-located-models-budgets-exceed-gpu"
    assert changes(plan) == [("code-13b", "gpus", (4,))]


# Each kind of change


def test_three_models_on_one_gpu_get_a_share_each(models: Path) -> None:
    plan = planned(
        launch("a", models / "llama-8b"), launch("b", models / "llama-8b"), launch("c", models / "small"), gpus=ONE
    )
    found = changes(plan)
    assert [(name, key) for name, key, _ in found] == [("a", SHARE), ("b", SHARE), ("c", SHARE)]
    assert sum(value for _, _, value in found) < 0.98


def test_one_share_is_enough_where_the_other_leaves_room(models: Path) -> None:
    plan = planned(
        launch("a", models / "llama-8b", gpu_memory_utilization=0.5), launch("b", models / "small"), gpus=ONE
    )
    assert keys(plan) == [("b", SHARE)]


def test_the_order_alone_helps_a_model_that_asks_for_more_than_it_takes(models: Path) -> None:
    plan = planned(
        launch("a", models / "small", gpu_memory_utilization=0.2),
        launch("b", models / "small", kv_cache_memory_bytes=4 << 30),
        gpus=ONE,
    )
    assert changes(plan) == [(None, "deployment.order", ("b", "a"))]


def test_the_order_alone_helps_where_a_release_counts_neighbours(models: Path) -> None:
    plan = planned(
        launch("a", models / "llama-8b", gpu_memory_utilization=0.9),
        launch("b", models / "small", gpu_memory_utilization=0.4),
        gpus=ONE,
        version="0.8.5",
    )
    assert changes(plan) == [(None, "deployment.order", ("b", "a"))]


def test_a_size_that_does_not_divide_the_heads_becomes_the_next_that_does(models: Path) -> None:
    plan = planned(launch("a", models / "small", tensor_parallel_size=8))  # 14 heads
    assert changes(plan) == [("a", TENSOR, 2)]


def test_weights_above_one_gpu_are_cut(models: Path) -> None:
    assert keys(planned(launch("a", models / "llama-70b"))) == [("a", TENSOR)]


def test_several_such_models_get_gpus_of_their_own(models: Path) -> None:
    plan = planned(*(launch(f"m{number}", models / "llama-70b") for number in range(2)))
    found = changes(plan)
    assert [key for _, key, _ in found if key == TENSOR] == [TENSOR] * 2
    moved = [value for _, key, value in found if key == "gpus"]
    assert len(moved) == 1, "the first stays on the first GPUs"


def test_a_length_that_has_no_room_is_shortened_and_no_further_than_needed(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b-long"), gpus="1xL4-24GB")
    ((name, key, length),) = changes(plan)
    assert (name, key) == ("a", LENGTH)
    assert isinstance(length, int)
    assert 8192 < length < 131072
    longer = plan.deployment.models[0].with_arg("max-model-len", int(length * 1.3))
    assert not planned(longer, gpus="1xL4-24GB").fits


def test_a_length_is_kept_that_somebody_needs(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b-long"), gpus="1xL4-24GB")
    advice = advise(plan, {"a": 65536})
    assert advice.proposal is None
    assert advice.why_none is not None
    assert "65,536" in advice.why_none
    assert changes(plan, a=16384)[0][2] >= 16384


def test_a_length_above_what_the_model_was_made_for_becomes_that(models: Path) -> None:
    plan = planned(launch("a", models / "llama-13b", max_model_len=8192), gpus=ONE)
    assert changes(plan) == [("a", LENGTH, 4096)]


def test_a_share_that_is_too_small_is_raised_before_requests_get_shorter(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b", gpu_memory_utilization=0.15), gpus=ONE)
    assert keys(plan) == [("a", SHARE)]


def test_models_that_start_at_once_start_one_after_another_first(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b"), launch("b", models / "small"), gpus=ONE, start="parallel")
    found = changes(plan)
    assert found[0] == (None, "deployment.start", "sequential")


def test_models_with_gpus_of_their_own_may_start_at_once(models: Path) -> None:
    plan = planned(
        launch("a", models / "llama-8b", (0,)),
        launch("b", models / "small", (0,)),
        gpus="2xA100-80GB",
        start="parallel",
    )
    assert changes(plan) == [("b", "gpus", (1,))]


def test_gpus_that_are_not_there_are_replaced(models: Path) -> None:
    assert changes(planned(launch("a", models / "llama-8b", (4,)), gpus="2xA100-80GB")) == [("a", "gpus", (0,))]


def test_too_few_gpus_for_a_size_become_enough(models: Path) -> None:
    plan = planned(launch("a", models / "llama-70b", (0, 1), tensor_parallel_size=4), gpus="4xA100-80GB")
    assert changes(plan) == [("a", "gpus", (0, 1, 2, 3))]


def test_six_models_on_one_gpu_of_eight_are_spread(models: Path) -> None:
    plan = planned(*(launch(f"m{number}", models / "llama-8b") for number in range(6)))
    found = changes(plan)
    assert {key for _, key, _ in found} == {"gpus"}
    assert len({value for _, _, value in found}) == 5


def test_on_a_cpu_shares_of_the_host_s_memory_are_divided(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b"), launch("b", models / "small"), gpus="cpu-64GB", version="0.32.0")
    assert not plan.fits
    assert {key for _, key, _ in changes(plan)} == {SHARE}


def test_on_a_cpu_of_old_a_space_is_set_that_is_there(models: Path) -> None:
    small = launch("a", models / "small").with_env("VLLM_CPU_KVCACHE_SPACE", "40")
    found = changes(planned(small, gpus="cpu-16GB", version="0.11.0"))
    assert found[0][:2] == ("a", "env.VLLM_CPU_KVCACHE_SPACE")


def test_a_cache_of_a_fixed_size_becomes_what_is_left(models: Path) -> None:
    plan = planned(launch("a", models / "small", kv_cache_memory_bytes=100 << 30), gpus=ONE)
    ((name, key, size),) = changes(plan)
    assert (name, key) == ("a", "args.kv-cache-memory-bytes")
    assert 60 << 30 < size < 80 << 30


def test_adapters_of_a_higher_rank_raise_the_limit(models: Path) -> None:
    folder = models / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 40, "lora_alpha": 16, "target_modules": ["q_proj"]}')
    plan = planned(launch("a", models / "llama-8b").with_lora("x", str(folder)), gpus=ONE)
    assert changes(plan) == [("a", "args.max-lora-rank", 64)]


# What must not happen


def test_nothing_is_proposed_where_all_fit(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b"), gpus=ONE)
    assert propose(plan) is None
    assert advise(plan).why_none is None
    assert advise(plan).alternatives == ()


def test_what_fits_nowhere_is_said_with_numbers(models: Path) -> None:
    advice = advise(planned(launch("a", models / "llama-70b"), gpus="1xL4-24GB"))
    assert advice.proposal is None
    assert advice.why_none is not None
    assert "131" in advice.why_none
    assert "22.1 GiB" in advice.why_none
    assert advice.alternatives


def test_gpus_that_somebody_chose_stay_where_a_share_is_enough(models: Path) -> None:
    plan = planned(
        launch("a", models / "llama-8b", (0,), gpu_memory_utilization=0.5), launch("b", models / "small", (0,))
    )
    assert keys(plan) == [("b", SHARE)]


def test_a_free_gpu_goes_before_a_smaller_share_where_nobody_chose(models: Path) -> None:
    plan = planned(launch("a", models / "llama-8b", gpu_memory_utilization=0.5), launch("b", models / "small"))
    assert changes(plan) == [("b", "gpus", (1,))]


def test_an_unknown_release_counts_as_the_newest(models: Path) -> None:
    plan = planned(
        launch("qwen", models / "qwen-72b", tensor_parallel_size=8),
        launch("llama", models / "llama-70b", tensor_parallel_size=8),
        version=None,
    )
    proposal = propose(plan)
    assert proposal is not None
    assert replanned(plan, proposal.deployment).fits


def test_the_same_plan_has_the_same_proposal(models: Path) -> None:
    launches = [launch(f"m{number}", models / "llama-8b-long") for number in range(3)]
    first, second = (propose(planned(*launches, gpus="2xA100-80GB")) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.changes == second.changes


# Sizes, sets, lengths


def test_sizes_divide_heads_matrices_and_groups_of_quantised_weights(models: Path) -> None:
    from engine_probe.memory.read_model import read_model

    plain, awq, small = (read_model(models / name) for name in ("qwen-72b", "qwen-72b-awq", "small"))
    assert [size for size in tensor_sizes(plain, 16, cuts_experts=True) if size & (size - 1) == 0] == [1, 2, 4, 8, 16]
    assert quantised_group(plain) == 1
    assert quantised_group(awq) == 128
    assert tensor_sizes(awq, 8, cuts_experts=True) == (1,), "29568 is 231 groups of 128"
    assert tensor_sizes(small, 8, cuts_experts=True) == (1, 2), "14 heads, 2 KV heads"


def test_gpu_sets_are_neighbours_at_a_multiple_of_their_number(models: Path) -> None:
    cards = planned(launch("a", models / "small"), gpus=EIGHT).cards
    assert gpu_sets(cards, {0: 0.9}, 2)[0] == (2, 3)
    assert gpu_sets(cards, dict.fromkeys(range(7), 0.9), 1)[0] == (7,)
    assert gpu_sets(cards, {}, 9) == ()


def test_lengths_are_round_and_end_where_they_must() -> None:
    assert lengths_below(131072, 100_000) == (122880, 114688, 106496)
    assert min(lengths_below(131072, None)) == 1024
    assert all(length < 4096 for length in lengths_below(4096, None))
    assert lengths_below(4096, 4096) == ()
