"""The host's memory: RAM, the container's limit, swap and shared memory, each measured or unknown with a reason."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.cgroup import NoLimit, below, read_limit

_GIB = 1024**3
_KIB_PER_GIB = 1024**2
_NOT_ASKED = Unknown("it was not asked for")


@dataclass(frozen=True)
class HostState:
    """`cgroup_limit_gib` and `cgroup_used_gib` are None when nothing but the RAM itself limits this process."""

    ram_total_gib: Fact
    ram_available_gib: Fact
    swap_total_gib: Fact
    swap_free_gib: Fact
    shm_total_gib: Fact
    shm_free_gib: Fact
    cgroup_limit_gib: Fact | None
    cgroup_used_gib: Fact | None
    ram_cached_gib: Fact = _NOT_ASKED
    cpu_percent: Fact = _NOT_ASKED
    """Of all cores together, 0 to 100."""
    disks: tuple[Disk, ...] = ()
    cgroup_cached_gib: Fact = _NOT_ASKED
    """The part of `cgroup_used_gib` that is file cache, which the kernel gives back before it kills (memory.stat)."""
    open_files_limit: Fact = _NOT_ASKED
    """How many files a process started from here may have open (soft limit)."""


@dataclass(frozen=True)
class Disk:
    """A file system that models or caches lie on. `read_mib_per_second` since the reading before."""

    path: str
    what: str
    """Such as "models" or "caches", in words."""
    total_gib: Fact
    free_gib: Fact
    read_mib_per_second: Fact


def read_host(root: Path = Path("/")) -> HostState:
    """`root` is another tree with `proc`, `sys` and `dev` in tests."""
    meminfo = below(root, "proc/meminfo")
    sizes, why_not = _meminfo(meminfo)
    shm_total, shm_free = _shm(below(root, "dev/shm"))
    limit = read_limit(root)
    if isinstance(limit, NoLimit):
        limit_gib: Fact | None = None
        used_gib: Fact | None = None
        cached_gib: Fact = Unknown("no control group limits memory here")
    else:
        limit_gib, used_gib, cached_gib = limit.limit_gib, limit.used_gib, limit.cached_gib
    return HostState(
        ram_total_gib=_size(sizes, "MemTotal", meminfo, why_not),
        ram_available_gib=_size(sizes, "MemAvailable", meminfo, why_not),
        swap_total_gib=_size(sizes, "SwapTotal", meminfo, why_not),
        swap_free_gib=_size(sizes, "SwapFree", meminfo, why_not),
        shm_total_gib=shm_total,
        shm_free_gib=shm_free,
        cgroup_limit_gib=limit_gib,
        cgroup_used_gib=used_gib,
        ram_cached_gib=_size(sizes, "Cached", meminfo, why_not),
        cgroup_cached_gib=cached_gib,
    )


def _meminfo(path: Path) -> tuple[dict[str, int], str | None]:
    """Sizes in KiB by name, and why there are none."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError as error:
        return {}, f"{path} cannot be read: {error.strerror}"
    sizes: dict[str, int] = {}
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[2] == "kB" and words[1].isdigit():
            sizes[words[0].rstrip(":")] = int(words[1])
    return sizes, None


def _size(sizes: dict[str, int], name: str, path: Path, why_not: str | None) -> Fact:
    if name not in sizes:
        return Unknown(why_not or f"{path} has no {name}")
    return Known(sizes[name] / _KIB_PER_GIB, "measured", f"{path} {name}")


def _shm(path: Path) -> tuple[Fact, Fact]:
    try:
        space = os.statvfs(path)
    except OSError as error:
        unknown = Unknown(f"{path} cannot be read: {error.strerror}")
        return unknown, unknown
    origin = f"statvfs {path}"
    total_gib, free_gib = space.f_blocks * space.f_frsize / _GIB, space.f_bavail * space.f_frsize / _GIB
    return Known(total_gib, "measured", origin), Known(free_gib, "measured", origin)
