"""`kill -9` of the console at any moment of a real load: no process, no shared memory, no temp folder stays."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.child import process_tree
from playbooks.lab.tiny_model import write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

WARM_MOMENTS_S = 12.0
"""A warm load with its warm-up takes about this long: moments are drawn over all of it."""


class Watched:
    """One console that loads a tiny model, with all that descends from it marked."""

    def __init__(self, engine: Engine, model: Path, grade: str) -> None:
        self.mark = f"LEAVES_NOTHING={uuid.uuid4()}"
        self.shm_before = set(Path("/dev/shm").iterdir())
        # Short, because paths of sockets are, and its own, because other probes may run beside the test.
        self.temp = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        self.packages = str(Path(engine.python).parent.parent)
        self.others = self._using_engine()
        name, _, value = self.mark.partition("=")
        words = ["probe", "--json", "--hold", "--yes", "--grade", grade, "--engine", engine.label, "--"]
        launch = ["vllm", "serve", str(model), "--enforce-eager", "--kv-cache-memory-bytes", "96M"]
        self.console = subprocess.Popen(
            [sys.executable, "-m", "tui.cli", *words, *launch, "--max-model-len", "1408"],
            env={
                **os.environ,
                "TMPDIR": str(self.temp),
                name: value,
                "HF_HUB_OFFLINE": "1",
                "VLLM_NO_USAGE_STATS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def living(self) -> set[int]:
        """Processes of the load that run; a zombie holds nothing.

        The mark in the environment is overwritten once vLLM sets a title; by then torch's files are mapped.
        """
        found = self._marked() | self._using_engine() - self.others
        processes = {pid: process_tree.read_one(pid) for pid in found}
        return {pid for pid, process in processes.items() if process is not None and process.state not in "ZX"}

    def _marked(self) -> set[int]:
        return process_tree.marked(self.mark)

    def _using_engine(self) -> set[int]:
        return {pid for pid in process_tree.read_all() if f"{self.packages}/" in maps_of(pid)}

    def shm(self) -> set[Path]:
        return set(Path("/dev/shm").iterdir()) - self.shm_before

    def temp_files(self) -> list[Path]:
        """torchinductor's cache is the user's, and stays."""
        return [path for path in self.temp.iterdir() if not path.name.startswith("torchinductor_")]

    def wait_for(self, event: str) -> dict[str, Any]:
        """Read the console's events until one of this kind."""
        assert self.console.stdout is not None
        for line in self.console.stdout:
            content: dict[str, Any] = json.loads(line)
            if content["event"] == event:
                return content
        raise AssertionError(f"the console ended before {event}")

    def assert_gone(self) -> None:
        until(lambda: not self.living() and not self.shm() and not self.temp_files(), self.describe)
        shutil.rmtree(self.temp)

    def describe(self) -> str:
        return f"left: {[process_tree.title(p) for p in self.living()]} {self.shm()} {self.temp_files()}"


def maps_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    except OSError:
        return ""


def until(holds: Callable[[], bool], describe: Callable[[], str], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.02)


def test_kill_9_at_ten_random_moments_of_a_load_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny")
    dice = random.Random(20261129)
    for number in range(10):
        watched = Watched(engine, model, "warm" if number < 8 else "cold")
        moment = time.monotonic() + dice.uniform(0.0, WARM_MOMENTS_S if number < 8 else 25.0)
        while time.monotonic() < moment and watched.console.poll() is None:
            time.sleep(0.01)  # the moment itself is what is tested
        watched.console.kill()
        watched.console.wait()
        watched.assert_gone()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_ready_model_and_the_console_in_order(engine: Engine, tmp_path: Path, number: int) -> None:
    watched = Watched(engine, write_tiny_llama(tmp_path / "tiny"), "warm")
    watched.wait_for("request_answered")
    assert len(watched.living()) >= 4, "console, keeper, warm process and vLLM run"
    watched.console.send_signal(number)
    watched.wait_for("ended")
    assert watched.console.stdout is not None
    watched.console.stdout.read()
    assert watched.console.wait() in ({0, 130} if number == signal.SIGINT else {128 + number})
    watched.assert_gone()


@pytest.mark.parametrize("grade", ["warm", "cold"])
def test_kill_9_of_the_keeper_leaves_nothing(engine: Engine, tmp_path: Path, grade: str) -> None:
    watched = Watched(engine, write_tiny_llama(tmp_path / "tiny"), grade)
    keeper = watched.wait_for("probe_started")["pid"]
    watched.wait_for("request_answered")
    os.kill(keeper, signal.SIGKILL)
    assert watched.console.stdout is not None
    watched.console.stdout.read()
    assert watched.console.wait() == 1
    watched.assert_gone()


def test_kill_9_of_a_lab_takes_its_model_folder_along(engine: Engine) -> None:
    temp = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    words = ["lab", "kv-cache-too-small-for-max-model-len", "--engine", engine.label]
    console = subprocess.Popen(
        [sys.executable, "-m", "tui.cli", *words],
        env={**os.environ, "TMPDIR": str(temp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert console.stdout is not None
    assert any("engine warm in" in line or "config " in line for line in console.stdout), "the load has begun"
    assert list(temp.glob("vllm-console-lab-*")), "the lab's model is there"
    console.kill()
    console.wait()
    until(lambda: not list(temp.glob("vllm-console-*")), lambda: f"left: {list(temp.iterdir())}")
    shutil.rmtree(temp)
