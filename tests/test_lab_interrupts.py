"""Ctrl-C, or kill -9, in the middle of the lab: no process, no folder, no cgroup stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.hardware.descendants import descendants
from tests.stand_in.probing import is_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine_probe.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]
NAMES = ("kv-cache-size-zero", "kv-cache-too-small-for-max-model-len")


@pytest.fixture
def temp() -> Iterator[Path]:
    """Short, because paths of sockets are."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def wait_until(holds: Callable[[], bool], seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "still not so after the deadline"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_the_lab_that_is_ended_in_the_middle_leaves_nothing(number: int, engine: Engine, temp: Path) -> None:
    console = subprocess.Popen(
        [sys.executable, "-m", "tui.cli", "lab", *NAMES, "--json", "--yes", "--engine", engine.label],
        env={**os.environ, "TMPDIR": str(temp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert console.stdout is not None
    first = json.loads(console.stdout.readline())
    assert (first["fault"], first["verified"], first["left_behind"]) == (NAMES[0], True, [])
    wait_until(lambda: any("vllm serve" in one.command for one in descendants(console.pid)))
    below = descendants(console.pid)
    assert [path.name for path in temp.glob("vllm-console-lab-*/*") if path.name in NAMES] == [NAMES[1]]
    console.send_signal(number)
    rest, said = console.communicate(timeout=200)
    assert (console.returncode, rest) == (130 if number == signal.SIGINT else -number, ""), said
    assert "Traceback" not in said
    wait_until(lambda: all(is_gone(one.pid) for one in below))
    wait_until(lambda: not list(temp.glob("vllm-console-*")))
