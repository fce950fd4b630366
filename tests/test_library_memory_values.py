"""The values that the fixes of memory and LoRA causes come with."""

# ruff: noqa: E501 - a line of a log is as long as it is

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.launch import Deployment
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.library import load_library
from playbooks.offers import offers_of
from tests.memory_logs import LOADING, NO_BLOCKS, diagnosed, failed, free, oom, v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.covers import Wrappers
    from playbooks.library import Loaded


@pytest.fixture(scope="module")
def library() -> Sequence[Loaded]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


V0_SUM = (
    "INFO 10-11 07:11:00 worker.py:163] Memory profiling takes 7.75 seconds\n"
    "INFO 10-11 07:11:00 worker.py:163] the current vLLM instance can use total_gpu_memory (12.00GiB) x gpu_memory_utilization (0.72) = 8.64GiB\n"
    "INFO 10-11 07:11:00 worker.py:163] model weights take 7.81GiB; the rest of the memory reserved for KV Cache is -0.66GiB.\n"
    f"{NO_BLOCKS}\n"
)
CPU_SHARE = (
    "ValueError: Available memory on node 0 (7.6/10.96 GiB) on kv cache allocation is less than requested memory for kv "
    "(-0.25/0.22 GiB). Reduce CPU memory used by other processes.\n"
)
VALUES = (
    (free(27.18, 47.38, 0.92), "", "ask-for-what-is-free", 0.57),
    (free(22.61, 24.0, 0.96), "--gpu-memory-utilization 0.96", "ask-for-what-is-free", 0.94),
    (V0_SUM, "--gpu-memory-utilization 0.72", "grant-what-is-missing", 0.86),
    (CPU_SHARE, "--gpu-memory-utilization 0.02", "grant-what-is-missing", 0.14),
    (
        v1(
            "0.8.5",
            LOADING,
            failed(oom("Process 99 has 17.9 GiB memory in use. Process 100 has 4.80 GiB memory in use. ", "4.20 GiB")),
        ),
        "",
        "ask-for-what-is-free",
        0.23,
    ),
    ("ValueError: LoRA rank 60 is greater than max_lora_rank 16.", "--enable-lora", "allow-this-rank", 64),
    ("ValueError: max_cpu_loras (2) must be >= max_loras (4).", "--enable-lora", "as-many-on-the-host", 4),
)


@pytest.mark.parametrize(("log", "arguments", "fix", "value"), VALUES)
def test_the_first_cause_offers_the_value(
    log: str, arguments: str, fix: str, value: float, library: Sequence[Loaded], covers: Wrappers
) -> None:
    first = diagnosed(log, library, covers, f"vllm serve acme/m-7b {arguments}").causes[0]
    offer = next(one for one in offers_of(first) if one.id == fix)
    assert offer.unavailable is None
    assert list(offer.set.values()) == [pytest.approx(value)]


def test_on_the_cpu_backend_no_fix_takes_most_of_the_host(library: Sequence[Loaded], covers: Wrappers) -> None:
    log = (
        "ValueError: Available memory on node 0 (7.61/10.96 GiB) on startup is less than desired CPU memory utilization "
        "(0.92, 10.09 GiB).\n"
    )
    offers = [one for one in offers_of(diagnosed(log, library, covers).causes[0]) if one.unavailable is None]
    assert [one.id for one in offers] == ["a-small-cpu-pool", "a-smaller-share-of-the-host", "stop-what-holds-it"]
    assert offers[1].set == {"args.gpu-memory-utilization": 0.34}


def test_conditions_of_the_launch_decide(library: Sequence[Loaded], covers: Wrappers) -> None:
    """A fixed pool excludes the share."""
    launch = replace(parse_command("vllm serve acme/m-7b"), env={"VLLM_CPU_KVCACHE_SPACE": "0"})
    causes = diagnose(read_text([NO_BLOCKS]), library, covers, Given("load.log", Evidence(launch))).causes
    assert causes[0].cause.id == "kv-cache-size-zero"
    assert "utilization-too-low-for-weights" not in [one.cause.id for one in causes]


def test_a_deployment_tells_that_its_models_want_too_much_together(library: Sequence[Loaded], covers: Wrappers) -> None:
    chat, code = (
        replace(parse_command(f"vllm serve acme/{name} --gpu-memory-utilization 0.8"), name=name, gpus=(0,))
        for name in ("chat", "code")
    )
    evidence = Evidence(code, Deployment(models=(chat, code)))
    log = v1("0.13.0", failed(free(14.1, 79.2, 0.8, "")), serve="acme/code")
    first = diagnose(read_text([log]), library, covers, Given("code.log", evidence)).causes[0]
    assert first.cause.id == "co-located-models-budgets-exceed-gpu"
    offers = {offer.id: offer for offer in offers_of(first)}
    steps = [(step.launch, step.set) for step in offers["share-the-card-alike"].steps]
    assert steps == [(name, {"args.gpu-memory-utilization": 0.47}) for name in ("chat", "code")]
    assert offers["share-the-card"].set == {"args.gpu-memory-utilization": 0.15}
