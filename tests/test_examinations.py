"""Examinations of the place where an engine runs: what each script finds, and that nothing of it is left."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from engine_probe.deployment import read_deployment
from engine_probe.engine import Engine, local_engine
from engine_probe.errors import InputError
from engine_probe.examine.asking import launch_given, run_script
from engine_probe.examine.gpu_growth import GROWTH, GpuGrowth
from engine_probe.examine.scripts import all_reduce, disk, largest_allocation, port, side, tensors
from engine_probe.facts import Known, Unknown
from engine_probe.launch import Launch
from engine_probe.model_files.whole import read_whole
from playbooks.effects import Examine
from playbooks.examining import examine
from playbooks.lab.tiny_model import write_tiny_llama
from tests.fake_gpus import FakeGpu, FakeProcess
from tui.commands.playbooks import playbooks
from tui.commands.probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.examine.asking import Examination
    from engine_probe.facts import Fact
    from playbooks.effects import Examined
    from tests.fake_gpus import FakeDriver

HERE = local_engine(sys.executable, "the test")


def values(found: Examination | Examined) -> dict[str, object]:
    return {name: fact.value for name, fact in found.facts.items() if isinstance(fact, Known)}


def origin(fact: Fact) -> str:
    return fact.origin if isinstance(fact, Known) else ""


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    ends_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends_at, "it never came"
        time.sleep(0.02)


# Asking


def script(folder: Path, text: str) -> Engine:
    """An engine whose Python is this shell script."""
    path = folder / "python"
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)
    return local_engine(str(path), "the test")


def test_what_goes_wrong_there_is_the_reason(tmp_path: Path) -> None:
    said = run_script(script(tmp_path, "echo no room here >&2; exit 3"), "port", {}, 20)
    assert said.why_not is not None
    assert "no room here" in said.why_not
    gone = run_script(local_engine(str(tmp_path / "nowhere"), "the test"), "port", {}, 20)
    assert gone.why_not is not None
    assert "cannot be started" in gone.why_not
    odd = run_script(script(tmp_path, "echo 'vllm_console_examined [1]'"), "port", {}, 20)
    assert odd.why_not == "the test port gave an answer that is none"


def test_a_script_has_its_time(tmp_path: Path) -> None:
    assert run_script(script(tmp_path, "sleep 1000"), "port", {}, 0.5).why_not == "it was not over after 0 s"


def test_what_the_launch_sets_is_not_in_the_command(tmp_path: Path) -> None:
    launch = Launch("tiny", "tiny", env={"HF_TOKEN": "not-to-be-seen"})
    seen = tmp_path / "seen"
    engine = script(tmp_path, f'cat /proc/$$/cmdline > {seen}; exec {sys.executable} "$@"')
    assert run_script(engine, "port", launch_given(launch, "tiny"), 20).why_not is None
    assert b"not-to-be-seen" not in seen.read_bytes()


def test_a_script_ends_with_whoever_asked(tmp_path: Path) -> None:
    """As when the console is killed, or the connection is gone: its stdin ends."""
    waiting = Path(side.__file__).read_text(encoding="utf-8") + "\nSide()\nimport time\ntime.sleep(1000)\n"
    process = subprocess.Popen([sys.executable, "-c", waiting], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"{}\n")
    process.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.stdin.close()
    assert process.wait(60) == 1


# Ports


def test_a_port_that_somebody_holds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        launch = Launch("tiny", "tiny", {"host": "127.0.0.1", "port": number})
        held = run_script(HERE, "port", launch_given(launch, "tiny"), 20)
    assert values(held)["host.port_is_free"] is False
    assert values(held)["host.port_owner_pid"] == os.getpid()
    assert values(held)["host.port_trouble"] == "Address already in use"
    free = run_script(HERE, "port", launch_given(launch, "tiny"), 20)
    assert values(free)["host.port_is_free"] is True
    assert free.facts["host.port_owner_pid"] == Unknown("nobody listens there")


def test_an_address_of_another_host() -> None:
    facts, _ = port.examine("192.0.2.1", 0)
    assert (facts["host.address_is_here"], facts["host.port_is_free"]) == (False, True)


def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(port.socket, "getaddrinfo", unknown)
    assert port.examine("no-such-host", 8000)[0]["host.address_is_here"] is False


# Folders


def test_folders_are_those_of_the_variables() -> None:
    found = disk.folders({"VLLM_CACHE_ROOT": "/a", "HF_HOME": "/b", "TMPDIR": "/c"})
    assert (found["cache"], found["hub_cache"], found["tmp"]) == ("/a", "/b/hub", "/c")


def test_a_folder_that_is_not_there_is_tried_where_it_would_be_made(tmp_path: Path) -> None:
    facts, _ = disk.examine({"shm": str(tmp_path), "cache": str(tmp_path / "a" / "b")}, str(tmp_path))
    assert facts["host.cache_is_writable"] is True
    assert facts["host.write_trouble"] == "none found"
    assert facts["files.free_gib"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.tempfile, "TemporaryFile", full)
    facts, _ = disk.examine({"shm": str(tmp_path), "tmp": str(tmp_path)}, None)
    assert (facts["host.shm_is_writable"], facts["host.tmp_is_writable"]) == (False, False)
    assert facts["host.write_trouble"] == f"{tmp_path}: No space left on device"
    assert disk.examine({"shm": str(tmp_path / "none")}, None)[0]["host.shm_is_there"] is False


# Tensors, without the engine's transformers


WANTED = tensors.Wanted("Tiny", {"a.weight": (2, 2), "b.weight": (2,)}, {"head.weight"})


def test_tensors_are_compared_by_name_and_shape() -> None:
    assert tensors.compare(WANTED, {"a.weight": (2, 2), "b.weight": (2,), "head.weight": (1,)}, False) == ([], [], [])
    assert tensors.compare(WANTED, {"a.weight": (2, 3), "c.weight": (1,)}, False) == (
        ["b.weight"],
        ["c.weight"],
        ["a.weight"],
    )


def test_packed_weights_and_experts_are_compared_by_their_modules() -> None:
    packed = {"a.qweight": (1, 2), "a.scales": (1,), "b.weight": (2,)}
    assert tensors.compare(WANTED, packed, True) == ([], [], [])
    fused = tensors.Wanted("Moe", {"mlp.experts.down_proj": (4, 2, 2)}, set())
    assert tensors.compare(fused, {"mlp.experts.0.down_proj.weight": (2, 2)}, False) == ([], [], [])


# Files


def cached(folder: Path, content: bytes) -> Path:
    """As the hub's cache has it: a link to a blob that is named by its digest."""
    blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes(content)
    place = folder / "snapshots" / "main"
    place.mkdir(parents=True, exist_ok=True)
    (place / "model.safetensors").symlink_to(blob)
    return blob


def test_every_byte_is_compared_with_the_digest(tmp_path: Path) -> None:
    blob = cached(tmp_path, b"weights" * 1000)
    good = read_whole(tmp_path / "snapshots" / "main", 60, threading.Event())
    assert (good.wrong, good.compared, good.share, good.why_not) == ((), 1, 1.0, None)
    blob.write_bytes(b"weighty" * 1000)
    bad = read_whole(tmp_path / "snapshots" / "main", 60, threading.Event())
    assert bad.wrong == (("model.safetensors", "is not what its name in the hub's cache says: its digest is another"),)


def test_reading_that_is_stopped_says_how_far_it_came(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes(20 << 20))
    stop = threading.Event()
    stop.set()
    read = read_whole(tmp_path, 60, stop)
    assert read.share < 1
    assert read.why_not == "0.01 of 0.02 GiB were read, then it was stopped"


def model(folder: Path) -> Path:
    """A deployment of one tiny model beside it."""
    write_tiny_llama(folder / "tiny")
    path = folder / "deployment.yaml"
    path.write_text("models:\n  - {name: tiny, model: ./tiny, args: {tensor-parallel-size: 2}}\n", encoding="utf-8")
    return path


def test_the_audit_of_files_names_what_is_damaged(tmp_path: Path) -> None:
    deployment = read_deployment(model(tmp_path))
    weights = tmp_path / "tiny" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    found = examine(Examine("file-audit", deployment.models[0], deployment, {}), HERE, threading.Event())
    assert values(found)["files.damaged_file"] == "model.safetensors"
    assert values(found)["files.read_share"] == 1.0


# GPUs


def test_what_others_take_during_a_load(fake_driver: FakeDriver) -> None:
    """Process 1 takes 2 GiB while one that the console has started takes 4."""
    child = subprocess.Popen(["sleep", "1000"])
    try:
        fake_driver.show(FakeGpu(used_gib=1, processes=(FakeProcess(1, 1.0), FakeProcess(child.pid, 0.0))))
        growth = GpuGrowth([0])
        growth.start()
        until(lambda: growth.readings > 0)
        fake_driver.show(FakeGpu(used_gib=7, processes=(FakeProcess(1, 3.0), FakeProcess(child.pid, 4.0))))
        seen = growth.readings
        until(lambda: growth.readings > seen + 1)
        found = growth.end()
    finally:
        child.kill()
        child.wait()
    assert values(found) == {GROWTH: 2.0}
    assert "GPU 0: +2.00 GiB" in origin(found.facts[GROWTH])


def test_memory_that_others_give_back_counts_below_zero(fake_driver: FakeDriver) -> None:
    fake_driver.show(FakeGpu(processes=(FakeProcess(1, 5.0),)), FakeGpu())
    growth = GpuGrowth(None)
    growth.start()
    until(lambda: growth.readings > 0)
    fake_driver.show(FakeGpu(), FakeGpu(processes=(FakeProcess(1, 1.0),)))
    seen = growth.readings
    until(lambda: growth.readings > seen + 1)
    assert values(growth.end()) == {GROWTH: -5.0}


def test_a_process_whose_memory_is_not_said_leaves_it_open(fake_driver: FakeDriver) -> None:
    fake_driver.show(FakeGpu(processes=(FakeProcess(1),)))
    growth = GpuGrowth([0])
    growth.start()
    until(lambda: not growth._thread.is_alive())
    assert "process 1 holds" in str(growth.end().why_not)


def test_without_a_driver_the_reason_is_said(fake_driver: FakeDriver) -> None:
    fake_driver.say("init 9\n")
    growth = GpuGrowth(None)
    growth.start()
    found = growth.end()
    assert found.facts == {}
    assert "driver" in str(found.why_not)


# Commands


def test_probe_does_one_by_name_and_prints_its_facts(tmp_path: Path) -> None:
    words = ["--experiment", "port-test", "--engine", sys.executable, "--json", str(model(tmp_path))]
    result = CliRunner().invoke(probe, words, standalone_mode=False)
    assert result.exception is None, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["event"], told["experiment"], told["model"]) == ("experiment", "port-test", "tiny")
    assert told["outcome"] == "measured"
    assert isinstance(told["facts"]["host.port_is_free"]["value"], bool)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--experiment", "port-tset"], "there is no such experiment"),
        (["--experiment", "port-test", "--set", "args.port=1"], "nothing to change"),
        (["--set", "args.port=1"], "name one with --experiment"),
    ],
)
def test_what_cannot_be_asked_for_is_said(tmp_path: Path, words: list[str], said: str) -> None:
    error = CliRunner().invoke(probe, [*words, "--engine", sys.executable, str(model(tmp_path))]).exception
    assert isinstance(error, InputError)
    assert said in str(error)


def test_experiments_are_listed_and_shown() -> None:
    listed = CliRunner().invoke(playbooks, ["experiments", "--json"], standalone_mode=False)
    names = [json.loads(line)["name"] for line in listed.stdout.splitlines()]
    assert "all-reduce" in names
    shown = CliRunner().invoke(playbooks, ["show", "all-reduce"], standalone_mode=False)
    assert "tells apart" in shown.stdout


def test_what_each_rank_reached_decides_whom_to_look_at() -> None:
    class Process:
        def __init__(self, code: int) -> None:
            self.returncode = code

    class Told:
        def __init__(self, number: int, word: str, code: int, error: str = "") -> None:
            self.number, self.words, self.process, self.error = number, [word], Process(code), error
            self.step = all_reduce._WORDS.index(word)

    def judged(*ranks: Told) -> str:
        return str(all_reduce.judged(list(ranks), 1.0, "nccl", 50.0)[0]["ranks.silent"])  # type: ignore[arg-type]

    assert judged(Told(0, "met", -9), Told(1, "started", -9)) == "rank 1 did not meet the others: nothing more in 50 s"
    assert judged(Told(0, "started", -9), Told(1, "met", 1, "unhandled cuda error")) == (
        "rank 1 did not finish the sum: unhandled cuda error"
    )


class FakeCuda:
    """A GPU whose free memory lies in blocks; one that is too large is refused as torch does it."""

    def __init__(self, *blocks_mib: int) -> None:
        self._blocks = blocks_mib

    def set_device(self, _device: int) -> None: ...
    def empty_cache(self) -> None: ...

    def mem_get_info(self, _device: int) -> tuple[int, int]:
        return sum(self._blocks) << 20, 80 << 30

    def empty(self, size: int, **_: object) -> None:
        if size > max(self._blocks) << 20:
            raise RuntimeError("CUDA out of memory.")


@pytest.mark.parametrize("blocks", [(4096,), (1024, 512, 2048), (16,)])
def test_the_largest_block_is_found_beside_what_is_free(blocks: tuple[int, ...]) -> None:
    cuda = FakeCuda(*blocks)
    torch = SimpleNamespace(cuda=cuda, empty=cuda.empty, uint8=object())
    assert largest_allocation.largest(torch, 0) == (max(blocks) << 20, sum(blocks) << 20)
