"""Computed facts of memory and LoRA playbooks: the values that their fixes set, and why one is not known."""

from __future__ import annotations

from typing import Any

import pytest

from engine_probe.command_line import parse_command
from engine_probe.facts import Known, Unknown
from playbooks.computed import COMPUTED
from playbooks.facts import lookup_for


def computed(name: str, **facts: float | str) -> Known | Unknown:
    told = {key.replace("__", "."): Known(value, "parsed", "test") for key, value in facts.items()}
    answer = next(one for one in COMPUTED if one.name == name).compute(lookup_for(parse_command("vllm serve m"), told))
    assert isinstance(answer, (Known, Unknown))
    return answer


@pytest.mark.parametrize(
    ("name", "facts", "value"),
    [
        ("memory.utilization_that_fits", {"free_gib": 22.61, "total_gib": 24.0}, 0.94),
        ("memory.utilization_that_fits", {"free_gib": 27.18, "total_gib": 47.38}, 0.57),
        ("gpu.taken_share_at_start", {"free_gib": 60.0, "total_gib": 80.0}, 0.25),
        ("memory.swap_that_fits_gib", {"host_gib": 31.0, "launch__tensor_parallel_size": 2}, 6),
        ("memory.kv_whole_gib_that_fits", {"node": 0, "free_gib": 7.57}, 3),
        ("memory.share_of_the_host", {"free_gib": 7.57, "total_gib": 10.96}, 0.34),
        ("memory.fewer_seqs", {"dummy_requests": 512}, 256),
        ("memory.weights_card_gib", {"weights__gib": 2.05, "memory__utilization_now": 0.25}, 8.2),
        (
            "memory.utilization_beside_neighbours",
            {"neighbours__utilization_sum": 1.2, "memory__utilization_now": 0.6},
            0.35,
        ),
        (
            "memory.utilization_for_weights",
            {"kv__available_gib": -2.3, "memory__utilization_now": 0.7, "gpu__total_gib": 80.0},
            0.75,
        ),
        ("memory.blocks_needed", {"engine__max_model_len": 4096}, 257),
        ("lora.max_rank_needed", {"adapter_rank": 64}, 64),
        ("lora.max_rank_needed", {"asked_rank": 48, "engine__vllm_version": "0.32.0"}, 64),
        ("lora.max_rank_needed", {"asked_rank": 2, "engine__vllm_version": "0.10.2"}, 8),
        ("lora.max_rank_needed", {"asked_rank": 1, "engine__vllm_version": "0.11.2"}, 1),
    ],
)
def test_values_of_fixes(name: str, facts: dict[str, Any], value: float) -> None:
    answer = computed(name, **facts)
    assert isinstance(answer, Known)
    assert answer.value == pytest.approx(value)


SIZES = {
    "capacity_size": "23.53 GiB",
    "free_size": "803.69 MiB",
    "allocated_size": "4.20 GiB",
    "unallocated_size": "0 bytes",
}


@pytest.mark.parametrize(
    ("processes", "others_gib"),
    [
        ("Including non-PyTorch memory, this process has 22.74 GiB memory in use. ", 0.01),
        ("Process 99 has 17.9 GiB memory in use. Process 100 has 4.80 GiB memory in use. ", 17.95),
        # too much more than torch's pool to be this process
        ("Process 99 has 22.70 GiB memory in use. ", 18.05),
        # in WSL torch says nonsense of itself; then its own pool and a context count
        ("Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. ", 18.05),
    ],
)
def test_what_others_hold_is_read_from_torchs_message(processes: str, others_gib: float) -> None:
    answer = computed("oom.others_gib", processes=processes, **SIZES)
    assert isinstance(answer, Known)
    assert answer.value == pytest.approx(others_gib, abs=0.01)


@pytest.mark.parametrize(
    ("name", "facts", "why"),
    [
        ("oom.others_share", {"capacity_size": "23.53 GiB"}, "free size"),
        ("memory.utilization_that_fits", {"free_gib": 0.2, "total_gib": 80.0}, "no share fits"),
        (
            "memory.utilization_for_weights",
            {"kv__available_gib": -9.0, "memory__utilization_now": 0.9, "gpu__total_gib": 24.0},
            "of this GPU",
        ),
        ("lora.max_rank_needed", {"adapter_rank": 1024}, "512"),
    ],
)
def test_what_cannot_be_computed_says_why(name: str, facts: dict[str, Any], why: str) -> None:
    answer = computed(name, **facts)
    assert isinstance(answer, Unknown)
    assert why in answer.reason
