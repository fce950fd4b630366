"""Playbooks of the families quantization and dependency on logs of their own making, and the facts they compute."""

from __future__ import annotations

import pytest

from engine_probe.facts import Fact, Known, Unknown, Value
from engine_probe.launch import Launch
from playbooks.facts import lookup_for


def fact(name: str, args: dict[str, object] | None, known: dict[str, Value]) -> object:
    """The value of `name`, or the reason why it is unknown. `args` None: the launch is not known."""
    launch = None if args is None else Launch("chat", "/models/chat", args)  # type: ignore[arg-type]
    facts: dict[str, Fact] = {key: Known(value, "parsed", "a test") for key, value in known.items()}
    answer = lookup_for(launch, facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


FITS = "parallel.tensor_size_that_fits"
EIGHT: dict[str, object] = {"tensor-parallel-size": 8}


@pytest.mark.parametrize(
    ("args", "known", "size"),
    [
        # 768 = 96 x 8 and blocks of 128: 6, 3, 2 and 1 divide it, but 32 heads only leave 2
        (EIGHT, {"shard_width": 96, "shard_multiple": 128, "model.num_attention_heads": 32}, 2),
        # heads unknown: only what divides the present size is safe
        (EIGHT, {"shard_width": 96, "shard_multiple": 128}, 2),
        (EIGHT, {"shard_width": 192, "shard_multiple": 128}, 4),
        # 29,568 / 4 is no multiple of 128, nor are its halves: 29,568 = 231 x 128
        ({"tensor-parallel-size": 4}, {"shard_width": 7392, "shard_multiple": 128}, 1),
        # config.json alone: 28 heads, 4 KV heads
        ({"tensor-parallel-size": 3}, {"model.num_attention_heads": 28, "model.num_kv_heads": 4}, 2),
        ({"tensor-parallel-size": 6}, {"model.num_attention_heads": 32}, 4),
        # KV heads are copied where there are more ranks than heads
        (EIGHT, {"model.num_attention_heads": 32, "model.num_kv_heads": 2}, 8),
        (EIGHT, {"model.num_attention_heads": 48, "model.num_kv_heads": 6}, 6),
        # groups of 128 in 18,944: 148 groups
        (EIGHT, {"model.num_attention_heads": 32, "model.intermediate_size": 18944, "model.quant_group_size": 128}, 4),
        # channel-wise: no groups
        (EIGHT, {"model.num_attention_heads": 32, "model.intermediate_size": 18944, "model.quant_group_size": -1}, 8),
        # no more than there are GPUs
        (EIGHT, {"model.num_attention_heads": 32, "gpu.count": 4}, 4),
    ],
)
def test_the_largest_tensor_parallel_size_that_fits(
    args: dict[str, object], known: dict[str, Value], size: int
) -> None:
    assert fact(FITS, args, known) == size


def test_no_tensor_parallel_size_is_made_up() -> None:
    assert fact(FITS, {}, {}) == "neither config.json nor the message says what must be divided"
    wanted = "no tensor-parallel size divides width of the layer in the message 10944 into 128s, not even 1"
    assert fact(FITS, {}, {"shard_width": 10944, "shard_multiple": 128}) == wanted
    assert "launch.tensor_parallel_size is unknown" in str(fact("parallel.tensor_size_now", None, {}))


def test_gpus_of_a_launch() -> None:
    assert fact("parallel.gpus_of_launch", {"tensor-parallel-size": 4, "pipeline-parallel-size": 2}, {}) == 8
    assert fact("parallel.gpus_of_launch", {}, {}) == 1


@pytest.mark.parametrize(("version", "number"), [("0.32.0", 32), ("0.6.6.post1", 6), ("v0.5.5", 5), ("1.2.0", 102)])
def test_the_release_as_a_number(version: str, number: int) -> None:
    assert fact("engine.release_number", {}, {"engine.vllm_version": version}) == number


def test_an_unknown_release_has_no_number() -> None:
    assert str(fact("engine.release_number", {}, {})).startswith("vLLM's release is unknown")
    assert fact("engine.release_number", {}, {"engine.vllm_version": "dev"}) == "vLLM's release is not known"


@pytest.mark.parametrize(
    ("supported", "own", "works"),
    [
        ("torch.float16", "bfloat16", "float16"),
        ("torch.float16, torch.bfloat16", "float32", "float16"),
        ("torch.float16, torch.bfloat16", "bfloat16", "bfloat16"),
        ("torch.bfloat16", "", "bfloat16"),
        ("torch.half, torch.int8", "", "the message names no type that vLLM can compute in: torch.half, torch.int8"),
    ],
)
def test_the_type_that_a_method_takes(supported: str, own: str, works: str) -> None:
    known: dict[str, Value] = {"supported_dtypes": supported, "model.dtype": own}
    assert fact("quantization.dtype_that_works", {}, known) == works
