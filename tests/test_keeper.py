"""The child against processes that behave badly: what it reports, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from engine_probe import events as ev
from engine_probe.engine import local_engine
from engine_probe.requests import Request
from engine_probe.supervisor import Limits, Probe
from tests.stand_in.probing import (
    StandInLaunch,
    collect,
    free_port,
    held,
    is_gone,
    only,
    request_then_stop,
    texts,
    until,
)

pytestmark = pytest.mark.timeout(60)


async def test_a_served_model_is_ready_answers_and_ends_clean() -> None:
    events = await collect("serve", request_then_stop)
    ready, answer, ended = only(events, ev.Ready), only(events, ev.RequestAnswered), only(events, ev.Ended)
    assert (ready.served_models, ready.max_model_len) == (["stand-in"], 64)
    assert (answer.status, answer.text, answer.prompt_tokens, answer.completion_tokens) == (200, "hello", 3, 2)
    assert ended.left_behind == []
    assert not any(isinstance(event, ev.Failed) for event in events)


async def test_a_refused_request_carries_the_server_s_own_words() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Ready):
            return probe.request("m", Request("r1", "/v1/completions", {"prompt": "refuse"}))
        return request_then_stop(probe, event)

    answer = only(await collect("serve", react), ev.RequestAnswered)
    assert (answer.status, answer.error) == (400, "too long")


async def test_a_tree_that_ignores_sigterm_and_left_its_session_is_gone_with_its_shared_memory() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Ended):  # and not only once the probe is closed
            assert is_gone(held(seen)[0])
        seen.append(event)
        return probe.stop("m") if isinstance(event, ev.Ready) else None

    seen: list[ev.Event] = []
    events = await collect("tree", react)
    pid, segment = held(events)
    ended = only(events, ev.Ended)
    assert pid in ended.killed_pids
    assert not segment.exists()  # by its resource tracker, which is given the time, else by the keeper
    assert ended.left_behind == []
    assert is_gone(pid)


async def test_the_signal_that_ended_a_process_is_named() -> None:
    failed = only(await collect("die-by-signal"), ev.Failed)
    assert (failed.signal, failed.exit_code) == ("SIGSEGV", None)
    assert failed.reason == "vllm was ended by SIGSEGV before it was ready"


async def test_a_printed_traceback_gives_the_chain_innermost_first() -> None:
    failed = only(await collect("traceback"), ev.Failed)
    assert failed.exit_code == 1
    assert [(one["type"], one["message"].splitlines()[0]) for one in failed.exceptions] == [
        ("ValueError", "the pool is too small"),
        ("RuntimeError", "Engine core initialization failed."),
    ]


async def test_any_bytes_are_lines_and_secrets_are_masked() -> None:
    lines = texts(await collect("garbage"))
    assert lines[0] == "\\xff\\xfe not utf-8"
    assert lines[1] == "\x1b[31mred\x1b[0m [bold]markup[/bold]"
    assert sum(len(line) for line in lines if set(line) == {"x"}) == 1_000_000
    assert not any("hf_abcdefghij" in line for line in lines)
    assert lines[-1] == "no line end"


async def test_silence_is_reported_as_hung_with_the_processes() -> None:
    def react(probe: Probe, event: ev.Event) -> object:
        return probe.stop("m", "no progress") if isinstance(event, ev.Hung) else None

    events = await collect("hang", react, Limits(hang_s=1.0))
    hung, failed = only(events, ev.Hung), only(events, ev.Failed)
    assert hung.silent_seconds >= 1.0
    assert [row["unavailable"] is None for row in hung.stacks] == [False]
    assert failed.reason == "no progress"


async def test_a_stage_that_outlasts_its_limit_is_given_up() -> None:
    failed = only(await collect("hang", limits=Limits(stage_s={"config": 0.5})), ev.Failed)
    assert failed.reason == "stage config took longer than its limit of 0.5 s"


async def test_a_taken_port_is_replaced_and_said_so() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        events = await collect("serve", request_then_stop, port=taken)
    started = only(events, ev.Started)
    assert started.port != taken
    assert started.notes == [f"port {taken} is in use: port {started.port} instead"]


async def test_a_taken_port_that_must_be_kept_fails_at_once() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        events = await collect("serve", port=taken, keep_port=True)
    assert only(events, ev.Failed).reason == f"port {taken} is in use"


@pytest.mark.parametrize("victim", ["keeper", "load"])
async def test_a_killed_keeper_or_load_leaves_nothing(victim: str) -> None:
    killed: list[int] = []

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.ProbeStarted) and victim == "keeper":
            killed.append(event.pid)
        if isinstance(event, ev.Started) and victim == "load":
            killed.append(event.pid)
        if isinstance(event, ev.Ready):
            os.kill(killed[0], signal.SIGKILL)
        return None

    events = await collect("tree", react)
    pid, segment = held(events)
    if victim == "load":
        assert only(events, ev.Failed).signal == "SIGKILL"
    else:
        assert any(isinstance(event, ev.Trouble) and event.fatal for event in events)
    await until(lambda: is_gone(pid) and not segment.exists())


async def test_an_engine_that_is_no_python_is_one_fatal_trouble() -> None:
    engine = local_engine("/bin/true", "the test")
    async with Probe(engine) as probe:
        await probe.load(StandInLaunch("serve", free_port()), "cold")  # type: ignore[arg-type]
        events = [event async for event in probe.events()]
    assert any(isinstance(event, ev.Failed) for event in events)
