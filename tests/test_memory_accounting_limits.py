"""What stops a start: each limit by its name and numbers, with a start beside it that just goes on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Unknown
from engine_probe.memory.estimates import exact
from engine_probe.memory.limits import Neighbours, refused_by_config
from tests import memory_configs as configs
from tests.memory_plans import NOBODY, asked, memory_of, shape_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.model import ModelShape

FEW_TOKENS, SHORT_STEP = "batched-tokens-below-max-num-seqs", "batched-tokens-below-model-len"
MXFP4 = {**configs.GPT_OSS_20B, "quantization_config": {"quant_method": "mxfp4"}}


@pytest.fixture
def llama(tmp_path: Path) -> ModelShape:
    return shape_of(tmp_path / "llama", configs.LLAMA_8B)


@pytest.fixture
def gpt_oss(tmp_path: Path) -> ModelShape:
    return shape_of(tmp_path / "gpt-oss", MXFP4)


def stopped_by(memory: RankMemory) -> str | None:
    return None if memory.why_not is None else memory.why_not.id


def text_of(memory: RankMemory) -> str:
    assert memory.why_not is not None
    return memory.why_not.text


def beside(gib: float, *models: str) -> Neighbours:
    return Neighbours(exact(0.0, "a test"), gib, models) if models else Neighbours(exact(gib, "a test"))


def test_a_share_above_what_is_free(llama: ModelShape) -> None:
    near = beside(20.0)
    held = memory_of(llama, "0.19.0", near=near, max_model_len=8192)
    assert stopped_by(held) == "gpu-memory-held-by-other-process"
    assert "71.3 GiB must be free at the start (0.9 x 79.2 GiB), and 59.2 GiB are" in text_of(held)
    assert "other processes 20.0 GiB" in text_of(held)
    assert "gpu-memory-utilization up to 0.72 would start" in text_of(held)
    for share, starts in ((0.72, True), (0.74, False), (0.75, False)):
        memory = memory_of(llama, "0.19.0", near=near, max_model_len=8192, gpu_memory_utilization=share)
        assert (stopped_by(memory) is None) is starts, share
    assert stopped_by(memory_of(llama, "0.9.0", near=near, max_model_len=8192)) is None  # no check yet


def test_who_is_in_the_way_decides_the_name(llama: ModelShape) -> None:
    together = memory_of(llama, "0.19.0", near=beside(40.0, "chat"), max_model_len=8192)
    assert stopped_by(together) == "co-located-models-budgets-exceed-gpu"
    assert "beside chat 40.0 GiB" in text_of(together)
    alone = memory_of(llama, "0.19.0", max_model_len=8192, gpu_memory_utilization=1)
    assert stopped_by(alone) == "utilization-exceeds-free-memory-at-startup"


def test_what_others_hold_may_be_unknown(llama: ModelShape) -> None:
    memory = memory_of(llama, "0.19.0", near=Neighbours(Unknown("the driver does not say")), max_model_len=8192)
    assert isinstance(memory.free_at_start, Unknown)
    assert stopped_by(memory) is None


def test_weights_above_the_card(tmp_path: Path) -> None:
    big = shape_of(tmp_path / "big", configs.LLAMA_70B)
    memory = memory_of(big, "0.19.0", "RTX4090-24GB", tensor_parallel_size=4, gpu_memory_utilization=0.98)
    assert stopped_by(memory) == "utilization-too-low-for-weights"
    assert "32.9 GiB of weights on each GPU are more than its 23.6 GiB" in text_of(memory)


def test_weights_above_what_is_free_where_nothing_is_checked_before(llama: ModelShape) -> None:
    memory = memory_of(llama, "0.7.3", near=beside(70.0, "chat"), max_model_len=8192)
    assert stopped_by(memory) == "co-located-models-budgets-exceed-gpu"
    assert "15.0 GiB of weights do not fit into the 9.2 GiB that are free beside chat 70.0 GiB, 8.7 once" in text_of(
        memory
    )


def test_no_memory_for_blocks(llama: ModelShape) -> None:
    memory = memory_of(llama, "0.19.0", max_model_len=8192, gpu_memory_utilization=0.2)
    assert stopped_by(memory) == "utilization-too-low-for-weights"
    assert "no memory for cache blocks: the budget of 15.8 GiB is smaller than 17.1 GiB" in text_of(memory)


def test_a_release_that_charges_neighbours_to_the_server(llama: ModelShape) -> None:
    near = beside(20.0)
    assert stopped_by(memory_of(llama, "0.8.5", near=near, max_model_len=8192, gpu_memory_utilization=0.4)) == (
        "profiler-counts-other-processes"
    )
    assert stopped_by(memory_of(llama, "0.10.2", near=near, max_model_len=8192, gpu_memory_utilization=0.4)) is None


def test_a_pool_too_small_for_one_request_names_the_length_that_fits(llama: ModelShape) -> None:
    memory = memory_of(llama, "0.19.0", "L4-24GB")
    assert stopped_by(memory) == "kv-cache-too-small-for-max-model-len"
    assert "one request of 131072 tokens needs 16.00 GiB" in text_of(memory)
    assert not isinstance(memory.room, Unknown)
    longest = memory.room.longest
    assert f"{longest} tokens would fit" in text_of(memory)
    assert stopped_by(memory_of(llama, "0.19.0", "L4-24GB", max_model_len=longest)) is None
    assert stopped_by(memory_of(llama, "0.19.0", "L4-24GB", max_model_len=longest + 16)) is not None


def test_a_length_that_is_left_to_vllm_is_lowered(llama: ModelShape) -> None:
    memory = memory_of(llama, "0.19.0", "L4-24GB", max_model_len="auto")
    assert stopped_by(memory) is None
    assert 1000 < memory.max_len < 131_072


@pytest.mark.parametrize(
    ("tp", "share", "starts"), [(1, 0.95, False), (2, 0.95, False), (2, 0.9, True), (1, 0.9, True)]
)
def test_a_positive_pool_may_leave_nothing_for_the_warm_up(
    gpt_oss: ModelShape, tp: int, share: float, starts: bool
) -> None:
    """Three starts of vLLM 0.19.0 on H100 that were seen, and the fourth that follows: by the pool alone all fit."""
    memory = memory_of(gpt_oss, "0.19.0", max_model_len=8192, tensor_parallel_size=tp, gpu_memory_utilization=share)
    assert not isinstance(memory.kv_pool, Unknown)
    assert memory.kv_pool.value > 50
    assert stopped_by(memory) == (None if starts else "sampler-warmup-oom-max-num-seqs")


def test_what_the_warm_up_needs_grows_with_requests_and_graphs(gpt_oss: ModelShape) -> None:
    """The same start goes on with fewer requests, and with graphs inside the budget."""
    args: dict[str, Any] = {"max_model_len": 8192, "gpu_memory_utilization": 0.95}
    assert "1024 requests takes 2.8 GiB once more" in text_of(memory_of(gpt_oss, "0.19.0", **args))
    assert stopped_by(memory_of(gpt_oss, "0.19.0", max_num_seqs=256, **args)) is None
    assert (
        stopped_by(memory_of(gpt_oss, "0.19.0", env={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"}, **args)) is None
    )


def test_the_measured_loss_of_torchs_blocks_is_met(gpt_oss: ModelShape) -> None:
    """Printed: 78.68 - 62.77 - 13.64 - 0.25 = 2.02 GiB with one GPU, 77.18 - 66.27 - 7.01 - 2.07 = 1.83 with two."""
    for tp, printed in ((1, 2.02), (2, 1.83)):
        parts = memory_of(gpt_oss, "0.19.0", max_model_len=8192, tensor_parallel_size=tp).parts
        assert parts.stranded.value == pytest.approx(printed, abs=0.05)
    assert memory_of(gpt_oss, "0.25.1", max_model_len=8192).parts.stranded.value == 0


def test_dense_models_of_the_same_size_start_at_the_same_share(tmp_path: Path) -> None:
    """Seen on 0.19.0 at 0.95 with two and four H100: the closest starts that went well."""
    big = shape_of(tmp_path / "big", configs.LLAMA_70B)
    memory = memory_of(big, "0.19.0", tensor_parallel_size=4, max_model_len=8192, gpu_memory_utilization=0.95)
    assert stopped_by(memory) is None


def test_a_fixed_pool_is_held_against_what_is_left(llama: ModelShape) -> None:
    args: dict[str, Any] = {"max_model_len": 8192, "gpu_memory_utilization": 0.5}
    big = memory_of(llama, "0.19.0", kv_cache_memory_bytes=70 * 2**30, **args)
    assert stopped_by(big) == "kv-cache-bytes-exceed-memory"
    assert "asks for 70.0 GiB and 63.4 GiB are left" in text_of(big)
    small = memory_of(llama, "0.19.0", kv_cache_memory_bytes=20 * 2**30, **args)
    assert stopped_by(small) is None
    assert not isinstance(small.room, Unknown)
    assert small.room.blocks == 20 * 2**30 // (16 * 131_072)
    taken = small.occupied
    assert not isinstance(taken, Unknown)
    assert taken.value == pytest.approx(15.0 + 1.9 + 0.25 + 0.5 + 0.9 + 20, abs=0.2)


@pytest.mark.parametrize(
    ("args", "env", "name", "said"),
    [
        ({"tensor-parallel-size": 3}, {}, "heads-not-divisible-by-tp", "32 attention heads .* 3 .possible: 1, 2, 4, 8"),
        ({"max-model-len": 200_000}, {}, "max-model-len-above-model-limit", "200000 is above the 131072 tokens"),
        ({"max-model-len": 200_000}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, None, ""),
        ({"pipeline-parallel-size": 33}, {}, "pp-exceeds-layers", "33 is more than the model's 32 layers"),
        ({"num-gpu-blocks-override": 0}, {}, "kv-cache-size-zero", "leaves no block"),
        ({"tensor-parallel-size": 8, "pipeline-parallel-size": 32}, {}, None, ""),
        (
            {"max-num-seqs": 100_000, "max-num-batched-tokens": 2048},
            {},
            FEW_TOKENS,
            "2048 is below max-num-seqs 100000",
        ),
        ({"max-num-seqs": 2048, "max-num-batched-tokens": 2048}, {}, None, ""),
    ],
)
def test_what_the_configuration_refuses(
    llama: ModelShape, args: dict[str, Any], env: dict[str, str], name: str | None, said: str
) -> None:
    one = asked(llama, "0.19.0", args, env)
    refused = refused_by_config(one.values, one.shape)
    assert (None if refused is None else refused.id) == name
    if refused is not None:
        assert re.search(said, refused.text)


@pytest.mark.parametrize(
    ("scaling", "limit", "usual"),
    [
        (None, 131_072, 131_072),
        ({"rope_type": "linear", "factor": 4.0}, 524_288, 524_288),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131_072, 131_072),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 65_536}, 262_144, 262_144),
        ({"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 65_536}, 131_072, 131_072),
        ({"rope_type": "longrope", "original_max_position_embeddings": 4096}, 131_072, 4096),
        ({"full_attention": {"rope_type": "linear", "factor": 2.0}}, 262_144, 262_144),
    ],
)
def test_how_long_a_request_may_be_follows_the_scaling_of_positions(
    scaling: dict[str, Any] | None, limit: int, usual: int, tmp_path: Path
) -> None:
    shape = shape_of(tmp_path / "scaled", {**configs.LLAMA_8B, "rope_scaling": scaling})
    assert (shape.length_limit, shape.usual_length) == (limit, usual)
    assert asked(shape, "0.19.0").max_len == usual
    for length, name in ((limit, None), (limit + 1, "max-model-len-above-model-limit")):
        one = asked(shape, "0.19.0", {"max-model-len": length})
        refused = refused_by_config(one.values, one.shape)
        assert (None if refused is None else refused.id) == name


@pytest.mark.parametrize(
    ("version", "card", "args", "name"),
    [
        ("0.19.0", "H100-80GB", {"max_num_seqs": 100_000}, FEW_TOKENS),
        ("0.32.0", "cpu-64GB", {"max_num_seqs": 100_000}, FEW_TOKENS),
        ("0.19.0", "H100-80GB", {"max_num_batched_tokens": 100}, None),
        ("0.19.0", "H100-80GB", {"max_num_batched_tokens": 1024, "enable_chunked_prefill": False}, SHORT_STEP),
        ("0.19.0", "H100-80GB", {"enable_chunked_prefill": False}, None),
        ("0.19.0", "H100-80GB", {"max_num_batched_tokens": 1024}, None),
        ("0.10.0", "H100-80GB", {"max_num_batched_tokens": 1024, "enable_chunked_prefill": False}, None),
        ("0.6.6", "H100-80GB", {"max_num_batched_tokens": 1024}, SHORT_STEP),
        ("0.6.6", "H100-80GB", {"max_num_batched_tokens": 1024, "enable_chunked_prefill": True}, None),
    ],
)
def test_sizes_of_a_step_that_contradict_each_other_as_the_release_fills_them_in(
    llama: ModelShape, version: str, card: str, args: dict[str, Any], name: str | None
) -> None:
    assert stopped_by(memory_of(llama, version, card, max_model_len=4096, **args)) == name


def test_a_model_that_caches_nothing_needs_no_pool(tmp_path: Path) -> None:
    encoder = shape_of(tmp_path / "bert", configs.BERT_BASE)
    memory = memory_of(encoder, "0.19.0", "T4-16GB", gpu_memory_utilization=0.1)
    assert stopped_by(memory) is None
    assert isinstance(memory.room, Unknown)


def test_a_cpu_plans_host_memory(llama: ModelShape) -> None:
    args: dict[str, Any] = {"max_model_len": 8192}
    fixed = memory_of(llama, "0.32.0", "cpu-64GB", env={"VLLM_CPU_KVCACHE_SPACE": "4"}, **args)
    assert stopped_by(fixed) is None
    assert not isinstance(fixed.room, Unknown)
    assert (fixed.room.block_size, fixed.room.blocks) == (128, 4 * 2**30 // (128 * 131_072))
    share = memory_of(llama, "0.32.0", "cpu-64GB", gpu_memory_utilization=0.5, **args)
    assert not isinstance(share.kv_pool, Unknown)
    assert share.kv_pool.value == pytest.approx(32 - 15.0 - 1.2, abs=0.3)
    default = memory_of(llama, "0.11.2", "cpu-64GB", **args)
    assert not isinstance(default.kv_pool, Unknown)
    assert default.kv_pool.value == 4.0
    big = memory_of(llama, "0.32.0", "cpu-64GB", env={"VLLM_CPU_KVCACHE_SPACE": "60"}, **args)
    assert stopped_by(big) == "kv-cache-bytes-exceed-memory"
    assert stopped_by(memory_of(llama, "0.32.0", "cpu-12GB", **args)) == "host-ram-exhausted"
    assert NOBODY.said() == ""
