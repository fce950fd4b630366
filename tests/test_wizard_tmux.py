"""The wizard in a real terminal: through one fault; and a connection that is lost, after which the case goes on."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from playbooks.kept_cases import kept_cases
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.resuming import unfinished
from tests.stand_in.probing import is_gone
from tests.tmux import PROGRAM, TMUX, Tmux, in_tmux

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(TMUX is None, reason="tmux is not installed here"),
]
FAULT = "kv-cache-too-small-for-max-model-len"
LOADED = 240.0


def own_folders(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config"), "TERM": "xterm"}


def until_ended(pid: int, seconds: float = 60.0) -> None:
    """tmux may reap it much later."""
    deadline = time.monotonic() + seconds
    while not is_gone(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # between two looks


def prove_and_keep(tmux: Tmux) -> None:
    """From the fixes on."""
    tmux.press("Enter")
    tmux.wait_for("Apply this change and verify it?")
    tmux.press("Enter")
    tmux.wait_for("Verified:", seconds=LOADED)
    tmux.press("Enter")
    tmux.wait_for("Verified, kept", seconds=60)
    tmux.press("q")


def test_one_fault_from_its_symptom_to_its_proof(tmp_path: Path) -> None:
    with in_tmux(f"{PROGRAM} wizard --lab {FAULT}", tmp_path, own_folders(tmp_path)) as tmux:
        tmux.wait_for("2 Hypotheses", "These are the likeliest causes", seconds=LOADED)
        tmux.press("Left")
        tmux.wait_for("Where evidence was looked for", "does not start")
        tmux.press("Right")
        tmux.wait_for("confirmed")
        tmux.press("Right")
        tmux.wait_for("Fixes, one change each")
        prove_and_keep(tmux)
        tmux.wait_for("report:", seconds=60)  # what is left on the terminal
    (case,) = kept_cases(tmp_path / "state" / "vllm-console")
    assert "verified" in case.title


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL], ids=lambda one: signal.Signals(one).name)
def test_after_a_lost_connection_the_case_goes_on(tmp_path: Path, number: int) -> None:
    file = build_fault(fault_named(FAULT), tmp_path / "model")
    before = file.read_bytes()
    state = tmp_path / "state" / "vllm-console"
    with in_tmux(f"{PROGRAM} wizard --deployment {file}", tmp_path, own_folders(tmp_path)) as tmux:
        tmux.wait_for("These are the likeliest causes", seconds=LOADED)
        pid = tmux.pid()
        started = psutil.Process(pid).children(recursive=True)
        os.kill(pid, number)
        until_ended(pid)
    _, alive = psutil.wait_procs(started, timeout=60)
    assert alive == []
    assert file.read_bytes() == before
    found = unfinished(state, file)
    assert found is not None
    with in_tmux(f"{PROGRAM} wizard --resume --verify warm --load-test none", tmp_path, own_folders(tmp_path)) as tmux:
        tmux.wait_for("3 Fix", found.case.name, seconds=60)
        tmux.wait_for("Fixes, one change each", seconds=60)
        if number == signal.SIGHUP:
            return  # it goes on; what comes then is the same after either signal
        prove_and_keep(tmux)
        tmux.wait_for("report:", seconds=60)
    assert unfinished(state, file) is None
    assert b"max-model-len" in file.read_bytes()
    assert (tmp_path / "model" / "deployment.yaml.r1").read_bytes() == before
