"""The file systems that models and caches lie on: their size, and how fast they are read from.

Looked at in a thread of its own: a network file system whose server is gone answers never.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.beside import Beside
from engine_probe.hardware.host import Disk

if TYPE_CHECKING:
    from collections.abc import Mapping

_GIB = 1024**3
_MIB = 1024**2
_SECTOR_BYTES = 512
_EVERY_SECONDS = 1.0
_LONG_SECONDS = 5.0
_FIRST_WAIT_SECONDS = 0.05
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "9p", "virtiofs", "afs", "wekafs")
)
_IN_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs"))


@dataclass(frozen=True)
class _Looked:
    """One file system at one time. `read_bytes` since the host was started, of the block device below it."""

    path: str
    what: str
    total_gib: Fact
    free_gib: Fact
    read_bytes: int | Unknown
    device: int
    at: float


class DiskWatch:
    """`root` is another tree with `proc` and `sys` in tests."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: dict[str, str] = {}
        self._before: tuple[_Looked, ...] = ()
        self._now: tuple[_Looked, ...] = ()
        self._beside: Beside[tuple[_Looked, ...]] = Beside(self._look, "disks")
        self._asked_at = 0.0

    @property
    def seconds(self) -> float:
        return self._beside.seconds

    def read(self, folders: Mapping[str, str]) -> tuple[Disk, ...]:
        """Of the look before; only the first is waited for, a moment."""
        is_new = dict(folders) != self._folders
        if is_new or time.monotonic() - self._asked_at >= _EVERY_SECONDS:
            self._folders = dict(folders)
            self._asked_at = time.monotonic()
            self._beside.ask()
            if is_new:
                self._beside.wait(_FIRST_WAIT_SECONDS)
        found = self._beside.result or ()
        if found is not self._now:
            self._before, self._now = self._now, found
        if self._beside.waiting_seconds > _LONG_SECONDS:
            return self._unanswered()
        return tuple(_disk(one, self._before) for one in found)

    def close(self) -> None:
        self._beside.close()

    def _unanswered(self) -> tuple[Disk, ...]:
        why = Unknown("a file system has not answered for some seconds: its server may be gone")
        return tuple(Disk(path, what, why, why, why) for path, what in self._folders.items())

    def _look(self) -> tuple[_Looked, ...]:
        found: dict[int, _Looked] = {}
        mounts = _mounts(self._root / "proc/self/mountinfo")
        for path, what in tuple(self._folders.items()):
            one = _look_at(path, what, self._root, mounts)
            if one is None:
                continue
            before = found.get(one.device)
            if before is None:
                found[one.device] = one
            elif what not in before.what.split(" and "):
                found[one.device] = _Looked(**{**vars(before), "what": f"{before.what} and {what}"})
        return tuple(found.values())


def _disk(one: _Looked, before: tuple[_Looked, ...]) -> Disk:
    return Disk(one.path, one.what, one.total_gib, one.free_gib, _rate(one, before))


def _rate(one: _Looked, before: tuple[_Looked, ...]) -> Fact:
    if isinstance(one.read_bytes, Unknown):
        return one.read_bytes
    earlier = next((old for old in before if old.device == one.device), None)
    if earlier is None or isinstance(earlier.read_bytes, Unknown) or one.at <= earlier.at:
        return Unknown("it takes two readings")
    rate = (one.read_bytes - earlier.read_bytes) / _MIB / (one.at - earlier.at)
    return Known(max(0.0, rate), "measured", "the kernel's counts of its block device")


def _look_at(path: str, what: str, root: Path, mounts: Mapping[str, tuple[str, str]]) -> _Looked | None:
    """None: neither the folder nor any above it can be seen, or it is none of this host's."""
    if not path.startswith("/"):
        return None
    for folder in (Path(path), *Path(path).parents):
        try:
            device = folder.stat().st_dev
            space = os.statvfs(folder)
        except (OSError, ValueError):
            continue
        origin = f"statvfs {folder}"
        return _Looked(
            path=path,
            what=what,
            total_gib=Known(space.f_blocks * space.f_frsize / _GIB, "measured", origin),
            free_gib=Known(space.f_bavail * space.f_frsize / _GIB, "measured", origin),
            read_bytes=_read_bytes(device, root, mounts),
            device=device,
            at=time.monotonic(),
        )
    return None


def _read_bytes(device: int, root: Path, mounts: Mapping[str, tuple[str, str]]) -> int | Unknown:
    number = f"{os.major(device)}:{os.minor(device)}"
    kind, source = mounts.get(number, ("", ""))
    base = kind.partition(".")[0]
    if base in _NETWORK or kind.startswith("fuse"):
        return Unknown(f"network file system ({kind}): the kernel does not count its reads")
    if base in _IN_MEMORY:
        return Unknown(f"it lies in memory ({kind})")
    folders = [root / "sys/dev/block" / number]
    if source.startswith("/dev/"):  # such as btrfs, whose devices have numbers of their own
        folders.append(root / "sys/class/block" / source.rpartition("/")[2])
    for folder in folders:
        sectors = _sectors_read(folder / "stat")
        if sectors is not None:
            return sectors * _SECTOR_BYTES
    return Unknown(f"which disk is below it cannot be told ({kind or 'its mount is not listed'})")


def _sectors_read(path: Path) -> int | None:
    """The third number of a block device's counts (the kernel's Documentation/block/stat.rst)."""
    try:
        return int(path.read_text(encoding="ascii").split()[2])
    except (OSError, ValueError, IndexError):
        return None


def _mounts(path: Path) -> dict[str, tuple[str, str]]:
    """Kind and source by device number (proc(5), mountinfo)."""
    found: dict[str, tuple[str, str]] = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        front, dash, back = line.partition(" - ")
        words, others = front.split(), back.split()
        if dash and len(words) > 2 and len(others) > 1:
            found[words[2]] = (others[0], others[1])
    return found
