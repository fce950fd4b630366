"""Weights on each rank: stages, replicated heads, experts, offloading, dtypes, and what the allocator rounds up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.errors import InputError
from engine_probe.memory.parallel import Parallel
from engine_probe.memory.rank_lora import lora_on_rank
from engine_probe.memory.rank_weights import weights_on_rank
from engine_probe.memory.read_model import read_model
from tests.memory_configs import GPT_OSS_20B, LLAMA_8B, LLAMA_70B, MODELS, QWEN_05B, llama
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.estimates import Estimate
    from engine_probe.memory.model import ModelShape

GIB = 1 << 30


@pytest.fixture
def llama_8b(tmp_path: Path) -> ModelShape:
    return read_model(write_config(tmp_path / "llama", LLAMA_8B))


def estimate(shape: ModelShape, parallel: Parallel | None = None, rank: int | None = None, **more: Any) -> Estimate:
    return weights_on_rank(shape, parallel or Parallel(), rank, **{"family": "hopper", **more})  # type: ignore[return-value]


# "Model loading took" as vLLM 0.19 printed it on H100s.
@pytest.mark.parametrize(
    ("parallel", "more", "printed_gib"),
    [
        (Parallel(), {}, 14.99),
        (Parallel(2), {}, 7.51),
        (Parallel(4), {}, 3.77),
        (Parallel(1, 2), {}, 7.51),
        (Parallel(1, 4), {}, 4.26),
        (Parallel(), {"dtype": "float32"}, 29.98),
        (Parallel(), {"dtype": "float16"}, 14.99),
        (Parallel(), {"quantization": "fp8"}, 8.49),
    ],
)
def test_llama_8b_as_printed(
    llama_8b: ModelShape, parallel: Parallel, more: dict[str, Any], printed_gib: float
) -> None:
    found = estimate(llama_8b, parallel, **more)
    assert round(found.value, 2) == printed_gib
    assert found.low < printed_gib < found.high


@pytest.mark.parametrize(("name", "printed_gib"), [("Qwen2.5-7B", 14.25), ("Phi-4", 27.39), ("Phi-2", 5.19)])
def test_blocks_of_torchs_allocator_count(tmp_path: Path, name: str, printed_gib: float) -> None:
    shape = read_model(write_config(tmp_path, MODELS[name].config))
    assert estimate(shape).value == pytest.approx(printed_gib, abs=0.006)
    assert estimate(shape, family="cpu").value < printed_gib - 0.01


def test_the_worst_rank_is_named(llama_8b: ModelShape) -> None:
    assert "rank 6 of 8" in estimate(llama_8b, Parallel(2, 4)).source
    assert "rank 3 of 8" in estimate(llama_8b, Parallel(2, 4), 3).source


def test_stages_share_the_layers_as_vllm_does() -> None:
    assert Parallel(pp=4).layer_counts(30) == (7, 8, 8, 7)
    assert Parallel(pp=4).layer_counts(32) == (8, 8, 8, 8)
    assert Parallel(pp=2).layer_counts(33) == (17, 16)
    assert Parallel(pp=4).layer_counts(31) == (8, 8, 8, 7)
    assert Parallel(pp=2, pp_partition=(20, 12)).layer_counts(32) == (20, 12)
    assert Parallel(pp=2, pp_partition=(20, 12)).layers_of_stage(32, 1) == range(20, 32)


def test_first_and_last_stage_hold_the_vocabulary(llama_8b: ModelShape) -> None:
    ends = [estimate(llama_8b, Parallel(1, 4), rank).value for rank in range(4)]
    vocabulary = 128256 * 4096 * 2 / GIB
    assert ends[0] - ends[1] == pytest.approx(vocabulary, rel=1e-3)
    assert ends[1] == pytest.approx(ends[2])
    assert ends[3] - ends[2] == pytest.approx(vocabulary, rel=1e-3)


def test_a_tied_embedding_is_on_both_ends(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, QWEN_05B))
    sizes = [estimate(shape, Parallel(1, 3), rank, family="cpu").value for rank in range(3)]
    assert sizes[0] == pytest.approx(sizes[2], rel=1e-3)
    assert sizes[0] - sizes[1] == pytest.approx(151936 * 896 * 2 / GIB, rel=1e-3)


def test_few_heads_are_replicated(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, llama(4096, 14336, 8, 32, 2, 32000)))
    two, eight = estimate(shape, Parallel(2), family="cpu"), estimate(shape, Parallel(8), family="cpu")
    key_value = 8 * 2 * 2 * 128 * 4096 * 2 / GIB
    norms = 17 * 4096 * 2 / GIB + 2048 * 128 * 2 / GIB
    assert eight.value == pytest.approx((two.value - norms - key_value / 2) / 4 + norms + key_value / 2, rel=1e-6)


def test_experts_are_cut_by_whichever_ranks_share_them(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, MODELS["Qwen3-30B-A3B"].config))
    experts = sum(part.size_bytes for part in shape.weights if part.split == "experts") / GIB
    alone = estimate(shape, family="cpu").value
    for parallel, pieces in (
        (Parallel(1, dp=4), 4),
        (Parallel(1, dp=4, expert_parallel=True), 4),
        (Parallel(1, dp=8, expert_parallel=True), 8),
    ):
        assert estimate(shape, parallel, family="cpu").value == pytest.approx(
            alone - experts * (1 - 1 / pieces), rel=1e-6
        )
    odd = estimate(shape, Parallel(1, dp=3, expert_parallel=True), family="cpu").value  # 43 of 128 experts
    assert odd == pytest.approx(alone - experts * (1 - 43 / 128), rel=1e-6)


@pytest.mark.parametrize(
    ("family", "printed_gib"), [("ampere", 65.97), ("hopper", 64.38)], ids=["Marlin", "triton on Hopper"]
)
def test_experts_in_mxfp4_are_padded_for_their_kernel(tmp_path: Path, family: str, printed_gib: float) -> None:
    config = {
        **GPT_OSS_20B, "num_hidden_layers": 36, "num_local_experts": 128,
        "quantization_config": {"quant_method": "mxfp4"}, "layer_types": ["sliding_attention", "full_attention"] * 18,
    }  # fmt: skip
    shape = read_model(write_config(tmp_path, config))
    assert estimate(shape, family=family).value == pytest.approx(printed_gib, rel=0.005)
    anyone = estimate(shape, family=None)
    assert anyone.low < 64.38
    assert anyone.high > 65.97


def test_offloading_moves_layers_only(llama_8b: ModelShape) -> None:
    whole = estimate(llama_8b).value
    assert estimate(llama_8b, cpu_offload_gib=4).value == pytest.approx(whole - 4)
    rest = estimate(llama_8b, cpu_offload_gib=1000).value
    assert rest == pytest.approx(2 * 128256 * 4096 * 2 / GIB + 131072 * 128 * 2 / GIB, rel=1e-3)


def test_a_draft_model_lies_on_the_last_stage(tmp_path: Path, llama_8b: ModelShape) -> None:
    draft = read_model(write_config(tmp_path / "draft", QWEN_05B))
    alone = estimate(llama_8b).value
    both = estimate(llama_8b, draft=draft)
    assert both.value == pytest.approx(alone + estimate(draft).value)
    assert both.low < alone + 0.6
    first = estimate(llama_8b, Parallel(1, 2), 0, draft=draft)
    assert first.value == pytest.approx(estimate(llama_8b, Parallel(1, 2), 0).value)


def test_quantising_while_loading_leaves_checkpoints_that_are_quantised(tmp_path: Path) -> None:
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "fp8"}}
    shape = read_model(write_config(tmp_path, config))
    assert estimate(shape, quantization="fp8").value == estimate(shape).value


def test_bitsandbytes_while_loading(llama_8b: ModelShape) -> None:
    assert estimate(llama_8b, quantization="bitsandbytes").value == pytest.approx(5.67, rel=0.01)


def test_seventy_billion_on_eight_gpus_is_quick_enough_to_ask_often(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, LLAMA_70B))
    assert estimate(shape, Parallel(8)).value == pytest.approx(131.4 / 8, rel=0.01)
    assert len(shape.weights) < 600


def test_room_for_adapters(tmp_path: Path) -> None:
    shape = read_model(write_config(tmp_path, llama(5120, 13824, 40, 40, 40, 32000)))
    found = lora_on_rank(shape, Parallel(), slots=3, rank=16)
    layer = 8 * 5120 + 3 * (5120 + 13824)
    assert found.low == pytest.approx(40 * layer * 3 * 16 * 2 / GIB)
    assert found.low <= found.value <= found.high
    assert lora_on_rank(shape, Parallel(2), slots=3, rank=16).value < found.value
    assert lora_on_rank(shape, Parallel(), slots=6, rank=16).value == pytest.approx(2 * found.value)


def test_a_rank_beyond_the_last_is_refused(llama_8b: ModelShape) -> None:
    with pytest.raises(InputError, match="there is no rank 2; there are 2"):
        estimate(llama_8b, Parallel(2), 2)
