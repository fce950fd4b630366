"""The way out of a run: what a signal ends says nothing of a model, and a second signal still ends in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.launch import Deployment, Launch
from engine_probe.probe_run import ProbeRun
from playbooks.context import new_session, read_context
from playbooks.decisions import Begin, Decision, Stop
from playbooks.replay import drive
from tests.stand_in.probing import is_gone
from tui.commands.interrupts import Interrupts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from engine_probe.requests import Request

DEPLOYMENT = Deployment((Launch("m", "org/m"),))


class ScriptedProbe:
    """Tells `told` and keeps what it was asked."""

    def __init__(self, told: list[ev.Event]) -> None:
        self.told = told
        self.asked: list[str] = []

    async def load(self, launch: Launch, grade: str) -> None:
        self.asked.append(f"load {launch.name}")

    async def request(self, model: str, request: Request) -> None:
        self.asked.append(f"request {model}")

    async def stop(self, model: str, reason: str | None = None) -> None:
        self.asked.append(f"stop {model}")

    def give_up_if_silent(self) -> None:
        self.asked.append("give up if silent")

    async def events(self) -> AsyncIterator[ev.Event]:
        for event in self.told:
            yield event


@pytest.mark.parametrize("cut_off", [ev.Failed("m", reason="lost"), ev.RequestAnswered("m", id="1", error="ended")])
async def test_what_is_cut_off_by_a_stop_is_no_failure(cut_off: ev.Event) -> None:
    probe = ScriptedProbe([ev.Started("m"), cut_off, ev.Ended("m")])
    run = ProbeRun(probe, DEPLOYMENT, "cold")  # type: ignore[arg-type]
    async for event in run.events():
        if isinstance(event, ev.Started):
            await run.stop()
    assert run.failed == []
    assert probe.asked == ["load m", "give up if silent", "stop m"]


async def test_a_failure_before_the_stop_is_one() -> None:
    run = ProbeRun(ScriptedProbe([ev.Failed("m", reason="x"), ev.Ended("m")]), DEPLOYMENT, "cold")  # type: ignore[arg-type]
    assert [event.event async for event in run.events()] == ["failed", "ended"]
    assert run.failed == ["m"]


def test_a_second_signal_ends_with_the_code_of_the_first() -> None:
    async def command() -> None:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGTERM)
            await interrupts.wait()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(SystemExit) as leave:
        asyncio.run(command())
    assert leave.value.code == 128 + signal.SIGTERM


async def test_a_stop_overtakes_a_flood_of_output() -> None:
    lines = [ev.Text("m", line=f"line {number}") for number in range(20_000)]
    probe = ScriptedProbe([ev.Started("m"), *lines, ev.Ended("m")])
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    seen: list[int] = []

    def on_change(_session: object, event: ev.Event | None) -> None:
        if isinstance(event, ev.Text):
            seen.append(1)
        if len(seen) == 500 and isinstance(event, ev.Text):
            decisions.put_nowait(Stop())
        if "stop m" in probe.asked:
            raise StopSeenError

    with pytest.raises(StopSeenError):
        await drive(new_session("c", DEPLOYMENT, "cold", "cold"), probe, decisions, on_change, context=read_context())
    assert len(seen) < 1_000


class StopSeenError(Exception):
    """The stop has reached the probe."""


LEAVING = """
import asyncio, sys
from engine_probe import events as ev
from engine_probe.engine import local_engine
from engine_probe.supervisor import Probe
from tests.stand_in.probing import StandInLaunch, free_port
from tui.commands.interrupts import run_to_end

async def main():
    async with Probe(local_engine(sys.executable, "the test")) as probe:
        await probe.load(StandInLaunch("tree", free_port()), "cold")
        try:
            async for event in probe.events():
                if isinstance(event, ev.Ready):
                    print(probe.pid, flush=True)
        except asyncio.CancelledError:
            print("first", flush=True)
            raise

run_to_end(main())
"""


@pytest.mark.timeout(120)
def test_after_further_interrupts_nothing_of_a_probe_lives_on() -> None:
    """Though its load takes its time to end: it does not hear the polite signal."""
    argv = [sys.executable, "-c", LEAVING]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as console:
        assert console.stdout is not None
        keeper = int(console.stdout.readline())
        console.send_signal(signal.SIGINT)
        assert console.stdout.readline() == "first\n"
        for _ in range(4):
            console.send_signal(signal.SIGINT)
            time.sleep(0.01)  # at different moments of its way out
        console.wait()
        assert is_gone(keeper)
