"""The warm process with a stand-in for vLLM: loads are forked, and none is lost when it cannot or will not go on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.child import process_tree
from engine_probe.engine import Engine
from engine_probe.requests import Request
from engine_probe.supervisor import Probe
from tests.stand_in.probing import (
    STAND_IN,
    BareKeeper,
    StandInLaunch,
    collect,
    free_port,
    held,
    is_gone,
    load_to_end,
    of_kind,
    only,
    request_then_stop,
    texts,
    until,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(60)


def engine(importing: str = "", title: str = "") -> Engine:
    env = {"STAND_IN_IMPORT": importing, "STAND_IN_TITLE": title, "PYTHONPATH": STAND_IN}
    return Engine((sys.executable,), sys.executable, "the test", env=env)


def warm_pid(keeper_pid: int) -> int:
    children = [p.pid for p in process_tree.read_all().values() if p.ppid == keeper_pid]
    return next(pid for pid in children if "--warm" in words_of(pid))


def words_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


async def test_a_warm_load_is_served_answers_and_ends_clean() -> None:
    events = await collect("serve", request_then_stop, grade="warm", engine=engine())
    assert only(events, ev.Warmed).vllm_version == "0.0.stand-in"
    assert only(events, ev.Started).grade == "warm"
    assert only(events, ev.RequestAnswered).text == "hello"
    assert only(events, ev.Ended).left_behind == []


async def test_one_warm_process_serves_load_after_load_with_their_own_exit_codes() -> None:
    async with Probe(engine()) as probe:
        first = await load_to_end(probe, StandInLaunch("traceback", free_port()), grade="warm")
        second = await load_to_end(probe, StandInLaunch("die-by-signal", free_port()), grade="warm")
    assert only(first, ev.Failed).exit_code == 1
    assert only(first, ev.Failed).exceptions[0]["type"] == "ValueError"
    assert only(second, ev.Failed).signal == "SIGSEGV"
    assert not of_kind(second, ev.Warming)


async def test_a_large_order_reaches_the_fork_whole() -> None:
    large = {f"LARGE_{number}": "x" * 100_000 for number in range(5)} | {"LARGE": "y" * 100_000}
    events = await collect("tell", grade="warm", engine=engine(), env=large)
    assert texts(events)[0].startswith("told 100000 ")


async def test_an_own_temporary_folder_is_kept(tmp_path: Path) -> None:
    events = await collect("tell", grade="warm", engine=engine(), env={"TMPDIR": str(tmp_path)})
    assert texts(events)[0].endswith(f" {tmp_path}")


async def test_what_cannot_be_imported_is_the_loads_own_failure() -> None:
    events = await collect("serve", grade="warm", engine=engine("fail"))
    assert only(events, ev.Failed).reason == "vLLM cannot be imported: ImportError: libcudart.so.99: no such file"
    assert only(events, ev.Trouble).fatal


async def test_loads_that_wait_for_a_warm_process_that_dies_fail_once_each_and_the_next_gets_another() -> None:
    async with Probe(engine("wait")) as probe:
        for name in ("a", "b"):
            await probe.load(StandInLaunch("serve", free_port(), name), "warm")  # type: ignore[arg-type]
        seen: list[ev.Event] = []
        async for event in probe.events():
            seen.append(event)
            if isinstance(event, ev.Warming):
                os.kill(warm_pid(only(seen, ev.ProbeStarted).pid), signal.SIGKILL)
            if len(of_kind(seen, ev.Ended)) == 2:
                break
        assert [event.reason for event in of_kind(seen, ev.Failed)] == ["the warm process ended"] * 2
        assert not of_kind(seen, ev.Started)
        await probe.load(StandInLaunch("serve", free_port(), "c"), "warm")  # type: ignore[arg-type]
        again = [event async for event in first_of(probe, ev.Warming)]
    assert not of_kind(again, ev.Failed)


async def test_a_load_that_is_stopped_while_it_waits_ends_without_failure() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        return probe.stop("m") if isinstance(event, ev.Warming) else None

    events = await collect("serve", react, grade="warm", engine=engine("wait"))
    assert only(events, ev.Ended)
    assert not of_kind(events, ev.Failed)


async def test_a_load_that_is_stopped_while_it_is_forked_is_ended_when_it_comes() -> None:
    """The warm process stands still after the hand-over, so the stop arrives before the pid does."""

    async def stop_between(probe: Probe) -> None:
        pid = warm_pid(only(seen, ev.ProbeStarted).pid)
        os.kill(pid, signal.SIGSTOP)
        await probe.load(StandInLaunch("hang", free_port(), "m"), "warm")  # type: ignore[arg-type]
        await probe.stop("m")
        await probe.request("m", Request("r1", "/health"))

    seen: list[ev.Event] = []
    async with Probe(engine()) as probe:
        await probe.warm((StandInLaunch("hang", 0),))  # type: ignore[arg-type]
        async for event in probe.events():
            seen.append(event)
            if isinstance(event, ev.Warmed):
                await stop_between(probe)
            if isinstance(event, ev.RequestAnswered):  # so the stop has been obeyed
                os.kill(warm_pid(only(seen, ev.ProbeStarted).pid), signal.SIGCONT)
            if isinstance(event, ev.Ended):
                break
    started = only(seen, ev.Started)
    assert only(seen, ev.Ended).left_behind == []
    assert not of_kind(seen, ev.Failed)
    assert is_gone(started.pid)


@pytest.mark.parametrize("victim", ["keeper", "warm process"])
async def test_killing_what_is_above_a_warm_load_leaves_nothing(victim: str) -> None:
    """setproctitle overwrites the mark in the environment: the fork must be found without it."""
    seen: list[ev.Event] = []

    def react(probe: Probe, event: ev.Event) -> object:
        seen.append(event)
        if isinstance(event, ev.Ready):
            keeper = only(seen, ev.ProbeStarted).pid
            os.kill(keeper if victim == "keeper" else warm_pid(keeper), signal.SIGKILL)
            return probe.stop("m") if victim != "keeper" else None
        return None

    await collect("tree", react, grade="warm", engine=engine(title="set"))
    pid, segment = held(seen)
    root = only(seen, ev.Started).pid
    await until(lambda: is_gone(pid) and is_gone(root) and not segment.exists())


async def test_a_keeper_that_dies_between_fork_and_report_leaves_no_load() -> None:
    """The order is in the warm process's channel when the keeper dies."""
    with BareKeeper() as keeper:
        pid = only(keeper.up_to(ev.ProbeStarted), ev.ProbeStarted).pid
        keeper.order(do="warm", model_dirs=[], env={"PYTHONPATH": STAND_IN})
        keeper.up_to(ev.Warmed)
        warm, archive = warm_pid(pid), words_of(pid)[1]
        os.kill(warm, signal.SIGSTOP)
        keeper.load("hang", grade="warm")
        keeper.order(do="request", model="m", id="r1", path="/")
        keeper.up_to(ev.RequestAnswered)
        os.kill(pid, signal.SIGKILL)
        os.kill(warm, signal.SIGCONT)
        assert not of_kind(list(keeper.events()), ev.Started)  # the end of the pipe comes after the clean-up
    assert is_gone(warm)
    assert not [other for other in process_tree.read_all() if archive in words_of(other)]
    assert not Path(archive).parent.exists()


async def test_a_warm_load_ends_with_the_keeper_even_without_its_watchdog(tmp_path: Path) -> None:
    """Nobody is left to remove the private folder, so it is made where the test's own things are."""
    with BareKeeper(temp_folder=tmp_path) as keeper:
        pid = only(keeper.up_to(ev.ProbeStarted), ev.ProbeStarted).pid
        keeper.load("hang", grade="warm")
        root = only(keeper.up_to(ev.Text), ev.Started).pid
        children = {p.pid for p in process_tree.read_all().values() if p.ppid == pid}
        [watchdog] = children - {root, warm_pid(pid)}
        os.kill(watchdog, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: is_gone(root))


async def first_of(probe: Probe, kind: type[ev.Event]) -> AsyncIterator[ev.Event]:
    async for event in probe.events():
        yield event
        if isinstance(event, kind):
            return
