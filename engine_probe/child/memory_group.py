"""The control group that limits a load's memory: what it may take, what it takes, how often the kernel killed in it."""

from __future__ import annotations

import os

_HUGE_BYTES = 2**60
"""Version 1 writes "no limit" as the largest multiple of the page size below 2^63."""
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control")
_V2 = ("memory.max", "memory.current", "memory.events")


class MemoryGroup:
    """Of version 2 or 1; `limit_bytes` is the tightest limit above the process."""

    def __init__(self, folder: str, names: tuple[str, str, str], limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._folder = folder
        self._names = names

    def used_bytes(self) -> int | None:
        """Without the file cache that the kernel takes back before it kills."""
        used = _number(os.path.join(self._folder, self._names[1]))
        if used is None:
            return None
        rows = _rows(os.path.join(self._folder, "memory.stat"))
        return max(0, used - rows.get("total_inactive_file", rows.get("inactive_file", 0)))

    def oom_kills(self) -> int | None:
        """Processes that the kernel has killed here for memory, ever. None: this kernel does not count them."""
        return _rows(os.path.join(self._folder, self._names[2])).get("oom_kill")


def group_of(pid: int, root: str = "/") -> MemoryGroup | None:
    """None where no group limits its memory, or it is gone."""
    found = None
    for line in _text(os.path.join(root, "proc", str(pid), "cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        is_v2 = controllers == ""
        if not is_v2 and "memory" not in controllers.split(","):
            continue
        base = os.path.join(root, "sys/fs/cgroup" if is_v2 else "sys/fs/cgroup/memory")
        folder = os.path.normpath(base + path)
        if not folder.startswith(base) or not os.path.isdir(folder):
            folder = base  # inside a container the path may be the host's
        while True:
            names = _V2 if is_v2 else _V1
            limit = _number(os.path.join(folder, names[0]))
            if limit is not None and limit < _HUGE_BYTES and (found is None or limit < found.limit_bytes):
                found = MemoryGroup(folder, names, limit)
            if len(folder) <= len(base):
                break
            folder = os.path.dirname(folder)
    return found


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _rows(path: str) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
