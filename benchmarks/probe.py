"""How long a load takes: `vllm serve` by itself, through the cold probe, and through the warm probe.

    python benchmarks/probe.py [--pairs 7] [--engine ENGINE] [--json]

In every round each way runs once, in turning order, on the same tiny model with the same arguments, so that
ratios hold where the machine's speed drifts. Measured from the start of the process until /health answers 200
(the cold probe's time includes the console's own start); for the warm probe from the order to load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe import events as ev
from engine_probe.child.surroundings import command
from engine_probe.engines import choose_engine
from engine_probe.launch import Launch
from engine_probe.supervisor import Probe
from playbooks.lab.tiny_model import write_tiny_llama

if TYPE_CHECKING:
    from engine_probe.engine import Engine

ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
ARGS = {"enforce-eager": True, "kv-cache-memory-bytes": "96M", "max-model-len": 1408, "port": 18123}
GIVE_UP_S = 300.0


@dataclass(frozen=True)
class Round:
    bare_seconds: float
    cold_seconds: float
    warm_seconds: float


def bare(engine: Engine, launch: Launch) -> float:
    """`vllm serve` as a user runs it, until /health is 200."""
    script = Path(engine.python).with_name("vllm")
    argv = [str(script), *launch.argv()[1:]] if script.exists() else command(launch.argv())
    began = time.monotonic()
    process = subprocess.Popen(
        argv,
        env={**os.environ, **launch.child_env()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not healthy(int(str(launch.arg("port")))):
            if process.poll() is not None or time.monotonic() - began > GIVE_UP_S:
                raise SystemExit(f"vllm serve did not start: {launch.command()}")
            time.sleep(0.02)
        return time.monotonic() - began
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def cold(engine: Engine, launch: Launch) -> float:
    """The same through `vllm-console probe`, from its start until its `ready` event is read."""
    env = {**os.environ, **launch.child_env()}
    words = ["probe", "--json", "--yes", "--engine", engine.label, "--", *launch.argv()]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tui.cli", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    ready_seconds = None
    for line in process.stdout:
        if json.loads(line)["event"] == "ready":
            ready_seconds = time.monotonic() - began
    process.wait()
    if ready_seconds is None:
        raise SystemExit("the cold probe did not get ready")
    return ready_seconds


async def warm_load(probe: Probe, events: EventQueue, launch: Launch) -> float:
    """One more load from the warm process."""
    began = time.monotonic()
    await probe.load(launch, "warm")
    await events.until(ev.Ready)
    seconds = time.monotonic() - began
    await probe.stop(launch.name)
    await events.until(ev.Ended)
    return seconds


class EventQueue:
    """Reads a probe's events until one of a kind comes."""

    def __init__(self, probe: Probe) -> None:
        self._events = probe.events()

    async def until(self, kind: type[ev.Event]) -> ev.Event:
        async for event in self._events:
            if isinstance(event, kind):
                return event
            if isinstance(event, ev.Failed):
                raise SystemExit(f"a load failed: {event.reason}")
        raise SystemExit("the probe ended")


async def measure(engine: Engine, launch: Launch, pairs: int) -> tuple[float, list[Round]]:
    """(warm-up seconds, one Round a pair)."""
    async with Probe(engine) as probe:
        events = EventQueue(probe)
        await probe.warm((launch,))
        warmed = await events.until(ev.Warmed)
        assert isinstance(warmed, ev.Warmed)
        rounds = []
        for number in range(pairs):
            ways = [bare, cold] if number % 2 == 0 else [cold, bare]
            seconds = {way: await asyncio.to_thread(way, engine, launch) for way in ways}
            rounds.append(Round(seconds[bare], seconds[cold], await warm_load(probe, events, launch)))
            print(f"round {number + 1} of {pairs}: {rounds[-1]}", file=sys.stderr)
        return warmed.seconds, rounds


def summary(warm_up_seconds: float, rounds: list[Round]) -> dict[str, object]:
    cold_ratios = [one.cold_seconds / one.bare_seconds for one in rounds]
    warm_ratios = [one.bare_seconds / one.warm_seconds for one in rounds]
    return {
        "pairs": len(rounds),
        "bare_seconds": spread([one.bare_seconds for one in rounds]),
        "cold_probe_seconds": spread([one.cold_seconds for one in rounds]),
        "warm_probe_seconds": spread([one.warm_seconds for one in rounds]),
        "warm_up_seconds": round(warm_up_seconds, 2),
        "cold_over_bare": spread(cold_ratios),
        "bare_over_warm": spread(warm_ratios),
    }


def spread(values: list[float]) -> dict[str, float]:
    named = {"min": min(values), "median": statistics.median(values), "max": max(values)}
    return {name: round(value, 3) for name, value in named.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=7)
    options.add_argument("--engine")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    engine = choose_engine(chosen.engine)
    with tempfile.TemporaryDirectory(prefix="vllm-console-bench-") as folder:
        model = write_tiny_llama(Path(folder) / "tiny")
        launch = Launch("tiny", str(model), ARGS, ENV)
        result = summary(*asyncio.run(measure(engine, launch, chosen.pairs)))
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
