"""Real processes with vLLM's titles: a server that is killed, its orphans, titles that change, cost of many others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Known
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.servers import ServerWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine_probe.hardware.reading import ProcessReading, Server

# Started as `python …/vllm serve MODEL`: an API server with an EngineCore that has a worker.
SERVER = """
import subprocess, sys, time
core = ["import subprocess; subprocess.Popen(['VLLM::Worker_TP0', '1000'], executable='/bin/sleep').wait()"]
print("a server", flush=True)
subprocess.Popen(["VLLM::EngineCore", "-c", *core], executable=sys.executable).wait()
"""


@pytest.fixture
def watch() -> Iterator[ServerWatch]:
    watch = ServerWatch()
    yield watch
    watch.close()


@contextmanager
def running(folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Whatever is left of it in the end is killed, by its process group."""
    script = folder / "bin/vllm"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SERVER)
    log = (folder / f"{name}.log").open("wb")
    words = [sys.executable, str(script), "serve", f"/models/{name}", "--port", "1"]
    process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    log.close()
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


Found = tuple[dict[int, "Server"], dict[int, "ProcessReading"]]


def until(watch: ServerWatch, holds: Callable[[Found], bool]) -> Found:
    deadline = time.monotonic() + 60
    while True:
        servers, processes = watch.read(GpuState(), time.time())
        found = {one.pid: one for one in servers}, {one.pid: one for one in processes}
        if holds(found):
            return found
        assert time.monotonic() < deadline, found


def is_whole(found: Found, root: int) -> bool:
    """All of its processes have their titles: a fork has those of its parent for a moment."""
    titles = {row.title.split()[0] for row in found[1].values() if row.server == root}
    return {"VLLM::EngineCore", "VLLM::Worker_TP0"} <= titles


def test_a_killed_server_leaves_an_orphan(watch: ServerWatch, tmp_path: Path) -> None:
    with running(tmp_path, "chat") as one, running(tmp_path, "code") as other:
        servers, rows = until(watch, lambda found: is_whole(found, one.pid) and is_whole(found, other.pid))
        assert (servers[one.pid].name, servers[other.pid].name) == ("/models/chat", "/models/code")
        assert servers[one.pid].log == str(tmp_path / "chat.log")
        roles = {rows[pid].role: pid for pid in servers[one.pid].pids}
        assert roles.keys() == {"api_server", "engine_core", "worker"}
        assert rows[one.pid].is_mine
        assert isinstance(rows[one.pid].rss_gib, Known)
        os.kill(one.pid, signal.SIGKILL)
        core = roles["engine_core"]
        servers, rows = until(watch, lambda found: core in found[0])
        orphan = servers[core]
        assert (orphan.state, orphan.name) == ("orphan", "/models/chat")
        assert orphan.pids == tuple(sorted((core, roles["worker"])))
        assert servers[other.pid].state == "loading"
        if one.pid in servers:
            assert servers[one.pid].state == "ending"
        one.wait()
        servers, _ = until(watch, lambda found: one.pid not in found[0])
        assert servers[core].state == "orphan"


def test_this_test_and_its_tools_are_no_servers(watch: ServerWatch) -> None:
    with subprocess.Popen(["tail", "-f", "/dev/null", "--pid", str(os.getpid()), "-n", "1"]) as process:
        servers, processes = watch.read(GpuState(), time.time())
        assert not {os.getpid(), process.pid} & {one.pid for one in processes}
        assert os.getpid() not in {one.pid for one in servers}
        process.kill()


def test_a_watch_leaves_no_open_files(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    watch = ServerWatch()
    with running(tmp_path, "chat") as one:
        until(watch, lambda found: one.pid in found[0])
        during = len(list(Path("/proc/self/fd").iterdir()))
        one.kill()
        one.wait()
        until(watch, lambda found: one.pid not in found[0])
    watch.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before < during
