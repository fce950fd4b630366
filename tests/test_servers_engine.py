"""The watch over real vLLM servers: two that load and serve under their names, and one whose API server is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from engine_probe.child.process_tree import shm_paths
from engine_probe.facts import Known
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.servers import ServerWatch
from engine_probe.stage_names import STAGES
from playbooks.lab.tiny_model import write_tiny_llama
from tests.stand_in.probing import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine_probe.engine import Engine
    from engine_probe.hardware.reading import Server

pytestmark = [pytest.mark.engine, pytest.mark.timeout(420)]
ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
SIZE = ("--enforce-eager", "--kv-cache-memory-bytes", "96M", "--max-model-len", "512")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_llama(tmp_path_factory.mktemp("tiny") / "m"))


@pytest.fixture
def watch() -> Iterator[ServerWatch]:
    watch = ServerWatch()
    yield watch
    watch.close()


@contextmanager
def serving(engine: Engine, model: str, name: str, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server that prints into `log`; all of its processes have ended afterwards."""
    port = free_port()
    words = ["-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", name, "--port", str(port), *SIZE]
    with log.open("wb") as output:
        process = subprocess.Popen(
            engine.argv(*words), env={**os.environ, **ENV}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process, port
    finally:
        left = shared_memory_of(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        remove(left)


def shared_memory_of(group: int) -> set[str]:
    """What a killed vLLM leaves in /dev/shm."""
    found: set[str] = set()
    for pid in psutil.pids():
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == group:
                found |= shm_paths(pid)
    return found


def remove(paths: set[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


class Seen:
    """Reads until something holds; the stages that each server was seen in, in order."""

    def __init__(self, watch: ServerWatch) -> None:
        self._watch = watch
        self.stages: dict[str, list[str]] = {}

    def until(self, holds: Callable[[dict[str, Server]], bool], seconds: float = 240.0) -> dict[str, Server]:
        deadline = time.monotonic() + seconds
        while True:
            servers, _ = self._watch.read(GpuState(), time.time())
            found = {one.name: one for one in servers}
            for name, server in found.items():
                stages = self.stages.setdefault(name, [])
                if isinstance(server.stage, Known) and (not stages or stages[-1] != server.stage.value):
                    stages.append(str(server.stage.value))
            if holds(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)  # between two looks, as a monitor does

    def engine_core_of(self, server: int) -> int:
        _, rows = self._watch.read(GpuState(), time.time())
        return next(row.pid for row in rows if row.role == "engine_core" and row.server == server)


def is_serving(servers: dict[str, Server], name: str) -> bool:
    return name in servers and servers[name].state == "serving"


def ask(port: int, name: str) -> None:
    body = {"model": name, "prompt": [70] * 100, "max_tokens": 300, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        answer.read()


@contextmanager
def asking(port: int, name: str) -> Iterator[None]:
    """One request after the other: a single one may be over between two looks at /metrics."""
    is_enough = threading.Event()

    def ask_on() -> None:
        while not is_enough.is_set():
            ask(port, name)

    thread = threading.Thread(target=ask_on)
    thread.start()
    try:
        yield
    finally:
        is_enough.set()
        thread.join()


def test_two_servers_and_an_engine_that_lost_its_own(
    engine: Engine, model: str, watch: ServerWatch, tmp_path: Path
) -> None:
    """One after the other, so that two cores do; both serve in the end."""
    seen = Seen(watch)
    with serving(engine, model, "chat-tiny", tmp_path / "chat.log") as (chat, _):
        seen.until(lambda found: is_serving(found, "chat-tiny"))
        with serving(engine, model, "code-tiny", tmp_path / "code.log") as (_, port):
            servers = seen.until(lambda found: "code-tiny" in found and found["code-tiny"].state == "loading")
            assert servers["chat-tiny"].state == "serving"
            seen.until(lambda found: is_serving(found, "code-tiny"))
            for name in ("chat-tiny", "code-tiny"):
                in_order = sorted(set(seen.stages[name]), key=STAGES.index)
                first_seen = list(dict.fromkeys(seen.stages[name]))
                assert {"config", "worker_start", "serving"} <= set(in_order)
                assert first_seen[0] == "config"
                assert first_seen[-1] == "serving"
            servers = seen.until(lambda found: all(isinstance(one.kv_use_percent, Known) for one in found.values()))
            assert_is_told(servers["chat-tiny"], chat.pid, model, tmp_path / "chat.log")
            assert_use_is_seen(seen, port)
        assert_orphan_is_told(seen, chat, servers["chat-tiny"])


def assert_is_told(server: Server, pid: int, model: str, log: Path) -> None:
    assert (server.pid, server.model, server.log) == (pid, model, str(log))
    assert len(server.pids) >= 3
    assert isinstance(server.version, Known)
    assert isinstance(server.kv_pool_gib, Known)
    assert float(server.kv_pool_gib.value) == pytest.approx(96 / 1024, abs=0.01)
    assert isinstance(server.running, Known)
    assert server.running.value == 0


def assert_use_is_seen(seen: Seen, port: int) -> None:
    """While requests run, their use of the KV cache shows, for that server only."""
    with asking(port, "code-tiny"):
        servers = seen.until(
            lambda found: (
                isinstance(found["code-tiny"].running, Known)
                and found["code-tiny"].running.value == 1
                and isinstance(found["code-tiny"].kv_use_percent, Known)
                and float(found["code-tiny"].kv_use_percent.value) > 0
                and isinstance(found["chat-tiny"].running, Known)  # a busy host may keep one answer back for a look
            )
        )
    assert isinstance(servers["chat-tiny"].running, Known)
    assert servers["chat-tiny"].running.value == 0
    seen.until(lambda found: isinstance(found["code-tiny"].running, Known) and found["code-tiny"].running.value == 0)


def assert_orphan_is_told(seen: Seen, process: subprocess.Popen[bytes], server: Server) -> None:
    """An engine whose API server is killed; it is stopped first: whether it would end by itself is another question."""
    core = seen.engine_core_of(process.pid)
    left = shared_memory_of(process.pid)
    os.kill(core, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    orphan = seen.until(lambda found: any(one.pid == core for one in found.values()))["chat-tiny"]
    assert (orphan.state, orphan.pid, orphan.model) == ("orphan", core, server.model)
    assert set(orphan.pids) <= set(server.pids)
    assert process.pid not in orphan.pids
    os.kill(core, signal.SIGKILL)
    seen.until(lambda found: all(one.pid != core for one in found.values()))
    remove(left)
