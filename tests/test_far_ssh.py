"""An engine on another host, reached by a real ssh client and server: loads, requests, logs, and a lost connection."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from engine_probe import events as ev
from engine_probe.child import process_tree
from engine_probe.engine import Engine, ssh_engine
from engine_probe.engine_check import check_engine
from engine_probe.supervisor import Probe
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from tests.ssh_host import NAME, SshHost, ssh_host
from tests.test_probe_engine import launch
from tui.commands.logs import logs
from tui.commands.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)
KV = "kv-cache-too-small-for-max-model-len"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with ssh_host(tmp_path_factory.mktemp("ssh")) as host:
        yield host


@pytest.fixture
def host(server: SshHost, monkeypatch: pytest.MonkeyPatch) -> SshHost:
    monkeypatch.setenv("PATH", f"{server.bin}{os.pathsep}{os.environ['PATH']}")
    return server


@pytest.fixture
def far(host: SshHost, engine: Engine) -> Engine:
    """The engine of this host, as if it were another's; what runs there has a mark of the test's own."""
    mark = {"FAR_MARK": uuid.uuid4().hex}
    return replace(ssh_engine(NAME, f"the test ({host.server})", engine.python), env=mark)


def living(far: Engine) -> set[int]:
    ((name, value),) = far.env.items()
    return process_tree.marked(f"{name}={value}")


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_log_of_another_host_is_read_from_its_first_line(host: SshHost, tmp_path: Path) -> None:
    log = tmp_path / "a log.txt"
    log.write_text("INFO 11-30 10:00:00 [x.py:1] first\nERROR 11-30 10:00:01 [x.py:2] last\n", encoding="utf-8")
    result = CliRunner().invoke(logs, [f"ssh:{NAME}:{log}", "--json"])
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == log.read_text(
        encoding="utf-8"
    ).splitlines()
    missing = CliRunner().invoke(logs, [f"ssh:{NAME}:{tmp_path}/none.txt", "--plain"])
    assert missing.exit_code != 0
    assert "No such file" in missing.stdout


@pytest.mark.engine
def test_a_far_engine_is_checked(far: Engine) -> None:
    assert not check_engine(far).troubles


@pytest.mark.engine
def test_a_deployment_of_another_host_is_mended_and_proved_there(host: SshHost, engine: Engine, tmp_path: Path) -> None:
    path = build_fault(fault_named(KV), tmp_path / "lab")
    there = f"engine: {{ssh: {NAME}, python: {engine.python}}}\n"
    path.write_text(there + path.read_text(encoding="utf-8"), encoding="utf-8")
    words = [KV, "--deployment", str(path), "--verify", "warm", "--load-test", "4x1s", "--yes", "--json"]
    result = CliRunner().invoke(replay, words, standalone_mode=False)
    assert result.exception is None, result.output
    said = json.loads(result.stdout.splitlines()[-1])
    assert (said["verdict"], said["fix"]) == ("verified", "serve-a-shorter-context")
    assert {one["id"] for one in said["checks"] if one["outcome"] == "pass"} > {"healthy", "answers-at-full-length"}
    assert "max-model-len: 1408" in path.read_text(encoding="utf-8")


@pytest.mark.engine
async def test_a_lost_connection_leaves_nothing_on_the_other_host(far: Engine, model: str) -> None:
    seen: list[str] = []
    async with Probe(far) as probe:
        await probe.load(launch(model, max_model_len=1408), "warm")
        async for event in probe.events():
            seen.append(event.event)
            if isinstance(event, ev.Ready) and probe._process is not None:
                assert living(far)
                probe._process.kill()
    assert seen[-1] == "ended"
    assert "failed" in seen
    until(lambda: not living(far))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    from playbooks.lab.tiny_model import write_tiny_llama

    return str(write_tiny_llama(tmp_path_factory.mktemp("tiny") / "m"))
