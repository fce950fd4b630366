"""Drives a probe, or the keeper alone, against the stand-in."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine_probe import events as ev
from engine_probe.child import process_tree
from engine_probe.child.bootstrap import CODE
from engine_probe.child_archive import child_archive
from engine_probe.engine import Engine, local_engine
from engine_probe.requests import Request
from engine_probe.supervisor import Limits, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STAND_IN = str(Path(__file__).parent)
E = TypeVar("E", bound=ev.Event)


@dataclass(frozen=True)
class StandInLaunch:
    """What the supervisor asks of a launch, for a program that is not vLLM."""

    behaviour: str
    port: int
    name: str = "m"
    model: str = "stand-in"
    env: dict[str, str] = field(default_factory=dict)

    def argv(self) -> list[str]:
        return ["python", "-m", "stand_in_server", self.behaviour, "--port", str(self.port)]

    def child_env(self) -> dict[str, str]:
        return {"PYTHONPATH": STAND_IN, **self.env}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def collect(
    behaviour: str,
    react: Callable[[Probe, ev.Event], object] | None = None,
    limits: Limits | None = None,
    port: int | None = None,
    keep_port: bool = False,
    grade: str = "cold",
    engine: Engine | None = None,
    env: dict[str, str] | None = None,
) -> list[ev.Event]:
    """All events of one load until it has ended; `react` may answer an event with an order."""
    launch = StandInLaunch(behaviour, port or free_port(), env=env or {})
    async with Probe(engine or local_engine(sys.executable, "the test"), limits=limits, keep_port=keep_port) as probe:
        return await load_to_end(probe, launch, react, grade)


async def load_to_end(
    probe: Probe,
    launch: StandInLaunch,
    react: Callable[[Probe, ev.Event], object] | None = None,
    grade: str = "cold",
) -> list[ev.Event]:
    """All events until this load has ended."""
    seen: list[ev.Event] = []
    await probe.load(launch, grade)  # type: ignore[arg-type]
    async for event in probe.events():
        seen.append(event)
        answer = react(probe, event) if react is not None else None
        if asyncio.iscoroutine(answer):
            await answer
        if isinstance(event, ev.Ended) and event.model == launch.name:
            break
    return seen


def request_then_stop(probe: Probe, event: ev.Event) -> object:
    if isinstance(event, ev.Ready):
        return probe.request("m", Request("r1", "/v1/completions", {"prompt": "x"}))
    if isinstance(event, ev.RequestAnswered):
        return probe.stop("m")
    return None


def of_kind(events: Sequence[ev.Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def only(events: Sequence[ev.Event], kind: type[E]) -> E:
    found = of_kind(events, kind)
    assert len(found) == 1, f"{len(found)} {kind.__name__} in {[e.event for e in events]}"
    return found[0]


def texts(events: Sequence[ev.Event]) -> list[str]:
    return [event.line for event in of_kind(events, ev.Text)]


def held(events: Sequence[ev.Event]) -> tuple[int, Path]:
    """The pid and the shared memory of the stubborn grandchild."""
    _, segment, pid = next(line for line in texts(events) if line.startswith("holding")).split()
    return int(pid), Path("/dev/shm", segment)


def is_gone(pid: int) -> bool:
    """Ended: whether init has already taken note of it is not ours."""
    process = process_tree.read_one(pid)
    return process is None or not process.is_living


async def until(holds: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "still not so after the deadline"
        await asyncio.sleep(0.02)


class BareKeeper:
    """The child without a supervisor: orders as bytes, events as they come. Use as a context manager."""

    def __init__(self, temp_folder: Path | None = None) -> None:
        archive = child_archive()
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(len(archive))],
            env=os.environ if temp_folder is None else {**os.environ, "TMPDIR": str(temp_folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.write(archive)

    def __enter__(self) -> BareKeeper:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait()

    def write(self, content: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(content)
        self.process.stdin.flush()

    def order(self, **order: Any) -> None:
        self.write(json.dumps(order).encode() + b"\n")

    def load(self, behaviour: str, name: str = "m", **changes: Any) -> None:
        launch = StandInLaunch(behaviour, free_port())
        env = {**launch.child_env(), **changes.pop("env", {})}
        order = {
            "do": "load",
            "model": name,
            "argv": launch.argv(),
            "env": env,
            "cwd": str(Path.cwd()),
            "grade": "cold",
        }
        self.order(**{**order, **changes})

    def events(self) -> Iterator[ev.Event]:
        assert self.process.stdout is not None
        return (ev.decode(line.decode()) for line in self.process.stdout)

    def up_to(self, kind: type[ev.Event]) -> list[ev.Event]:
        """All events until the next of this kind, which comes last."""
        seen: list[ev.Event] = []
        for event in self.events():
            seen.append(event)
            if isinstance(event, kind):
                return seen
        raise AssertionError(f"no {kind.__name__} in {[e.event for e in seen]}")


def wait_for(path: Path, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
