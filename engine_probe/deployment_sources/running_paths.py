"""A path as another process sees it → the same file as this one does: its working folder, its container's mounts."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import NamedTuple

from engine_probe.facts import Unknown
from engine_probe.hardware.processes_read import link_of, read_bytes
from engine_probe.paths import is_there

_ESCAPED = re.compile(r"\\([0-7]{3})")
_MOST_MOUNTS = 5_000


class _Mounted(NamedTuple):
    """`root`: the folder of the device that is mounted at `target`."""

    device: str
    root: str
    target: str


class Paths:
    """`is_inside`: the process runs in a container, whose paths are not the host's."""

    def __init__(self, proc: str, pid: int, *, is_inside: bool) -> None:
        self._proc = proc
        self._pid = pid
        self._is_inside = is_inside

    def of(self, written: str) -> str | Unknown:
        """A hub id comes back as it is; Unknown where the host cannot name the path."""
        if not written.startswith("/"):
            return self._relative(written)
        return self._mapped(posixpath.normpath(written)) if self._is_inside else written

    def _relative(self, written: str) -> str | Unknown:
        """Also `models/m`, which may be a folder or a hub id: the folder wins, as for vLLM."""
        folder = link_of(f"{self._proc}/{self._pid}/cwd")
        is_path = written.startswith(("./", "../")) or written in (".", "..")
        if folder is None or not folder.startswith("/"):
            return Unknown("its working folder cannot be read") if is_path else written
        inside = posixpath.normpath(posixpath.join(folder, written))
        found = self._mapped(inside) if self._is_inside else inside
        if is_path:
            return found
        return found if isinstance(found, str) and is_there(Path(found)) else written

    def _mapped(self, inside: str) -> str | Unknown:
        theirs = _mounts(read_bytes(f"{self._proc}/{self._pid}/mountinfo"))
        holding = [one for one in theirs if _is_below(inside, one.target)]
        if holding:
            best = max(holding, key=lambda one: len(one.target.rstrip("/")))
            within = posixpath.normpath(posixpath.join(best.root, posixpath.relpath(inside, best.target)))
            for path in self._ours(best.device, within):
                if is_there(Path(path)):
                    return path
        through = f"{self._proc}/{self._pid}/root{inside}"
        if is_there_at_all(through):
            return through
        return Unknown("it lies in a container, and where that is on the host cannot be read")

    def _ours(self, device: str, within: str) -> list[str]:
        """Where this host has a folder of a device mounted, the nearest first."""
        ours = [one for one in _mounts(read_bytes(f"{self._proc}/self/mountinfo")) if one.device == device]
        fitting = sorted((one for one in ours if _is_below(within, one.root)), key=lambda one: -len(one.root))
        return [posixpath.normpath(posixpath.join(one.target, posixpath.relpath(within, one.root))) for one in fitting]


def is_there_at_all(path: str) -> bool:
    """False also where it may not be looked at."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _mounts(content: bytes | None) -> list[_Mounted]:
    """Lines of /proc/PID/mountinfo (man 5 proc): id, parent, device, root, target, …; blanks in paths are \\040."""
    found = []
    for line in (content or b"").decode("utf-8", "replace").splitlines()[:_MOST_MOUNTS]:
        parts = line.split(" ")
        if len(parts) >= 5:
            found.append(_Mounted(parts[2], _plain(parts[3]), _plain(parts[4])))
    return found


def _plain(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)


def _is_below(path: str, folder: str) -> bool:
    plain = folder.rstrip("/")
    return not plain or path == plain or path.startswith(f"{plain}/")
