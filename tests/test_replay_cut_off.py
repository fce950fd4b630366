"""A replay on the real engine that is cut off again and again: nothing stays, the file is intact, and it goes on."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.locations import find_locations
from playbooks.lab.tiny_model import write_tiny_llama
from playbooks.resuming import unfinished
from tests.left_behind import Leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine_probe.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(420)]

KV = "kv-cache-too-small-for-max-model-len"
SHORTER = "serve-a-shorter-context"
DEPLOYMENT = """\
models:
  - name: tiny   # a person's own words
    model: ./tiny
    args: {enforce-eager: true, kv-cache-memory-bytes: "96M"}
"""


class Replay:
    """One console that mends a deployment; its leftovers can be told from those of others."""

    def __init__(self, engine: Engine, file: Path) -> None:
        self.left = Leftovers()
        words = ["replay", KV, "--deployment", str(file), "--engine", engine.label, "--json", "--yes"]
        options = ["--verify", "warm", "--load-test", "none", "--fix", SHORTER]
        self.console = subprocess.Popen(
            [sys.executable, "-m", "tui.cli", *words, *options],
            env={**os.environ, **self.left.environment, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.told: list[dict[str, Any]] = []

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.console.stdout is not None
        for line in self.console.stdout:
            self.told.append(json.loads(line))
            yield self.told[-1]

    def until(self, *events: str) -> dict[str, Any]:
        """Read on until these have come, one after the other."""
        wanted = list(events)
        for one in self.lines():
            if one["event"] == wanted[0]:
                del wanted[0]
                if not wanted:
                    self.left.look(self.console.pid)
                    return one
        raise AssertionError(f"it ended before {wanted}: {self.said()}")

    def said(self) -> str:
        assert self.console.stderr is not None
        return self.console.stderr.read()

    def kill(self) -> None:
        self.console.kill()
        self.end()

    def end(self) -> int:
        """All of it is gone, whoever ended it."""
        for _ in self.lines():
            pass
        code = self.console.wait()
        self.left.assert_gone()
        return code

    def kinds(self) -> list[str]:
        return [one["event"] for one in self.told]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_tiny_llama(tmp_path / "tiny")
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


def is_intact(file: Path) -> bool:
    return file.read_text("utf-8") == DEPLOYMENT and sorted(one.name for one in file.parent.iterdir()) == [
        "deployment.yaml",
        "tiny",
    ]


def test_it_goes_on_after_each_of_these(engine: Engine, file: Path) -> None:
    first = Replay(engine, file)
    first.until("started", "stage_entered", "stage_entered")
    first.kill()
    assert is_intact(file)

    second = Replay(engine, file)  # nothing was finished: it begins anew
    second.until("diagnosed", "revision_written", "started", "stage_entered")
    second.kill()
    assert "resumed" not in second.kinds()
    assert not is_intact(file)

    third = Replay(engine, file)  # a terminal that vanishes, in the midst of the requests
    third.until("resumed", "revision_written", "request_answered")
    assert "diagnosed" not in third.kinds()
    third.console.send_signal(signal.SIGHUP)
    assert third.end() == 128 + signal.SIGHUP
    assert is_intact(file)

    last = Replay(engine, file)
    assert last.end() == 0, last.said()
    assert last.kinds().count("started") == 1
    assert last.told[-1]["verdict"] == "verified"
    assert file.with_name("deployment.yaml.r1").read_text("utf-8") == DEPLOYMENT
    assert last.told[-1]["case"] == next(one["case"] for one in last.told if one["event"] == "resumed")


def test_a_probe_that_is_killed_ends_the_case_and_undoes_the_change(engine: Engine, file: Path) -> None:
    replay = Replay(engine, file)
    keeper = replay.until("probe_started")["pid"]
    replay.until("revision_written", "started")
    os.kill(keeper, signal.SIGKILL)
    assert replay.end() == 4
    assert replay.told[-1]["verdict"] == "cannot run"
    assert is_intact(file)


def on_a_terminal(words: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Its pid, and the terminal that is its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(environment, TERM="xterm-256color", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
        os.execv(sys.executable, [sys.executable, "-m", "tui.cli", *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    return pid, terminal


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["replay", KV, "--yes", "--verify", "warm", "--load-test", "none"], b"4 Verify"),
        (["wizard"], b"loading tiny"),
    ],
)
def test_a_terminal_that_vanishes_leaves_nothing_and_the_file_intact(
    command: list[str], shown: bytes, engine: Engine, file: Path
) -> None:
    """As when the connection breaks: in the midst of a verification, and of the first load."""
    left = Leftovers()
    words = [*command, "--deployment", str(file), "--engine", engine.label]
    pid, terminal = on_a_terminal(words, left.environment)
    drawn = b""
    while shown not in drawn:
        drawn += os.read(terminal, 65536)
    left.look(pid)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    left.assert_gone()
    assert is_intact(file)
    found = unfinished(find_locations().state, file)
    assert found is not None
