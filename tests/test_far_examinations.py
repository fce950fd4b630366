"""Examinations on another host, by a real ssh client and server: asked there, and nothing of them stays there."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.child import process_tree
from engine_probe.engine import Engine, ssh_engine
from engine_probe.engine_ask import ask
from engine_probe.events import Ended
from engine_probe.examine.asking import launch_given, run_script
from engine_probe.examine.scripts import side
from engine_probe.facts import Known
from engine_probe.launch import Deployment, Launch
from playbooks.effects import Examine, Examined, Load
from playbooks.examining import Examiner, examine
from tests.ssh_host import NAME, ssh_host

if TYPE_CHECKING:
    from collections.abc import Iterator

LAUNCH = Launch("tiny", "acme/tiny", env={"HF_TOKEN": "not-to-be-seen"})


@pytest.fixture(scope="module")
def server_bin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with ssh_host(tmp_path_factory.mktemp("ssh")) as host:
        yield host.bin


@pytest.fixture
def far(server_bin: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """This Python, as if it were another host's; what runs there has a mark of the test's own."""
    monkeypatch.setenv("PATH", f"{server_bin}{os.pathsep}{os.environ['PATH']}")
    return replace(ssh_engine(NAME, "the test", sys.executable), env={"FAR_MARK": uuid.uuid4().hex})


def living(far: Engine) -> set[int]:
    ((name, value),) = far.env.items()
    return process_tree.marked(f"{name}={value}")


def until_none_lives(far: Engine) -> None:
    ends_at = time.monotonic() + 60
    while living(far):
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def test_scripts_run_on_the_engine_s_side(far: Engine) -> None:
    port = run_script(far, "port", launch_given(LAUNCH, LAUNCH.model), 60)
    assert port.why_not is None
    assert isinstance(port.facts["host.port_is_free"], Known)
    disk = run_script(far, "disk", launch_given(LAUNCH, LAUNCH.model), 60)
    assert isinstance(disk.facts["host.tmp_free_gib"], Known)
    until_none_lives(far)


def test_a_stop_ends_what_runs_there(far: Engine) -> None:
    waiting = Path(side.__file__).read_text(encoding="utf-8") + "\nSide()\nimport time\ntime.sleep(1000)\n"
    stop, done = threading.Event(), threading.Event()

    def asking() -> None:
        ask(far, waiting, 600, b"{}", stop)
        done.set()

    threading.Thread(target=asking, daemon=True).start()
    ends_at = time.monotonic() + 60
    while not living(far):
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    stop.set()
    assert done.wait(60)
    until_none_lives(far)


def test_an_engine_that_cannot_be_reached_is_the_reason(far: Engine) -> None:
    lost = replace(far, prefix=(*far.prefix[:-2], "no-such-host", far.prefix[-1]))
    found = run_script(lost, "port", {}, 60)
    assert found.facts == {}
    assert found.why_not is not None
    assert "did not answer" in found.why_not


async def test_what_only_this_host_can_tell_says_so(far: Engine) -> None:
    deployment = Deployment((LAUNCH,))
    files = examine(Examine("file-audit", LAUNCH, deployment, {}), far, threading.Event())
    assert files.why_not == "the engine runs elsewhere, and this can only be seen on its own host"
    came: list[Examined] = []
    examiner = Examiner(far, came.append)
    examiner.load_begins(Load(LAUNCH, "warm", watches_gpus=True))
    seen = await examiner.load_ended(Ended("tiny"))
    assert seen == Examined("watch-gpu-while-profiling", {}, files.why_not)
    await examiner.close()
