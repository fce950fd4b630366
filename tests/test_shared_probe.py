"""Sessions that follow each other on one probe hear nothing of each other and leave nothing to each other."""

from __future__ import annotations

import asyncio
import sys

import pytest

from engine_probe import events as ev
from engine_probe.engine import EngineError, local_engine
from engine_probe.hardware.descendants import descendants, is_of_the_probe
from engine_probe.load_conditions import LoadConditions
from engine_probe.requests import Request
from engine_probe.shared_probe import Lease, SharedProbe
from engine_probe.supervisor import Limits, Probe
from tests.stand_in.probing import StandInLaunch, free_port, until

pytestmark = pytest.mark.timeout(60)
ENGINE = local_engine(sys.executable, "the test")


async def up_to(lease: Lease, kind: type[ev.Event]) -> list[ev.Event]:
    seen = []
    async for event in lease.events():
        seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError(f"no {kind.__name__} in {[event.event for event in seen]}")


async def start(lease: Lease, behaviour: str = "serve") -> list[ev.Event]:
    await lease.load(StandInLaunch(behaviour, free_port()), "cold")  # type: ignore[arg-type]
    return await up_to(lease, ev.Ready if behaviour == "serve" else ev.Ended)


async def test_a_load_that_is_left_open_ends_before_the_next_session() -> None:
    async with Probe(ENGINE) as probe, SharedProbe(probe) as shared:
        async with shared.lease() as first:
            await start(first)
            await first.request("m", Request("r", "/v1/completions", {"prompt": "never"}))
        assert probe.pid is not None
        assert [one for one in descendants(probe.pid) if not is_of_the_probe(one)] == []
        async with shared.lease() as second:
            seen = await start(second)
            assert isinstance(seen[0], ev.Started)
            await second.stop("m")
            assert second.left_behind == first.left_behind == []
            rest = await up_to(second, ev.Ended)
        assert not [event for event in rest if isinstance(event, ev.RequestAnswered)]


async def test_a_session_that_stopped_reading_holds_nobody_up() -> None:
    async with Probe(ENGINE) as probe, SharedProbe(probe) as shared:
        with pytest.raises(KeyError):
            async with shared.lease() as first:
                await first.load(StandInLaunch("flood", free_port()), "cold")  # type: ignore[arg-type]
                await until(first._events.full)
                raise KeyError
        async with shared.lease() as second:
            await start(second)


async def test_conditions_and_limits_are_those_of_one_lease() -> None:
    async with Probe(ENGINE) as probe, SharedProbe(probe) as shared:
        under, limits = LoadConditions(rlimits={"NOFILE": 200}), Limits(hang_s=7.0)
        before = probe.limits
        async with shared.lease(under, limits):
            assert (probe.conditions, probe.limits) == (under, limits)
        assert (probe.conditions, probe.limits) == (LoadConditions(), before)


async def test_a_probe_that_is_gone_ends_its_lease_and_gives_no_other() -> None:
    async with Probe(ENGINE) as probe, SharedProbe(probe) as shared:
        async with shared.lease() as lease:
            await probe.aclose()
            assert [event async for event in lease.events() if isinstance(event, ev.Started)] == []
        await until(lambda: shared.is_lost)
        with pytest.raises(EngineError, match="has ended"):
            async with shared.lease():
                pass


async def test_each_session_hears_what_is_known_of_the_engine() -> None:
    async with Probe(ENGINE) as probe, SharedProbe(probe) as shared:
        probe._emit(ev.Warmed(seconds=9.0, vllm_version="0.0.1"))
        await until(lambda: shared._warmed is not None)
        for _ in range(2):
            async with shared.lease() as lease:
                told = await asyncio.wait_for(up_to(lease, ev.Warmed), 10)
                assert isinstance(told[-1], ev.Warmed)
                assert (told[-1].vllm_version, told[-1].seconds) == ("0.0.1", 0.0)
