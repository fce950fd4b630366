"""A memory cgroup of the lab's own, in the hierarchy of version 1 or 2, removed with its processes at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from playbooks.lab.unmade import CannotMake

if TYPE_CHECKING:
    from collections.abc import Iterator

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")
_EMPTYING_SECONDS = 10.0


def memory_cgroups() -> tuple[Path, int]:
    """The folder in which a memory cgroup can be made, and the version of the hierarchy. Raises CannotMake."""
    for root, version, controllers in ((_V1, 1, None), (_V2, 2, _V2 / "cgroup.subtree_control")):
        if controllers is None and not (root / "memory.limit_in_bytes").exists():
            continue
        if controllers is not None and "memory" not in _text(controllers).split():
            continue
        if not os.access(root, os.W_OK):
            raise CannotMake(f"{root} is not writable, so no memory limit can be set")
        return root, version
    raise CannotMake("this host has no memory cgroups that a limit could be set in")


@contextlib.contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[str]:
    """Yields the file that a process writes its id into to be counted. Raises CannotMake."""
    root, version = memory_cgroups()
    group = root / f"vllm-console-lab-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
    except OSError as error:
        raise CannotMake(f"no cgroup can be made in {root}: {error.strerror}") from None
    try:
        _limit(group, version, limit_bytes)
        yield str(group / "cgroup.procs")
    finally:
        _remove(group)


def _limit(group: Path, version: int, limit_bytes: int) -> None:
    names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if version == 1 else ("memory.max",)
    try:
        for name in names:
            if (group / name).exists():
                (group / name).write_text(str(limit_bytes), encoding="ascii")
        if version == 2 and (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0", encoding="ascii")
    except OSError as error:
        raise CannotMake(f"{group.parent} takes no memory limit: {error.strerror}") from None


def _remove(group: Path) -> None:
    """Loads have ended by now; what may still be in it is ended."""
    until = time.monotonic() + _EMPTYING_SECONDS
    while group.exists() and time.monotonic() < until:
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        for word in _text(group / "cgroup.procs").split():
            with contextlib.suppress(OSError):
                os.kill(int(word), signal.SIGKILL)
        time.sleep(0.05)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
