"""The probe with a real vLLM: a load that fails and the one that works, warm in one probe; one cold; one dry."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.child import process_tree
from engine_probe.launch import ArgValue, Launch
from engine_probe.requests import Request
from engine_probe.supervisor import Probe
from playbooks.lab.tiny_model import write_tiny_llama
from tests.stand_in.probing import free_port, of_kind, only

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_llama(tmp_path_factory.mktemp("tiny") / "m"))


def launch(model: str, **more: int) -> Launch:
    """96 MiB of KV cache hold 1,408 tokens and no more of this model on CPU."""
    args: dict[str, ArgValue] = {"enforce-eager": True, "kv-cache-memory-bytes": "96M", "port": free_port()}
    return Launch(
        "tiny", model, args={**args, **{name.replace("_", "-"): value for name, value in more.items()}}, env=ENV
    )


async def follow(probe: Probe, react: Callable[[ev.Event], object] = lambda _: None) -> list[ev.Event]:
    seen: list[ev.Event] = []
    async for event in probe.events():
        seen.append(event)
        if (answer := react(event)) is not None:
            await answer  # type: ignore[misc]
        if isinstance(event, ev.Ended):
            return seen
    raise AssertionError("the probe ended first")


def ask_at_full_length(probe: Probe) -> Callable[[ev.Event], object]:
    def react(event: ev.Event) -> object:
        if isinstance(event, ev.Ready):
            body = {"model": event.served_models[0], "prompt": [70] * 1400, "max_tokens": 8, "ignore_eos": True}
            return probe.request("tiny", Request("full", "/v1/completions", body, timeout_s=120.0))
        return probe.stop("tiny") if isinstance(event, ev.RequestAnswered) else None

    return react


def held_segments(events: list[ev.Event]) -> set[Path]:
    """What the load's living processes have below /dev/shm, by its last sample."""
    rows = of_kind(events, ev.MemorySample)[-1].processes
    return {Path(path) for row in rows for path in process_tree.shm_paths(row["pid"])}


def assert_served_at_full_length(events: list[ev.Event]) -> None:
    assert only(events, ev.Ready).max_model_len == 1408
    answer = only(events, ev.RequestAnswered)
    assert (answer.status, answer.error) == (200, None)
    assert (answer.prompt_tokens or 0) + (answer.completion_tokens or 0) == 1408
    assert not of_kind(events, ev.Failed)
    assert only(events, ev.Ended).left_behind == []


def assert_text_from_byte_0(events: list[ev.Event]) -> None:
    """Every byte has its line, nothing is lost before or between. vLLM ends lines of long messages with CR LF."""
    lines = of_kind(events, ev.Text)
    assert lines[0].offset == 0
    for one, following in pairwise(lines):
        assert following.offset - one.offset - len(one.line.encode()) in (1, 2)


async def test_a_warm_load_that_fails_and_the_one_that_works_in_one_probe(engine: Engine, model: str) -> None:
    async with Probe(engine) as probe:
        await probe.warm((launch(model),))
        await probe.load(launch(model), "warm")
        failing = await follow(probe)
        await probe.load(launch(model, max_model_len=1408), "warm")
        working = await follow(probe, ask_at_full_length(probe))
        ends = [only(events, ev.Ended) for events in (failing, working)]
    assert_fails_for_want_of_cache(failing)
    assert_served_at_full_length(working)
    for events in (failing, working):
        assert only(events, ev.Started).grade == "warm"
        assert_text_from_byte_0(events)
    printed = [Path(path) for end in ends for path in end.removed_shm]
    assert not [path for path in printed if path.exists()]


def assert_fails_for_want_of_cache(events: list[ev.Event]) -> None:
    failed = only(events, ev.Failed)
    innermost = failed.exceptions[0]
    assert innermost["type"] == "ValueError"
    assert "4096" in innermost["message"]
    assert "1408" in innermost["message"]
    stages = [event.stage for event in of_kind(events, ev.StageEntered)]
    assert (stages[0], stages[-1]) == ("config", "memory_planning")
    assert of_kind(events, ev.StageLeft)[-1].completed is False
    assert only(events, ev.Ended).left_behind == []
    assert any(event.logger.startswith("vllm.") and event.exception for event in of_kind(events, ev.LogRecord))


async def test_a_dry_load_says_what_vllm_makes_of_the_arguments(engine: Engine, model: str) -> None:
    async with Probe(engine) as probe:
        await probe.load(launch(model), "dry")
        events = await follow(probe)
    built = only(events, ev.ConfigBuilt)
    assert (built.facts["max_model_len"], built.facts["architectures"]) == (4096, "['LlamaForCausalLM']")
    assert not of_kind(events, ev.Failed)
    assert "max-model-len" in only(events, ev.Warmed).flags


async def test_a_cold_load_serves_and_leaves_no_shared_memory(engine: Engine, model: str) -> None:
    seen: list[ev.Event] = []
    held: set[Path] = set()
    async with Probe(engine) as probe:
        await probe.load(launch(model, max_model_len=1408), "cold")
        ask = ask_at_full_length(probe)

        def react(event: ev.Event) -> object:
            seen.append(event)
            if isinstance(event, ev.RequestAnswered):
                held.update(held_segments(seen))
            return ask(event)

        await follow(probe, react)
    assert_served_at_full_length(seen)
    assert_text_from_byte_0(seen)
    assert only(seen, ev.Started).grade == "cold"
    assert held, "vLLM's processes talk through shared memory"
    assert not [path for path in held if path.exists()]
