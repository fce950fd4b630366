"""A load beside the GPU memory of another process wants a yes: without one it ends with exit code 2, and says who."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from test_hardware import GIB, TWO_GPUS

from engine_probe.engine import Engine
from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState
from engine_probe.hardware.host import read_host
from engine_probe.launch import Launch
from engine_probe.preflight import look
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named

if TYPE_CHECKING:
    from pathlib import Path

KV = "kv-cache-too-small-for-max-model-len"
HOLDER = 4194999
NOTHING_THERE = "this is no engine"


def run(words: list[str], folder: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with a stand-in driver that shows a holder of GPU 0."""
    state = tmp_path / "state"
    state.write_text(f"{TWO_GPUS}process 0 {HOLDER} {10 * GIB}\n")
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_NVML_STATE": str(state),
        "XDG_STATE_HOME": str(tmp_path / "xdg"),
    }
    command = [sys.executable, "-m", "tui.cli", *words, "--engine", str(broken_engine(tmp_path))]
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def broken_engine(tmp_path: Path) -> Path:
    """Ends at once, so that a load that goes on ends with exit code 4."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho {NOTHING_THERE} >&2\nexit 3\n")
    path.chmod(0o755)
    return path


def words_of(command: str, tmp_path: Path) -> list[str]:
    if command == "lab":
        return ["lab", KV]
    path = build_fault(fault_named(KV), tmp_path / "model")
    return ["replay", KV, "--deployment", str(path)]


@pytest.mark.parametrize("command", ["lab", "replay"])
def test_without_a_yes_nothing_is_loaded(command: str, nvml_folder: Path, tmp_path: Path) -> None:
    said = run(words_of(command, tmp_path), nvml_folder, tmp_path)
    assert said.returncode == 2, said.stderr
    assert f"GPU 0 is held by pid {HOLDER} (not visible here): 10.0 GiB; say --yes to load beside it" in said.stderr
    assert NOTHING_THERE not in said.stderr + said.stdout


@pytest.mark.parametrize("command", ["lab", "replay"])
def test_with_a_yes_it_goes_on_and_says_beside_whom(command: str, nvml_folder: Path, tmp_path: Path) -> None:
    said = run([*words_of(command, tmp_path), "--yes"], nvml_folder, tmp_path)
    assert said.returncode == 4, said.stderr
    assert f"GPU 0 is held by pid {HOLDER}" in said.stderr


def test_a_process_of_ones_own_is_no_other() -> None:
    held, size = Known(10.0, "measured", "a test"), Unknown("not asked")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as own:
        processes = tuple(GpuProcess(pid, "python", held) for pid in (own.pid, os.getpid(), HOLDER))
        gpus = GpuState((Gpu(0, "GPU-aaaa", "H100", size, size, size, processes),))
        found = look(Launch("tiny", "no/such/model"), Engine((sys.executable,), "test", "a test"), gpus, read_host())
        assert own.stdin is not None
        own.stdin.close()
    assert [holder["pid"] for holder in found.holders] == [HOLDER]
