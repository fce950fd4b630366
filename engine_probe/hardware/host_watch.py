"""The host's memory, processor and disks, looked at again and again: also what only two looks tell, such as rates."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.disks import DiskWatch
from engine_probe.hardware.host import HostState, read_host
from engine_probe.hardware.processes_read import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDLE = (3, 4)
"""Of the times in /proc/stat: idle, and waiting for disks."""
_COUNTED = 8
"""Behind these stand a guest's times, which are in the user's already (proc(5))."""


class HostWatch:
    """`root` is another tree with `proc`, `sys` and `dev` in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._times: tuple[int, ...] | None = None
        self._disks = DiskWatch(root)

    @property
    def seconds(self) -> float:
        """CPU time of the threads beside the one that reads."""
        return self._disks.seconds

    def read(self, folders: Mapping[str, str]) -> HostState:
        """`folders`: paths and what they are in words, such as "models". Never waits for a file system for long."""
        return replace(
            read_host(self._root),
            cpu_percent=self._cpu_percent(),
            disks=self._disks.read(folders),
            open_files_limit=_open_files_limit(),
        )

    def close(self) -> None:
        self._disks.close()

    def _cpu_percent(self) -> Fact:
        path = str(self._root / "proc/stat")
        times = _cpu_times(read_bytes(path))
        before, self._times = self._times, times
        if times is None:
            return Unknown(f"{path} cannot be read")
        if before is None or sum(times) <= sum(before):
            return Unknown("it takes two readings")
        spent = [now - then for now, then in zip(times, before, strict=True)]
        idle = sum(spent[index] for index in _IDLE)
        return Known(min(100.0, max(0.0, 100.0 * (1 - idle / sum(spent)))), "measured", path)


def _cpu_times(content: bytes | None) -> tuple[int, ...] | None:
    words = (content or b"").split(b"\n", 1)[0].split()
    if len(words) <= _COUNTED or words[0] != b"cpu" or not all(word.isdigit() for word in words[1:]):
        return None
    return tuple(int(word) for word in words[1 : _COUNTED + 1])


def _open_files_limit() -> Known:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return Known(limit if limit != resource.RLIM_INFINITY else 2**31, "measured", "RLIMIT_NOFILE")
