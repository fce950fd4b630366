"""The memory limit of the control groups that this process is in: a container's, a unit's or a job's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine_probe.facts import Fact, Known, Unknown

_GIB = 1024**3
# Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
_HUGE_BYTES = 2**60


@dataclass(frozen=True)
class MemoryLimit:
    """The tightest limit above this process and what its group uses, page cache included."""

    limit_gib: Fact
    used_gib: Fact
    cached_gib: Fact
    """The part of `used_gib` that is file cache."""


@dataclass(frozen=True)
class NoLimit:
    """No control group limits memory: the host's RAM is the limit."""


@lru_cache(maxsize=256)
def below(folder: Path, name: str) -> Path:
    """`folder / name`, made once: pathlib interns each part of each new path, and who reads for days has that table
    copied again and again."""
    return folder / name


def read_limit(root: Path = Path("/")) -> MemoryLimit | NoLimit:
    """Look at this process's group and at every one above it, version 2 and version 1."""
    listing = below(root, "proc/self/cgroup")
    try:
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        unknown = Unknown(f"{listing} cannot be read: {error.strerror}")
        return MemoryLimit(unknown, unknown, unknown)
    found: list[tuple[int, Path, str]] = []
    for line in lines:
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _limits(below(root, "sys/fs/cgroup"), path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            base = below(root, "sys/fs/cgroup/memory")
            found += _limits(base, path, "memory.limit_in_bytes", "memory.usage_in_bytes")
    if not found:
        return NoLimit()
    limit_bytes, folder, usage_name = min(found, key=lambda one: one[0])
    origin = below(folder, "memory.max" if usage_name == "memory.current" else "memory.limit_in_bytes")
    limit = Known(limit_bytes / _GIB, "measured", str(origin))
    return MemoryLimit(limit, _usage(below(folder, usage_name)), _cached(below(folder, "memory.stat")))


def _limits(base: Path, path: str, limit_name: str, usage_name: str) -> list[tuple[int, Path, str]]:
    """Limits from the group itself up to `base`. Inside a container the path may be the host's and not exist."""
    folder = below(base, path.lstrip("/"))
    if ".." in path.split("/") or not folder.is_dir():
        folder = base
    found: list[tuple[int, Path, str]] = []
    while True:
        limit_bytes = _number(below(folder, limit_name))
        if limit_bytes is not None and limit_bytes < _HUGE_BYTES:
            found.append((limit_bytes, folder, usage_name))
        if folder == base:
            return found
        folder = folder.parent


def _number(path: Path) -> int | None:
    """None for `max`, which is no limit, and for a group that has no such file, as the root has none."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _usage(path: Path) -> Fact:
    used_bytes = _number(path)
    if used_bytes is None:
        return Unknown(f"{path} cannot be read")
    return Known(used_bytes / _GIB, "measured", str(path))


def _cached(path: Path) -> Fact:
    """Version 2 calls it `file`; version 1 `total_cache`, with the groups below."""
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:
        return Unknown(f"{path} cannot be read")
    sizes = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    name = next((one for one in ("file", "total_cache", "cache") if one in sizes), None)
    return Unknown(f"{path} has no size of the cache") if name is None else _known(sizes[name], f"{path} {name}")


def _known(size_bytes: int, origin: str) -> Known:
    return Known(size_bytes / _GIB, "measured", origin)
