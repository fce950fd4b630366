"""CPU backends release by release, and what a release's own defaults make of states and encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Unknown
from engine_probe.memory.estimates import exact
from engine_probe.memory.limits import Neighbours
from tests import memory_configs as configs
from tests.memory_plans import memory_of, shape_of
from tests.tiny_plans import JAMBA, MISTRAL, WHISPER

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.accounting_kv import Room
    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.model import ModelShape

SPACE = "VLLM_CPU_KVCACHE_SPACE"


@pytest.fixture
def llama(tmp_path: Path) -> ModelShape:
    return shape_of(tmp_path / "llama", configs.LLAMA_8B)


def room(memory: RankMemory) -> Room:
    assert not isinstance(memory.room, Unknown), memory.room.reason
    return memory.room


@pytest.mark.parametrize(
    ("version", "env", "pool"),
    [
        ("0.9.2", {}, 4.0),
        ("0.9.2", {SPACE: "0"}, 4.0),
        ("0.10.2", {SPACE: "0"}, 0.0),
        ("0.11.2", {}, 4.0),
        ("0.13.0", {}, 32.0),
        ("0.16.0", {SPACE: "7"}, 7.0),
        ("0.20.2", {SPACE: "7"}, 7.0),
        ("0.20.2", {}, 2.0),
        ("0.32.0", {SPACE: ""}, 2.0),
        ("0.32.0", {SPACE: "0"}, 0.0),
        (None, {}, 2.0),
    ],
)
def test_the_pool_of_a_host_of_64_gib_when_2_gib_are_asked_for(
    llama: ModelShape, version: str | None, env: dict[str, str], pool: float
) -> None:
    memory = memory_of(llama, version, "cpu-64GB", env=env, max_model_len=256, kv_cache_memory_bytes=2 << 30)
    assert not isinstance(memory.kv_pool, Unknown)
    assert memory.kv_pool.value == pool
    assert memory.pool_is_fixed


def test_a_step_is_no_larger_than_all_requests_together(llama: ModelShape) -> None:
    small = memory_of(llama, "0.32.0", "cpu-64GB", max_num_seqs=1, max_model_len=700)
    assert (small.batch.seqs, small.batch.tokens) == (1, 700)
    usual = memory_of(llama, "0.32.0", "cpu-64GB", tensor_parallel_size=2)
    assert (usual.batch.seqs, usual.batch.tokens) == (256, 4096)


def test_windows_keep_room_for_one_step_on_cpus_and_for_two_on_gpus(tmp_path: Path) -> None:
    shape = shape_of(tmp_path / "m", MISTRAL)
    args: dict[str, Any] = {"max_num_batched_tokens": 256, "num_gpu_blocks_override": 120, "block_size": 32}
    # a window of 100 less one, a step or two, in blocks of 32, and one more: 355 and 611 tokens, 13 and 21 blocks
    assert room(memory_of(shape, "0.32.0", "cpu-64GB", **args)).concurrency == 120 / 13
    assert room(memory_of(shape, "0.32.0", "1xL4-24GB", **args)).concurrency == 120 / 21


def test_latent_attention_has_blocks_of_16_on_cpus_whatever_is_asked(tmp_path: Path) -> None:
    shape = shape_of(tmp_path / "m", configs.DEEPSEEK_V2_LITE)
    assert room(memory_of(shape, "0.32.0", "cpu-64GB", block_size=64)).block_size == 16
    assert room(memory_of(shape, "0.32.0", "1xH100-80GB", block_size=64)).block_size == 64


@pytest.mark.parametrize(
    ("version", "args", "blocks"),
    [
        ("0.27.1", {}, 1),
        ("0.28.0", {}, 2),
        ("0.28.0", {"enable_prefix_caching": False}, 1),
        ("0.27.1", {"enable_prefix_caching": True}, 2),
    ],
)
def test_states_are_kept_for_prefixes_by_default_from_0_28_on(
    tmp_path: Path, version: str, args: dict[str, Any], blocks: int
) -> None:
    """Three groups of one layer of states, one with attention, of two blocks for 768 tokens."""
    shape = shape_of(tmp_path / "m", JAMBA)
    args = {
        "max_model_len": 768,
        "num_gpu_blocks_override": 100,
        "block_size": 384,
        "mamba_ssm_cache_dtype": "float32",
        **args,
    }
    assert room(memory_of(shape, version, "1xL4-24GB", **args)).concurrency == 100 / (2 + 3 * blocks)


@pytest.mark.parametrize(("version", "blocks"), [("0.11.2", 94), ("0.13.0", 128), ("0.33.0", 128)])
def test_what_is_kept_of_an_encoder_is_a_whole_step_from_0_13_on(tmp_path: Path, version: str, blocks: int) -> None:
    """28 blocks of 16 are the decoder's own 448 tokens; 94 hold 1,500, and 128 the 2,048 of a step."""
    shape = shape_of(tmp_path / "m", WHISPER)
    found = room(memory_of(shape, version, "1xL4-24GB", num_gpu_blocks_override=1000))
    assert found.concurrency == 1000 / (28 + blocks)


def test_all_ranks_share_the_hosts_memory(llama: ModelShape) -> None:
    """Each asks for 0.92 of it: one may, two may not."""
    args: dict[str, Any] = {"max_model_len": 8192}
    assert memory_of(llama, "0.32.0", "cpu-64GB", **args).why_not is None
    two = memory_of(llama, "0.32.0", "cpu-64GB", tensor_parallel_size=2, **args)
    assert two.why_not is not None
    assert two.why_not.id == "kv-cache-bytes-exceed-memory"
    assert "in each of 2 ranks, which share the host's memory" in two.why_not.text
    assert (
        memory_of(llama, "0.32.0", "cpu-64GB", tensor_parallel_size=2, gpu_memory_utilization=0.5, **args).why_not
        is None
    )
    small = memory_of(llama, "0.32.0", "cpu-14GB", tensor_parallel_size=2, env={SPACE: "1"}, **args)
    assert small.why_not is not None
    assert small.why_not.id == "host-ram-exhausted"


def test_the_share_must_be_free_at_the_start(llama: ModelShape) -> None:
    """v1/worker/cpu_worker.py, 0.32.0: looked at before anything is loaded; not where the size is set."""
    near = Neighbours(exact(10.0, "measured: a test"))
    share = memory_of(llama, "0.32.0", "cpu-64GB", near=near, max_model_len=8192)
    assert share.why_not is not None
    assert share.why_not.id == "utilization-exceeds-free-memory-at-startup"
    assert "58.9 GiB of host memory must be free at the start (0.92 x 64.0 GiB), and 54.0 are" in share.why_not.text
    assert memory_of(llama, "0.32.0", "cpu-64GB", near=near, max_model_len=8192, env={SPACE: "8"}).why_not is None
