"""The console's side: no load and no request is left without an end, and no secret passes."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine_probe import events as ev
from engine_probe.child_archive import child_archive
from engine_probe.engine import EngineError, local_engine
from engine_probe.following import Following, Limits
from engine_probe.logs.stage_tracker import StageTracker
from engine_probe.logs.stages import Wordings
from engine_probe.masking import masked
from engine_probe.requests import Request
from engine_probe.supervisor import Probe
from tests.stand_in.probing import (
    StandInLaunch,
    collect,
    free_port,
    is_gone,
    load_to_end,
    of_kind,
    only,
    request_then_stop,
    until,
)

pytestmark = pytest.mark.timeout(60)
SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
ENGINE = local_engine(sys.executable, "the test")


def old_python() -> str | None:
    """A Python 3.9 or 3.10 that really runs: a version manager's shim may only complain."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in ("3.9", "3.10"):
        found = [shutil.which(f"python{version}"), *map(str, root.glob(f"versions/{version}.*/bin/python{version}"))]
        for python in filter(None, found):
            if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
                return python
    return None


async def test_the_child_runs_on_the_oldest_python() -> None:
    python = old_python()
    if python is None:
        pytest.skip("no Python 3.9 or 3.10 was found")
    events = await collect("serve", request_then_stop, engine=local_engine(python, "the test"))
    assert only(events, ev.ProbeStarted).python_version.rpartition(".")[0] in ("3.9", "3.10")
    assert only(events, ev.RequestAnswered).text == "hello"
    assert only(events, ev.Ended).left_behind == []
    hung = await collect(
        "hang",
        lambda probe, event: probe.stop("m", "hung") if isinstance(event, ev.Hung) else None,
        Limits(hang_s=0.5),
        engine=local_engine(python, "the test"),
    )
    assert only(hung, ev.Failed).reason == "hung"


async def test_an_engine_that_cannot_be_started_is_an_engine_error() -> None:
    with pytest.raises(EngineError, match="/nowhere/python cannot be started: "):
        async with Probe(local_engine("/nowhere/python", "the test")):
            pass


async def test_a_probe_that_is_left_at_once_leaves_its_events_ended() -> None:
    async with Probe(ENGINE) as probe:
        pass
    await probe.aclose()
    assert not of_kind([event async for event in probe.events()], ev.Trouble)
    assert [event async for event in probe.events()] == []


async def test_a_name_is_loaded_once_at_a_time() -> None:
    async with Probe(ENGINE) as probe:
        await probe.load(StandInLaunch("hang", free_port()), "cold")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"^m is loaded already$"):
            await probe.load(StandInLaunch("hang", free_port()), "cold")  # type: ignore[arg-type]
        await probe.stop("m")
        async for event in probe.events():
            if isinstance(event, ev.Ended):
                break
        events = await load_to_end(probe, StandInLaunch("traceback", free_port()))
    assert only(events, ev.Failed).exit_code == 1


async def test_a_keeper_that_dies_leaves_no_request_and_no_load_without_an_end() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        seen.append(event)
        if isinstance(event, ev.Ready):
            return probe.request("m", Request("r1", "/v1/completions", {"prompt": "never"}))
        if isinstance(event, ev.Text):
            os.kill(only(seen, ev.ProbeStarted).pid, signal.SIGKILL)
        return None

    seen: list[ev.Event] = []
    async with Probe(ENGINE) as probe:
        await load_to_end(probe, StandInLaunch("serve", free_port()), react)
        assert [event async for event in probe.events()] == []
        with pytest.raises(EngineError, match=r"has ended$"):
            await probe.load(StandInLaunch("serve", free_port()), "cold")  # type: ignore[arg-type]
    assert [event.event for event in seen if event.event in ("request_answered", "failed", "ended")] == [
        "request_answered",
        "failed",
        "ended",
    ]
    assert only(seen, ev.RequestAnswered).error == only(seen, ev.Failed).reason
    assert is_gone(only(seen, ev.Started).pid)


async def test_leaving_a_probe_by_cancellation_waits_until_nothing_is_left() -> None:
    """Also when the cancellation is repeated while the probe is being left."""
    held: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def load() -> None:
        async with Probe(ENGINE) as probe:
            await probe.load(StandInLaunch("tree", free_port()), "cold")  # type: ignore[arg-type]
            async for event in probe.events():
                if isinstance(event, ev.Text):
                    held.set_result(int(event.line.split()[2]))

    task = asyncio.create_task(load())
    pid = await held
    task.cancel()
    await asyncio.wait([task], timeout=0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(pid)


async def test_a_request_to_an_unknown_model_is_answered() -> None:
    async with Probe(ENGINE) as probe:
        await probe.request("nobody", Request("r1", "/health"))
        async for event in probe.events():
            if isinstance(event, ev.RequestAnswered):
                assert event.error == "nobody is not loaded"
                break


def test_secrets_are_masked_however_deep_they_are() -> None:
    row = {"pid": 1, "name": f"vllm serve m --api-key {SECRET}"}
    for event in (
        ev.Text("m", line=f"token {SECRET}"),
        ev.LogRecord("m", message=SECRET, exception=[{"type": "E", "message": SECRET, "frames": []}]),
        ev.Started("m", argv=["vllm", "serve", "m", "--api-key", "plain words"], notes=[SECRET]),
        ev.MemorySample("m", processes=[row]),
        ev.Failed("m", reason=SECRET, processes=[row], exceptions=[{"message": SECRET}]),
        ev.Hung("m", stacks=[{"name": SECRET, "stack": [SECRET]}]),
        ev.ConfigBuilt("m", facts={"hf_token": SECRET, "dtype": "bfloat16"}),
        ev.RequestAnswered("m", text=SECRET, error=SECRET),
        ev.Trouble(text=SECRET),
    ):
        clean = ev.encode(masked(event))
        assert SECRET not in clean
        assert "plain words" not in clean
        assert "***" in clean


def test_an_event_without_secrets_is_the_same_event() -> None:
    event = ev.Started("m", argv=["vllm", "serve", "a b"], notes=["port 1 is in use"])
    assert masked(event) is event


def test_a_limit_is_said_once_and_never_of_a_model_that_serves() -> None:
    following = Following("m", StageTracker(Wordings(()), "m"), Limits(load_s=10.0, stage_s={"config": 5.0}), 100.0)
    following.take(ev.Started("m"), now=103.0)
    assert following.give_up(108.0) is None
    assert following.give_up(108.5) == "stage config took longer than its limit of 5 s"
    assert following.give_up(200.0) is None
    ready = Following("m", StageTracker(Wordings(()), "m"), Limits(load_s=10.0), 100.0)
    ready.take(ev.Ready("m"), now=103.0)
    assert ready.give_up(200.0) is None


def test_the_archive_holds_the_child_and_events_only() -> None:
    names = zipfile.ZipFile(io.BytesIO(child_archive())).namelist()
    assert {"__main__.py", "engine_probe/events.py", "engine_probe/child/keeper.py"} <= set(names)
    assert not [name for name in names if "supervisor" in name]


async def test_a_consumer_that_is_slow_bounds_what_waits_and_loses_nothing() -> None:
    async with Probe(ENGINE) as probe:
        await probe.load(StandInLaunch("chatter", free_port()), "cold")
        await until(lambda: probe._queue.qsize() >= 10_000)
        lines, most_waiting = [], 0
        async for event in probe.events():
            most_waiting = max(most_waiting, probe._queue.qsize())
            if isinstance(event, ev.Text):
                lines.append(event.line)
            if isinstance(event, ev.Ended):
                break
    assert most_waiting < 11_000
    assert lines == [f"line {number}" for number in range(60_000)]


async def test_a_probe_can_be_left_while_much_is_waiting() -> None:
    async with Probe(ENGINE) as probe:
        await probe.load(StandInLaunch("chatter", free_port()), "cold")
        await until(lambda: probe._queue.qsize() >= 10_000)
    assert isinstance([event async for event in probe.events()][-1], ev.Ended)
