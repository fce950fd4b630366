"""What a plan predicts of the KV cache is what a real vLLM prints: blocks of every worker, tokens, requests at once.

Not among the models: caches in int8, nvfp4 and the like, which the CPU backend refuses, and blocks that are no multiple
of 32, which it takes and then fails on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.engine_version import engine_version
from engine_probe.facts import Unknown
from engine_probe.launch import Deployment, Launch
from engine_probe.logs.stages import read_wordings
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.read_model import read_model
from engine_probe.supervisor import Probe
from playbooks.placement import PlacedModel, plan_of
from tests.stand_in.probing import free_port
from tests.tiny_checkpoints import write_checkpoint
from tests.tiny_plans import CASES, NO_CACHE, TOO_SMALL, Case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine_probe.engine import Engine
    from engine_probe.facts import Value
    from engine_probe.launch import ArgValue
    from engine_probe.logs.stages import Wordings
    from engine_probe.memory.accounting_kv import Room

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]  # the first load of a family takes the engine 15 s more
_ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


@dataclass
class Loaded:
    """`blocks`: as each worker printed them. `error`: of a load that failed."""

    planned: PlacedModel
    facts: dict[str, Value] = field(default_factory=dict)
    blocks: list[Value] = field(default_factory=list)
    is_ready: bool = False
    error: str = ""

    @property
    def room(self) -> Room:
        assert self.planned.worst is not None
        assert not isinstance(self.planned.worst.room, Unknown), self.planned.worst.room.reason
        return self.planned.worst.room


@pytest.fixture(scope="module")
def loaded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Loaded]:
    """All of them, in one warm process."""
    return asyncio.run(load_all(engine, tmp_path_factory.mktemp("models"), (*CASES, NO_CACHE, TOO_SMALL)))


async def load_all(engine: Engine, folder: Path, cases: Sequence[Case]) -> dict[str, Loaded]:
    """Two at a time: much of a family's first load is one process that inspects its class."""
    version = engine_version(engine)
    assert version is not None
    launches: dict[str, Launch] = {}
    found: dict[str, Loaded] = {}
    for number, case in enumerate(cases):
        launch, planned = planned_launch(case, folder / str(number), version.version)
        launches[launch.name], found[launch.name] = launch, Loaded(planned)
    wordings, waiting, open_now = read_wordings(), list(launches.values()), 0
    async with Probe(engine) as probe:
        for _ in range(2):
            await probe.load(waiting.pop(0), "warm")
            open_now += 1
        async for event in probe.events():
            if event.model is None:
                continue
            take(found[event.model], event, wordings)
            if isinstance(event, ev.Ready):
                await probe.stop(event.model)
            if isinstance(event, ev.Ended):
                open_now -= 1
                if waiting:
                    await probe.load(waiting.pop(0), "warm")
                    open_now += 1
            if open_now == 0:
                break
    return found


def planned_launch(case: Case, folder: Path, version: str) -> tuple[Launch, PlacedModel]:
    """The launch then asks for the blocks that were planned: vLLM says so, and how many it would have taken itself."""
    args: dict[str, ArgValue] = {"enforce-eager": True, "kv-cache-memory-bytes": "16M", "port": free_port()}
    path = write_checkpoint(folder, case.config, case.shapes)
    launch = Launch(case.name, str(path), args={**args, **case.args}, env={**_ENV, **case.env})
    deployment = Deployment(models=(launch,))
    planned = plan_of(deployment, {case.name: read_model(path)}, parse_gpus("cpu-64GB"), version).models[0]
    if planned.worst is None or isinstance(planned.worst.room, Unknown):
        return launch, planned
    blocks = min(memory.room.blocks for memory in planned.ranks.values() if not isinstance(memory.room, Unknown))
    return replace(launch, args={**launch.args, "num-gpu-blocks-override": blocks}), planned


def take(one: Loaded, event: ev.Event, wordings: Wordings) -> None:
    if isinstance(event, ev.LogRecord):
        told = wordings.facts_in(event.message)
        one.facts |= told
        one.blocks += [told["kv.blocks"]] if "kv.blocks" in told else []
    if isinstance(event, ev.Ready):
        one.is_ready = True
    if isinstance(event, ev.Failed):
        one.error = event.exceptions[0]["message"] if event.exceptions else event.reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cache_is_as_printed(loaded: Mapping[str, Loaded], case: Case) -> None:
    one = loaded[case.name]
    assert not one.error
    assert one.planned.fits
    assert min(map(int, one.blocks)) == one.room.blocks
    assert one.facts["kv.tokens"] == one.room.tokens
    assert one.facts["kv.max_concurrency"] == round(one.room.concurrency, 2)
    assert one.is_ready


def test_an_encoder_keeps_no_cache(loaded: Mapping[str, Loaded]) -> None:
    one = loaded[NO_CACHE.name]
    assert one.is_ready
    assert one.planned.fits
    assert one.planned.worst is not None
    assert not one.planned.worst.caches_anything
    assert "kv.tokens" not in one.facts


def test_a_pool_too_small_is_refused_with_the_length_that_fits(loaded: Mapping[str, Loaded]) -> None:
    one = loaded[TOO_SMALL.name]
    assert one.planned.why_not is not None
    assert one.planned.why_not.id == "kv-cache-too-small-for-max-model-len"
    assert f"the estimated maximum model length is {one.room.longest}." in one.error
    assert f"{one.room.longest} tokens would fit" in one.planned.why_not.text
