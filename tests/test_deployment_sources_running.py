"""The servers that run on a host as a deployment: their commands, GPUs, memory, and paths inside of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment_sources.running import cards_beside, read_running
from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.reading import MemorySplit, Reading, Server
from engine_probe.memory.cards import live_cards
from engine_probe.memory.estimates import Estimate
from tests.fake_proc import FakeProc
from tests.readings import NOT_KNOWN, NOW, gpu, host, known, server

if TYPE_CHECKING:
    from pathlib import Path

DOCKER = "docker 0123456789ab"


def reading(*servers: Server) -> Reading:
    return Reading(NOW, "box", GpuState((gpu(0), gpu(1))), host(), servers)


def argv(*words: str) -> tuple[str, ...]:
    return ("/venv/bin/python3", "/venv/bin/vllm", "serve", *words)


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def started(proc: FakeProc, one: Server, env: dict[str, str] | None = None, mounts: str | None = None) -> Server:
    proc.add(one.pid, one.argv, env=env or {"SHELL": "/bin/sh"})
    if mounts is not None:
        (proc.proc / str(one.pid) / "mountinfo").write_text(mounts)
    return one


def test_servers_become_launches_in_the_order_they_started(proc: FakeProc) -> None:
    env = {
        "VLLM_USE_V1": "0",
        "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz012345",
        "CUDA_VISIBLE_DEVICES": "3",
        "SHELL": "x",
    }
    late = server("late", 20, argv=argv("acme/late", "--gpu-memory-utilization", "0.4"), gpus=(1,), started=NOW - 5)
    early = server("early", 10, argv=argv("acme/early", "-tp", "2"), gpus=(0, 1), started=NOW - 50)
    found = read_running(reading(started(proc, late, env), started(proc, early)), proc.root)
    first, second = found.deployment.models
    assert (first.name, first.model, first.gpus) == ("early", "acme/early", (0, 1))
    assert (second.arg("gpu-memory-utilization"), second.gpus) == (0.4, (1,))
    assert dict(second.env) == {"VLLM_USE_V1": "0"}, "NVML says which GPUs; secrets and the shell's own stay out"
    assert first.engine is not None
    assert first.engine.python == "/venv/bin/python3"
    assert found.versions == {"early": "0.19.0", "late": "0.19.0"}
    assert found.deployment.notes == ()


def test_what_the_servers_hold_is_added_up_by_gpu(proc: FakeProc) -> None:
    def split(index: int, used: float | None) -> MemorySplit:
        return MemorySplit(index, NOT_KNOWN if used is None else known(used), NOT_KNOWN, NOT_KNOWN, NOT_KNOWN)

    one = server("a", 10, argv=argv("acme/a"), gpus=(0, 1), memory=(split(0, 30.0), split(1, 31.0)))
    two = server("b", 20, argv=argv("acme/b"), gpus=(0,), memory=(split(0, 10.5), split(1, None)))
    running = read_running(reading(started(proc, one), started(proc, two)), proc.root)
    held = running.held_gib
    assert isinstance(held[0], Known)
    assert held[0].value == pytest.approx(40.5)
    assert isinstance(held[1], Unknown)
    cards = live_cards(GpuState(tuple(gpu(index, used=42.0, reserved_gib=known(0.5)) for index in (0, 1))))
    first, second = cards_beside(running, cards)
    assert isinstance(first.others_gib, Estimate)
    assert first.others_gib.value == pytest.approx(1.5)
    assert isinstance(second.others_gib, Unknown)


def test_orphans_and_odd_commands_are_named_and_stay_out(proc: FakeProc) -> None:
    servers = (
        server("good", 10, argv=argv("acme/good")),
        server("left", 20, argv=argv("acme/left"), state="orphan"),
        server("odd", 30, argv=argv("acme/odd", "--port")),
        server("hidden", 40, argv=()),
    )
    found = read_running(reading(*(started(proc, one) for one in servers)), proc.root)
    assert [one.name for one in found.deployment.models] == ["good"]
    notes = "\n".join(found.deployment.notes)
    for told in ("pid 20 (left) is orphan", 'pid 30 (odd): the flag "--port" needs a value', "pid 40 (hidden)"):
        assert told in notes


def test_nothing_that_runs_is_an_error_with_the_reasons(proc: FakeProc) -> None:
    with pytest.raises(InputError, match="no vLLM server runs on box"):
        read_running(reading(), proc.root)
    with pytest.raises(InputError, match="is ending"):
        read_running(reading(started(proc, server(state="ending"))), proc.root)


def test_two_servers_of_one_name_are_told_apart(proc: FakeProc) -> None:
    pair = [started(proc, server("m", pid, argv=argv("acme/m", "--port", str(pid)))) for pid in (10, 20)]
    assert [one.name for one in read_running(reading(*pair), proc.root).deployment.models] == ["m-10", "m-20"]


def test_an_environment_that_cannot_be_read_is_said(proc: FakeProc) -> None:
    one = server("m", 10, argv=argv("acme/m"))
    proc.add(one.pid, one.argv)
    assert "its environment cannot be read" in read_running(reading(one), proc.root).deployment.notes[0]


def test_a_path_in_a_container_is_mapped_by_its_mounts(proc: FakeProc, tmp_path: Path) -> None:
    (tmp_path / "data" / "my models" / "m").mkdir(parents=True)
    (proc.proc / "self" / "mountinfo").write_text(f"21 1 8:1 / {tmp_path} rw - ext4 /dev/sda1 rw\n")
    mounts = "30 1 0:50 / / rw - overlay overlay rw\n31 30 8:1 /data/my\\040models /models ro - ext4 /dev/sda1 rw\n"
    one = server("m", 10, argv=argv("/models/m", "--chat-template", "/etc/x.jinja"), container=DOCKER)
    found = read_running(reading(started(proc, one, mounts=mounts)), proc.root)
    launch = found.deployment.models[0]
    assert launch.model == str(tmp_path / "data" / "my models" / "m")
    assert launch.engine is not None
    assert launch.engine.container == "0123456789ab"
    assert launch.arg("chat-template") == "/etc/x.jinja"
    assert found.deployment.notes == (
        "pid 10 (m): chat-template /etc/x.jinja: it lies in a container, and where that is on the host cannot be read",
    )


def test_a_path_in_a_container_is_read_through_its_root_where_that_is_allowed(proc: FakeProc) -> None:
    one = started(proc, server("m", 10, argv=argv("/models/m"), container=DOCKER))
    inside = proc.proc / "10" / "root" / "models" / "m"
    inside.mkdir(parents=True)
    assert read_running(reading(one), proc.root).deployment.models[0].model == str(inside)


def test_a_relative_model_is_found_from_the_server_s_folder(proc: FakeProc, tmp_path: Path) -> None:
    (tmp_path / "work" / "models" / "m").mkdir(parents=True)
    for pid, written in ((10, "models/m"), (20, "./models/m"), (30, "acme/other")):
        started(proc, server(f"s{pid}", pid, argv=argv(written)))
        (proc.proc / str(pid) / "cwd").symlink_to(tmp_path / "work")
    servers = [server(f"s{pid}", pid, argv=argv(written)) for pid, written in ((10, "models/m"), (20, "./models/m"))]
    found = read_running(reading(*servers, server("s30", 30, argv=argv("acme/other"))), proc.root)
    here = str(tmp_path / "work" / "models" / "m")
    assert [one.model for one in found.deployment.models] == [here, here, "acme/other"]


def test_masked_words_stay_masked(proc: FakeProc) -> None:
    one = started(proc, server("m", 10, argv=argv("acme/m", "--api-key", "***")))
    assert read_running(reading(one), proc.root).deployment.models[0].arg("api-key") == "***"
