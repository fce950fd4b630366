"""What takes two looks at the host: processor and disks; and file systems that say nothing."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware import disks, host_watch
from engine_probe.hardware.disks import DiskWatch
from engine_probe.hardware.host_watch import HostWatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GIB = 1024**3


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("proc/self", "sys/dev/block", "dev/shm"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4194304 kB\nCached: 1048576 kB\n")
    cpu(tmp_path, 100, 900)
    return tmp_path


@pytest.fixture
def watch(root: Path) -> Iterator[HostWatch]:
    watch = HostWatch(root)
    yield watch
    watch.close()


def cpu(root: Path, busy: int, idle: int) -> None:
    (root / "proc/stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 5 5\ncpu0 1 2 3\nbtime 1\n")


def value(fact: object) -> object:
    assert isinstance(fact, Known), fact
    return fact.value


def test_the_processor_takes_two_looks(root: Path, watch: HostWatch) -> None:
    assert watch.read({}).cpu_percent == Unknown("it takes two readings")
    cpu(root, 130, 970)
    assert value(watch.read({}).cpu_percent) == pytest.approx(30.0)
    assert isinstance(watch.read({}).cpu_percent, Unknown), "no time has passed"
    (root / "proc/stat").unlink()
    assert isinstance(watch.read({}).cpu_percent, Unknown)


def test_the_origin_is_the_path_as_one_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((b"cpu  1 0 0 9 0 0 0 0 5 5\n", b"cpu  2 0 0 9 0 0 0 0 5 5\n"))
    monkeypatch.setattr(host_watch, "read_bytes", lambda _path: next(times))
    watch = HostWatch()
    watch.read({})
    percent = watch.read({}).cpu_percent
    watch.close()
    assert isinstance(percent, Known)
    assert percent.origin == "/proc/stat"


def test_cache_of_the_host_and_of_a_container(root: Path, watch: HostWatch) -> None:
    host = watch.read({})
    assert value(host.ram_cached_gib) == 1.0
    assert isinstance(host.cgroup_cached_gib, Unknown)
    group = root / "sys/fs/cgroup/box"
    group.mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/box\n")
    for name, content in (
        ("memory.max", f"{8 * GIB}"),
        ("memory.current", f"{3 * GIB}"),
        ("memory.stat", f"anon {GIB}\nfile {2 * GIB}\nfile_mapped 5\n"),
    ):
        (group / name).write_text(content + "\n")
    host = watch.read({})
    assert host.cgroup_limit_gib is not None
    assert host.cgroup_used_gib is not None
    assert [value(one) for one in (host.cgroup_limit_gib, host.cgroup_used_gib, host.cgroup_cached_gib)] == [8, 3, 2]


def test_how_many_files_may_be_open(watch: HostWatch) -> None:
    limit = value(watch.read({}).open_files_limit)
    assert isinstance(limit, int)
    assert limit > 0


def device_of(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def read_disks(watch: DiskWatch, folders: dict[str, str]) -> list[disks.Disk]:
    """Once the look that this asks for has come."""
    watch.read(folders)
    watch._beside.wait(10)
    return list(watch.read(folders))


def counts(root: Path, folder: Path, sectors: int) -> None:
    device = root / "sys/dev/block" / device_of(folder)
    device.mkdir(exist_ok=True)
    (device / "stat").write_text(f"  10 0 {sectors} 5 1 1 1 1 0 5 5\n")


def test_a_disk_and_how_fast_it_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "_EVERY_SECONDS", 0.0)
    counts(root, root, 1000)
    watch = DiskWatch(root)
    (first,) = read_disks(watch, {str(root): "models"})
    assert (first.path, first.what) == (str(root), "models")
    assert 0 < float(str(value(first.free_gib))) <= float(str(value(first.total_gib)))
    sectors, found = 1000, [first]
    while not isinstance(found[0].read_mib_per_second, Known) or not found[0].read_mib_per_second.value:
        sectors += 5_000_000  # a look that nobody sees may take the last step for itself
        counts(root, root, sectors)
        found = read_disks(watch, {str(root): "models"})
    watch.close()


def test_folders_on_one_file_system_are_one_disk(root: Path) -> None:
    watch = DiskWatch(root)
    folders = {str(root / "models"): "models", str(root / "cache/not/there"): "caches", "relative\0name": "x"}
    (root / "models").mkdir()
    (one,) = read_disks(watch, folders)
    assert (one.path, one.what) == (str(root / "models"), "models and caches")
    watch.close()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nfs4", "network file system (nfs4): the kernel does not count its reads"),
        ("fuse.sshfs", "network file system (fuse.sshfs)"),
        ("tmpfs", "it lies in memory (tmpfs)"),
        ("overlay", "which disk is below it cannot be told (overlay)"),
    ],
)
def test_reads_that_are_not_counted(root: Path, kind: str, reason: str) -> None:
    line = f"36 35 {device_of(root)} / {root} rw,noatime shared:1 - {kind} server:/share rw\n"
    (root / "proc/self/mountinfo").write_text("garbage\n" + line)
    watch = DiskWatch(root)
    (one,) = read_disks(watch, {str(root): "models"})
    assert isinstance(one.read_mib_per_second, Unknown)
    assert one.read_mib_per_second.reason.startswith(reason)
    watch.close()


def test_btrfs_is_counted_by_the_device_that_it_names(root: Path) -> None:
    device = root / "sys/class/block/nvme0n1p2"
    device.mkdir(parents=True)
    (device / "stat").write_text("1 2 3000 4\n")
    line = f"36 35 {device_of(root)} / {root} rw - btrfs /dev/nvme0n1p2 rw\n"
    (root / "proc/self/mountinfo").write_text(line)
    watch = DiskWatch(root)
    (one,) = read_disks(watch, {str(root): "models"})
    assert one.read_mib_per_second == Unknown("it takes two readings")
    watch.close()


def test_a_file_system_that_never_answers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the mount of a server that is gone: the thread stays with it, readings go on."""
    over = threading.Event()
    asked = threading.Event()

    def hang(_: object) -> None:
        asked.set()
        over.wait(30)
        raise OSError

    monkeypatch.setattr(os, "statvfs", hang)
    monkeypatch.setattr(disks, "_LONG_SECONDS", 0.0)
    watch = DiskWatch(root)
    (one,) = watch.read({str(root): "models"})
    assert asked.is_set()
    assert isinstance(one.free_gib, Unknown)
    assert "has not answered" in one.free_gib.reason
    over.set()
    watch.close()
