"""vLLM's accounting release by release, against sums made by hand; defaults, graphs, samplers, pools."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.errors import InputError
from engine_probe.facts import Unknown
from engine_probe.launch import Launch
from engine_probe.memory.accounting_rules import newer_than_known, outside_of, rules_of
from engine_probe.memory.accounting_values import batch_of, capture_sizes, values_of
from engine_probe.memory.estimates import exact
from engine_probe.memory.limits import Neighbours
from tests import memory_configs as configs
from tests.memory_plans import asked, memory_of, shape_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.model import ModelShape

RELEASES = tuple(
    "0.5.5 0.6.4 0.7.3 0.8.5 0.9.0 0.10.2 0.12.0 0.17.1 0.19.0 0.21.0 0.25.1 0.27.0 0.33.0".split()  # noqa: SIM905 -- one line
)


@pytest.fixture
def llama(tmp_path: Path) -> ModelShape:
    return shape_of(tmp_path / "llama", configs.LLAMA_8B)


def known(amount: Amount) -> float:
    assert not isinstance(amount, Unknown)
    return amount.value


def in_budget(memory: RankMemory) -> float:
    """What is neither weights nor pool."""
    return memory.budget.value - known(memory.parts.weights) - known(memory.kv_pool)


# Llama-3.1-8B with 8192 tokens on an H100 (79.19 GiB), by hand:
#   forward: 8192 x 2 x 3 x (14336 + 4096) / 2^30 + 0.08 = 0.924; hidden states: 8192 x 4096 x 2 / 2^30 = 0.0625
#   a byte of the sampler: 1024 x 128256 / 2^30 = 0.12231
#   estimated graphs: -0.078 + 0.493 + 40 x 512 x 4096 x 2 / 2^30 + 32 x 512 x 32 x 128 x 4 / 2^30 = 0.821
@pytest.mark.parametrize(
    ("version", "share", "activation", "rest"),
    [
        ("0.7.3", 0.9, 0.924 + 0.2, 0.13),
        ("0.8.5", 0.9, 38.4 * 0.12231 + 0.0625, 0.13 + 0.51),
        ("0.10.2", 0.9, 38.4 * 0.12231 + 0.0625, 0.13),
        ("0.12.0", 0.9, 38.4 * 0.12231 + 0.0625, 0.13),
        ("0.17.1", 0.9, 14.75 * 0.12231 + 0.0625, 0.13),
        ("0.19.0", 0.9, 14.75 * 0.12231 + 0.0625, 0.25),
        ("0.21.0", 0.92, 14.75 * 0.12231 + 0.0625, 0.25 + 0.821),
        ("0.33.0", 0.92, 0.924, 0.25 + 0.821),
    ],
)
def test_the_pool_is_the_share_less_what_this_release_takes_off(
    llama: ModelShape, version: str, share: float, activation: float, rest: float
) -> None:
    memory = memory_of(llama, version, max_model_len=8192)
    assert memory.budget.value == pytest.approx(share * 79.19)
    assert memory.parts.activation.value == pytest.approx(activation, abs=0.002)
    assert in_budget(memory) == pytest.approx(activation + rest, abs=0.003)
    assert known(memory.parts.weights) == pytest.approx(14.99, abs=0.02)
    assert memory.why_not is None


def test_the_printed_start_of_a_known_model_is_met(llama: ModelShape) -> None:
    """vLLM 0.19.0 on an H100 at 0.95: "Available KV cache memory: 58.11 GiB", 476,016 tokens, 58.11 at once."""
    memory = memory_of(llama, "0.19.0", max_model_len=8192, gpu_memory_utilization=0.95)
    assert known(memory.kv_pool) == pytest.approx(58.11, abs=0.05)
    assert not isinstance(memory.room, Unknown)
    assert memory.room.tokens == pytest.approx(476_016, rel=0.001)
    assert memory.room.concurrency == pytest.approx(58.11, abs=0.06)
    assert memory.room.bytes_per_token == 131_072


@pytest.mark.parametrize("version", [*RELEASES, None])
@pytest.mark.parametrize("card", ["H100-80GB", "L4-24GB", "FOO-48GB", "B200-192GB", "GB10-128GB", "T4-16GB"])
@pytest.mark.parametrize("tp", [1, 2])
def test_every_release_on_every_card_gives_ranges_around_its_values(
    llama: ModelShape, version: str | None, card: str, tp: int
) -> None:
    memory = memory_of(llama, version, card, max_model_len=2048, tensor_parallel_size=tp)
    amounts = [getattr(memory.parts, name) for name in memory.parts.__dataclass_fields__]
    for amount in [*amounts, memory.budget, memory.kv_pool]:
        assert amount.low <= amount.value <= amount.high
        assert amount.source


def test_an_unknown_release_covers_the_known_ones_and_says_so(llama: ModelShape) -> None:
    unknown = memory_of(llama, None, max_model_len=8192)
    for version in RELEASES:
        one = memory_of(llama, version, max_model_len=8192).kv_pool
        assert not isinstance(one, Unknown)
        assert not isinstance(unknown.kv_pool, Unknown)
        assert unknown.kv_pool.low <= one.low
        assert one.high <= unknown.kv_pool.high
    assert "unknown release" in unknown.rules
    assert unknown.utilization == 0.92


def test_a_release_after_the_last_row_counts_as_the_newest_in_wider_ranges(llama: ModelShape) -> None:
    assert rules_of("7.0.0")[:1] == rules_of("0.33.0")
    newest, later = (memory_of(llama, version, max_model_len=8192).kv_pool for version in ("0.33.0", "0.34.0"))
    assert not isinstance(newest, Unknown)
    assert not isinstance(later, Unknown)
    assert later.value == newest.value
    assert later.low < newest.low - 1
    assert later.high >= newest.high


@pytest.mark.parametrize(("version", "is_newer"), [("1.9.0", True), ("0.34.0", True), ("0.33.9", False), (None, False)])
def test_a_release_that_nobody_has_read_is_said(version: str | None, is_newer: bool) -> None:
    said = newer_than_known(version)
    assert (said is not None) is is_newer
    assert said is None or f"vLLM {version} is newer than all that is known here" in said


def test_rows_follow_one_another_without_gaps_and_name_their_evidence() -> None:
    rows = list(reversed(rules_of(None)))
    for before, after in pairwise(rows):
        assert before.until == after.first
    assert all(row.evidence for row in rows)
    for row in rows:
        for family in ("hopper", "ampere", "unknown"):
            for kind in ("one", "tp", "tp-moe", "pp"):
                assert outside_of(row, family, kind).context.value > 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "v1", "engine"),
    [
        ("0.7.3", None, "V0"),
        ("0.7.3", True, "V1"),
        ("0.8.5", None, "V1"),
        ("0.8.5", False, "V0"),
        ("0.12.0", False, "V1"),
    ],
)
def test_both_engines_of_a_release(version: str, v1: bool | None, engine: str) -> None:
    (rules,) = rules_of(version, v1)
    assert rules.engine == engine


@pytest.mark.parametrize(
    ("version", "total_gib", "a100", "expected"),
    [
        ("0.19.0", 79.19, False, (1024, 8192)),
        ("0.19.0", 79.25, True, (256, 2048)),
        ("0.8.5", 79.25, True, (1024, 8192)),
        ("0.19.0", 44.4, False, (256, 2048)),
        ("0.19.0", 178.4, False, (1024, 8192)),
        ("0.33.0", 178.4, False, (1024, 16384)),
        ("0.7.3", 79.19, False, (256, 4096)),
    ],
)
def test_batches_are_as_big_as_the_release_makes_them_on_the_card(
    version: str, total_gib: float, a100: bool, expected: tuple[int, int]
) -> None:
    (rules,) = rules_of(version)
    batch = batch_of(values_of(Launch("m", "m")), rules, 4096, total_gib, counts_as_a100=a100)
    assert (batch.seqs, batch.tokens) == expected


def test_what_the_launch_sets_goes_before_defaults() -> None:
    (rules,) = rules_of("0.19.0")
    values = values_of(Launch("m", "m", args={"max-num-seqs": 32, "max-num-batched-tokens": 512}))
    batch = batch_of(values, rules, 4096, 79.19, counts_as_a100=False)
    assert (batch.seqs, batch.tokens, batch.source) == (32, 512, "declared: the launch")
    few = batch_of(values_of(Launch("m", "m", args={"max-num-seqs": 2})), rules, 1000, 79.19, counts_as_a100=False)
    assert few.tokens == 2000


def sizes(llama: ModelShape, version: str, **args: Any) -> tuple[int, int, int]:
    (rules,) = rules_of(version)
    values = values_of(Launch("m", "m", args=args))
    return capture_sizes(values, rules, batch_of(values, rules, 8192, 79.19, counts_as_a100=False), llama)


def test_sizes_of_graphs_are_those_that_vllm_prints(llama: ModelShape) -> None:
    assert sizes(llama, "0.19.0") == (51, 51, 512)
    assert sizes(llama, "0.19.0", max_num_seqs=16) == (7, 5, 32)
    assert sizes(llama, "0.19.0", enforce_eager=True) == (0, 0, 0)
    assert sizes(llama, "0.19.0", compilation_config='{"cudagraph_mode":"NONE"}') == (0, 0, 0)
    assert sizes(llama, "0.19.0", compilation_config='{"max_cudagraph_capture_size":64}') == (11, 11, 64)
    assert sizes(llama, "0.19.0", compilation_config='{"cudagraph_capture_sizes":[1,2,4]}')[:2] == (3, 3)
    assert sizes(llama, "0.10.2")[0] == 67
    assert sizes(llama, "0.7.3") == (35, 0, 256)


def test_an_eager_start_has_no_graphs(llama: ModelShape) -> None:
    assert memory_of(llama, "0.21.0", enforce_eager=True, max_model_len=8192).parts.graphs.high == 0
    assert memory_of(llama, "0.21.0", enforce_eager=True, max_model_len=8192).parts.graphs_in_budget.high == 0


@pytest.mark.parametrize(
    ("version", "switch", "is_inside"),
    [
        ("0.19.0", None, False),
        ("0.19.0", "1", True),
        ("0.21.0", None, True),
        ("0.21.0", "0", False),
        ("0.12.0", "1", False),
    ],
)
def test_graphs_are_inside_the_budget_by_release_or_by_switch(
    llama: ModelShape, version: str, switch: str | None, is_inside: bool
) -> None:
    env = {} if switch is None else {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": switch}
    parts = memory_of(llama, version, env=env, max_model_len=8192).parts
    assert (parts.graphs_in_budget.value > 0) is is_inside
    assert parts.graphs.value == pytest.approx(0.93, abs=0.02)


def test_a_smaller_sampler_is_taken_where_the_launch_asks_for_it(llama: ModelShape) -> None:
    env = {"VLLM_USE_FLASHINFER_SAMPLER": "1"}
    assert memory_of(llama, "0.12.0", env=env, max_model_len=8192).parts.activation.value == pytest.approx(
        1.867, abs=0.002
    )


def test_float32_takes_wider_logits_and_twice_the_weights(llama: ModelShape) -> None:
    """Printed by 0.19.0: 29.98 GiB of weights, 2.21 GiB of activations."""
    parts = memory_of(llama, "0.19.0", max_model_len=8192, dtype="float32").parts
    assert known(parts.weights) == pytest.approx(29.98, abs=0.03)
    assert parts.activation.value == pytest.approx(2.21, abs=0.05)


def test_a_mixture_of_experts_keeps_a_workspace(tmp_path: Path) -> None:
    """By hand: 8192 tokens x 6 experts x (2816 + 1408) x 2 bytes + 8192 x 2048 x 2 bytes = 0.418 GiB."""
    shape = shape_of(tmp_path / "moe", configs.DEEPSEEK_V2_LITE)
    activation = memory_of(shape, "0.19.0", max_model_len=8192).parts.activation.value
    assert activation == pytest.approx(14.75 * 1024 * 102400 / 2**30 + 0.03125 + 0.418, abs=0.002)


def test_only_the_last_stage_samples(llama: ModelShape) -> None:
    """Printed by 0.19.0 with two stages: 1.10 and 2.01 GiB."""
    first, last = (
        memory_of(llama, "0.19.0", rank=rank, max_model_len=8192, pipeline_parallel_size=2) for rank in (0, 1)
    )
    assert first.parts.sampler.value == 0
    assert first.parts.activation.value < last.parts.activation.value
    assert first.parts.non_torch.value == 0.07


def test_neighbours_are_taken_off_by_releases_that_count_all_that_is_used(llama: ModelShape) -> None:
    near = Neighbours(exact(10.0, "a test"))
    for version, taken_off in (("0.6.4", 10), ("0.7.3", 0), ("0.8.5", 10), ("0.10.2", 0), ("0.19.0", 0)):
        alone, beside = (memory_of(llama, version, near=one, max_model_len=2048, gpu_memory_utilization=0.5)
                         for one in (Neighbours(exact(0.0, "a test")), near))  # fmt: skip
        assert known(alone.kv_pool) - known(beside.kv_pool) == pytest.approx(taken_off), version


def test_room_for_adapters_and_offloaded_weights(llama: ModelShape) -> None:
    plain = known(memory_of(llama, "0.19.0", max_model_len=8192).parts.weights)
    adapters = memory_of(llama, "0.19.0", max_model_len=8192, enable_lora=True, max_loras=3, max_lora_rank=64).parts
    assert plain + 0.3 < known(adapters.weights) < plain + 2
    assert "3 adapters" in getattr(adapters.weights, "source", "")
    offloaded = memory_of(llama, "0.19.0", max_model_len=8192, cpu_offload_gb=5).parts
    assert known(offloaded.weights) == pytest.approx(plain - 5, abs=0.05)


def test_what_is_not_modelled_is_said(llama: ModelShape) -> None:
    args = {"speculative-config": '{"method":"ngram","num_speculative_tokens":3}', "load-format": "bitsandbytes"}
    notes = asked(llama, "0.19.0", args).values.notes
    assert any("speculative decoding" in note for note in notes)
    assert any("--load-format" in note for note in notes)
    assert asked(llama, "0.19.0", {"load-format": "dummy"}).values.notes == ()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"tensor-parallel-size": "four"}, "tensor-parallel-size is 'four'; a whole number"),
        ({"tensor-parallel-size": 0}, "a whole number from 1 on"),
        ({"tensor-parallel-size": 10**9}, "at most 4096"),
        ({"gpu-memory-utilization": 1.2}, "a share above 0 and at most 1"),
        ({"gpu-memory-utilization": float("nan")}, "a number from 0 on"),
        ({"max-model-len": -3}, "a whole number from 1 on"),
        ({"max-num-seqs": 10**12}, "at most 2,147,483,647"),
        ({"kv-cache-memory-bytes": 10**30}, "at most 1,125,899,906,842,624"),
        ({"swap-space": float("inf")}, "swap-space is 'inf'; a number up to"),
        ({"max-logprobs": 10**20}, "max-logprobs is"),
        ({"max-logprobs": 1.5}, "max-logprobs is '1.5'; a whole number is wanted"),
        ({"compilation-config": "{bad"}, "JSON is wanted"),
    ],
)
def test_a_bad_value_is_one_clear_error(args: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        values_of(Launch("chat", "m", args=args))


@pytest.mark.parametrize(("name", "value"), [("VLLM_CPU_KVCACHE_SPACE", "many"), ("VLLM_PP_LAYER_PARTITION", "1;2")])
def test_a_bad_variable_is_one_clear_error(name: str, value: str) -> None:
    with pytest.raises(InputError, match=name):
        values_of(Launch("chat", "m", env={name: value}))
