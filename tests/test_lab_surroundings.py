"""What a fault's loads find around them is really there while it lasts, and nowhere afterwards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from engine_probe.child import conditions
from engine_probe.child.ports import the_launchs_own
from engine_probe.child.spawn import spawn
from engine_probe.engine import local_engine
from engine_probe.load_conditions import LoadConditions, Tmpfs
from playbooks.lab.cgroups import memory_cgroups
from playbooks.lab.faults import fault_named
from playbooks.lab.mounts import why_no_mounts
from playbooks.lab.needs import why_not
from playbooks.lab.surroundings import SURROUNDINGS, Around, Scene, listen, memory_limit, process_limit, small_disk
from playbooks.lab.unmade import CannotMake

if TYPE_CHECKING:
    from collections.abc import Iterator

CAN_MOUNT = why_no_mounts() is None


def can_limit_memory() -> bool:
    try:
        memory_cgroups()
    except CannotMake:
        return False
    return True


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "lab", local_engine(sys.executable, "the test"))


@pytest.fixture
def around() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def said_under(under: LoadConditions, code: str, tmp_path: Path) -> tuple[int, str]:
    """The exit status and the output of Python code that lives under these conditions."""
    out = tmp_path / "said"
    with out.open("wb") as file:
        pid = spawn([sys.executable, "-c", code], os.environ, file.fileno(), under=under.order())
    return os.waitpid(pid, 0)[1], out.read_text(encoding="utf-8")


def test_a_port_is_taken_and_free_again(scene: Scene) -> None:
    with listen(scene) as found:
        port = int(found.words["port"])
        assert found.conditions.port_stays
        with pytest.raises(CannotMake, match=f"port {port} of 127.0.0.1"), listen(scene, port=port):
            pass
        assert the_launchs_own(["vllm", "--port", str(port)]).number == port
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


def test_limits_of_a_process_are_inherited(scene: Scene, around: ExitStack, tmp_path: Path) -> None:
    found: Around = around.enter_context(process_limit(scene, name="NOFILE", value=123))
    code = "import resource, subprocess, sys; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True);"
    code += "subprocess.run(['sh', '-c', 'ulimit -n'])"
    assert said_under(found.conditions, code, tmp_path) == (0, "123\n123\n")


def test_an_unknown_limit_cannot_be_made(scene: Scene) -> None:
    with pytest.raises(CannotMake, match="no limit FOO"), process_limit(scene, name="FOO", value=1):
        pass


@pytest.mark.skipif(not can_limit_memory(), reason="no memory cgroup can be made here")
def test_what_takes_more_memory_than_the_limit_is_killed_and_the_group_goes(scene: Scene, tmp_path: Path) -> None:
    with memory_limit(scene, extra_mib=64) as found:
        (joins,) = found.conditions.cgroups
        status, _ = said_under(found.conditions, "import sys; len(bytearray(200 * 2**20)); sys.exit(3)", tmp_path)
        assert os.WIFSIGNALED(status)
        status, _ = said_under(found.conditions, "import sys; len(bytearray(2**20)); sys.exit(3)", tmp_path)
        assert os.WEXITSTATUS(status) == 3
    assert not Path(joins).parent.exists()


@pytest.mark.skipif(not can_limit_memory(), reason="no memory cgroup can be made here")
def test_what_still_runs_in_a_group_ends_with_it(scene: Scene) -> None:
    with memory_limit(scene, extra_mib=64) as found:
        (joins,) = found.conditions.cgroups
        left = subprocess.Popen(["sleep", "600"])
        Path(joins).write_text(str(left.pid), encoding="ascii")
    assert left.wait(timeout=30) == -9
    assert not Path(joins).parent.exists()


@pytest.mark.skipif(not CAN_MOUNT, reason="no load can be given a disk of its own here")
def test_a_small_disk_is_full_soon_and_nobody_elses(scene: Scene, around: ExitStack, tmp_path: Path) -> None:
    found: Around = around.enter_context(small_disk(scene, kib=64))
    place = Path(found.words["small"])
    code = f"open({str(place / 'big')!r}, 'wb').write(bytes(200_000))"
    status, said = said_under(found.conditions, code, tmp_path)
    assert os.WEXITSTATUS(status) == 1
    assert "No space left on device" in said
    assert list(place.iterdir()) == []


@pytest.mark.skipif(not CAN_MOUNT, reason="no load can be given a disk of its own here")
def test_a_disk_that_cannot_be_written_and_a_place_that_goes_again(scene: Scene, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    with small_disk(scene, at=str(place), read_only=True) as found:
        status, said = said_under(found.conditions, f"open({str(place / 'a')!r}, 'w')", tmp_path)
        assert os.WEXITSTATUS(status) == 1
        assert "Read-only file system" in said
    assert not place.exists()
    place.mkdir()
    with small_disk(scene, at=str(place)):
        pass
    assert place.is_dir()


def test_conditions_that_cannot_be_had_are_an_error_of_the_load(tmp_path: Path) -> None:
    with pytest.raises(subprocess.SubprocessError):
        said_under(LoadConditions(cgroups=(str(tmp_path / "no" / "cgroup.procs"),)), "", tmp_path)
    with pytest.raises(OSError, match="no"):
        conditions.apply({"cgroups": [str(tmp_path / "no" / "cgroup.procs")]})


def test_conditions_add_up() -> None:
    one = LoadConditions(("a",), {"NOFILE": 1, "DATA": 2}, (Tmpfs("x", 1),))
    other = LoadConditions(("b",), {"NOFILE": 3}, port_stays=True)
    assert (one | other) == LoadConditions(("a", "b"), {"NOFILE": 3, "DATA": 2}, (Tmpfs("x", 1),), port_stays=True)


def test_every_surrounding_says_what_it_is() -> None:
    assert all(SURROUNDINGS.doc(name) for name in SURROUNDINGS.names)


def test_what_a_host_lacks_is_a_reason(scene: Scene) -> None:
    fault = fault_named("kv-cache-size-zero")
    assert why_not(fault, scene.engine) is None
    wants = replace(fault, spec=msgspec.structs.replace(fault.spec, needs=["network"]))
    assert why_not(wants, scene.engine) is not None
