"""How loads end: asked, by themselves, before they began, side by side; requests that are in flight meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.child.context import Context
from engine_probe.child.load import Load
from engine_probe.child.orders import LoadOrder
from engine_probe.child.sweep import Swept
from engine_probe.engine import local_engine
from engine_probe.requests import Request
from engine_probe.supervisor import Limits, Probe
from tests.stand_in.probing import (
    StandInLaunch,
    collect,
    free_port,
    held,
    is_gone,
    load_to_end,
    of_kind,
    only,
    texts,
    until,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)
ENGINE = local_engine(sys.executable, "the test")


async def test_a_request_in_flight_when_the_load_ends_is_answered_with_an_error_before_ended() -> None:
    async def ask_for_ever(probe: Probe) -> None:
        for number in ("r1", "r2"):
            await probe.request("m", Request(number, "/v1/completions", {"prompt": "never"}))

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Ready):
            return ask_for_ever(probe)
        if isinstance(event, ev.Text) and event.line == "asked":
            asked.append(event)
            return probe.stop("m") if len(asked) == 2 else None
        return None

    asked: list[ev.Event] = []
    events = await collect("serve", react)
    answers = of_kind(events, ev.RequestAnswered)
    assert sorted(answer.id for answer in answers) == ["r1", "r2"]
    assert all(answer.status is None and answer.error for answer in answers)
    assert isinstance(events[-1], ev.Ended)


async def test_a_request_before_the_model_is_ready_is_refused() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Started):
            return probe.request("m", Request("r1", "/health"))
        return probe.stop("m") if isinstance(event, ev.RequestAnswered) else None

    assert only(await collect("hang", react), ev.RequestAnswered).error == "the model is not ready"


async def test_a_load_stopped_twice_ends_once_and_is_no_failure() -> None:
    async def stop_twice(probe: Probe) -> None:
        await probe.stop("m")
        await probe.stop("m", "a second thought")

    events = await collect("hang", lambda probe, event: stop_twice(probe) if isinstance(event, ev.Text) else None)
    assert only(events, ev.Ended).left_behind == []
    assert not of_kind(events, ev.Failed)


async def test_a_load_that_was_suspended_is_ended_politely() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Text):
            os.kill(only(seen, ev.Started).pid, signal.SIGSTOP)
            return probe.stop("m")
        seen.append(event)
        return None

    seen: list[ev.Event] = []
    events = await collect("hang", react)
    ended = only(events, ev.Ended)
    assert (ended.killed_pids, ended.left_behind) == ([], [])
    assert is_gone(only(seen, ev.Started).pid)


@pytest.mark.parametrize("behaviour", ["shm", "unmapped-shm", "untracked-shm"])
async def test_shared_memory_of_a_server_that_dies_of_the_polite_signal_is_gone(behaviour: str) -> None:
    """It is stopped at once after it has made it: no scan has seen it."""

    def react(probe: Probe, event: ev.Event) -> object:
        return probe.stop("m") if isinstance(event, ev.Text) and "holding" in event.line else None

    events = await collect(behaviour, react)
    _, segment = held(events)
    assert only(events, ev.Ended).left_behind == []
    assert not segment.exists()


async def test_an_engine_that_cannot_be_started_fails_once() -> None:
    class Missing(StandInLaunch):
        def child_env(self) -> dict[str, str]:
            return {"A": "zero \0 byte"}

    async with Probe(ENGINE) as probe:
        events = await load_to_end(probe, Missing("serve", free_port()))
    assert only(events, ev.Failed).reason.startswith("vllm could not be started: ")
    assert isinstance(events[-1], ev.Ended)
    assert not of_kind(events, ev.Started)


async def test_a_taken_port_that_must_be_kept_says_no_more_than_failed_and_ended() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        events = await collect("serve", port=holder.getsockname()[1], keep_port=True)
    assert [event.event for event in events] == ["probe_started", "failed", "ended"]


async def test_two_loads_that_name_one_port_keep_it_for_that_is_a_fault_of_theirs() -> None:
    port = free_port()
    async with Probe(ENGINE) as probe:
        for name in ("a", "b"):
            await probe.load(StandInLaunch("hang", port, name), "cold")  # type: ignore[arg-type]
        started = {}
        async for event in probe.events():
            if isinstance(event, ev.Started):
                started[event.model] = event
            if len(started) == 2:
                break
    assert {one.port for one in started.values()} == {port}
    assert started["b"].notes == [f"port {port} is that of a too, and stays"]


async def test_another_server_on_the_port_is_not_taken_for_the_load() -> None:
    port, asked = free_port(), threading.Event()

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "a stranger"}]}')
            if self.path == "/v1/models":
                asked.set()

        def log_message(self, *_: object) -> None:
            pass

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Text):
            servers.append(HTTPServer(("127.0.0.1", port), Stranger))
            threading.Thread(target=servers[0].serve_forever).start()
        return probe.stop("m") if asked.is_set() else None

    servers: list[HTTPServer] = []
    try:
        assert not of_kind(await collect("hang", react, port=port), ev.Ready)
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


async def test_a_load_that_dies_while_another_is_ended_ends_with_its_own_code() -> None:
    async with Probe(ENGINE) as probe:
        for name, behaviour in (("a", "tree"), ("b", "hang")):
            await probe.load(StandInLaunch(behaviour, free_port(), name), "cold")  # type: ignore[arg-type]
        seen: list[ev.Event] = []
        async for event in probe.events():
            seen.append(event)
            if isinstance(event, ev.Ready):
                os.kill(next(e.pid for e in of_kind(seen, ev.Started) if e.model == "b"), signal.SIGKILL)
                await probe.stop("a")
            if len(of_kind(seen, ev.Ended)) == 2:
                break
    assert [event.signal for event in of_kind(seen, ev.Failed) if event.model == "b"] == ["SIGKILL"]
    assert is_gone(held(seen)[0])


async def test_a_load_that_ended_by_itself_is_a_failure_though_it_is_stopped_a_moment_later() -> None:
    async def kill_then_stop(probe: Probe) -> None:
        root = only(seen, ev.Started).pid
        os.kill(root, signal.SIGKILL)
        await until(lambda: is_gone(root))
        await probe.stop("m")

    def react(probe: Probe, event: ev.Event) -> object:
        seen.append(event)
        return kill_then_stop(probe) if isinstance(event, ev.Ready) else None

    seen: list[ev.Event] = []
    assert only(await collect("tree", react), ev.Failed).signal == "SIGKILL"


async def test_nothing_of_a_load_comes_after_its_end() -> None:
    async with Probe(ENGINE) as probe:
        await load_to_end(probe, StandInLaunch("traceback", free_port(), "first"))
        second = await load_to_end(probe, StandInLaunch("traceback", free_port(), "second"))
        await probe.aclose()
        second += [event async for event in probe.events()]
    assert {event.model for event in second} == {"second"}
    assert len(of_kind(second, ev.Ended)) == 1


async def test_offsets_count_every_byte() -> None:
    events = of_kind(await collect("garbage"), ev.Text)
    first = b"\xff\xfe not utf-8\n"
    assert [event.offset for event in events[:2]] == [0, len(first)]
    long = [event for event in events if set(event.line) == {"x"}]
    assert [b.offset - a.offset for a, b in pairwise(long)] == [len(e.line) for e in long[:-1]]
    assert events[-1].offset == len(
        first + b"\x1b[31mred\x1b[0m [bold]markup[/bold]\n" + b"x" * 1_000_000 + b"\n"
        b"token hf_abcdefghijklmnopqrstuvwxyz0123456789\nprogress 1\rprogress 2\n"
    )


async def test_a_hang_is_said_once() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        samples.extend([event] if isinstance(event, ev.MemorySample) else [])
        return probe.stop("m") if len(samples) == 5 else None

    samples: list[ev.Event] = []
    events = await collect("hang", react, Limits(hang_s=0.1))
    assert len(of_kind(events, ev.Hung)) == 1
    assert texts(events) == ["about to hang"]


def test_a_root_that_ended_before_its_pid_was_known_ends_the_load_with_its_code(tmp_path: Path) -> None:
    """A fork of the warm process may be over, and reaped, before the warm process has said its pid."""
    seen: list[ev.Event] = []
    context = Context(
        private_dir=str(tmp_path),
        emit=seen.append,
        post=lambda call: call(),
        sweep=lambda _select, _shm, _of_others: Swept(),
        collect_exits=lambda: None,
        claim_exit=lambda _pid: 3 << 8,
        watch_pipe=lambda _inode: None,
    )
    argv = ["vllm", "serve", "m", "--port", str(free_port())]
    order = LoadOrder("m", argv, {}, str(tmp_path), "cold", keep_port=False, hang_s=300.0, model_dirs=[])
    load = Load(order, 1, context)
    load.begun(2**22 + 1)
    load.tick(None, time.monotonic() + 10)
    load.close()
    assert only(seen, ev.Failed).exit_code == 3
    assert isinstance(seen[-1], ev.Ended)


async def test_a_server_that_says_it_has_started_and_whose_port_is_anothers_fails_soon() -> None:
    """Bound beside it before either listened: no error is told, and the health that answers is the other's."""
    with socket.socket() as other:

        def react(_probe: Probe, event: ev.Event) -> None:
            if isinstance(event, ev.Started):
                other.bind(("127.0.0.1", event.port))
                other.listen()

        events = await collect("deaf", react)
    failed = only(events, ev.Failed)
    port = only(events, ev.Started).port
    assert failed.reason == f"port {port} is another server's: this one has started and does not listen there"
    assert not of_kind(events, ev.Ready)
