"""Where a hung process stands: Python stacks by faulthandler, else what /proc says."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from engine_probe.child import log_tap, process_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_CHARACTERS = 20_000


def collect(
    private_dir: str, pids: Sequence[int], titles: Mapping[int, str], wait_s: float = 2.0
) -> list[dict[str, Any]]:
    """[{pid, name, stack, unavailable}] for each pid, at most `wait_s` for all."""
    # The sizes first: a quick process has answered before we look again.
    sizes = {pid: _size(_path(private_dir, pid)) for pid in pids}
    before = {pid: size for pid, size in sizes.items() if _ask(private_dir, pid)}
    written = _wait_until_written(private_dir, before, wait_s)
    return [_row(private_dir, pid, titles.get(pid, "?"), before.get(pid, 0), pid in written) for pid in pids]


def _ask(private_dir: str, pid: int) -> bool:
    # Where nobody has a handler the signal would end the process.
    if not os.path.exists(_path(private_dir, pid)) or not process_tree.catches(pid, log_tap.STACKS_SIGNAL):
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, log_tap.STACKS_SIGNAL)
        return True
    return False


def _wait_until_written(private_dir: str, before: Mapping[int, int], wait_s: float) -> set[int]:
    """The pids whose files have grown and then stood still."""
    deadline = time.monotonic() + wait_s
    last: dict[int, int] = {}
    done: set[int] = set()
    while len(done) < len(before) and time.monotonic() < deadline:
        for pid in before.keys() - done:
            size = _size(_path(private_dir, pid))
            if size > before[pid] and last.get(pid) == size:
                done.add(pid)
            last[pid] = size
        time.sleep(0.05)
    return done


def _row(private_dir: str, pid: int, name: str, start: int, is_written: bool) -> dict[str, Any]:
    if not is_written:
        process = process_tree.read_one(pid)
        state = process.state if process else "gone"
        return {"pid": pid, "name": name, "stack": [], "unavailable": f"did not answer (state {state})"}
    with open(_path(private_dir, pid), errors="replace") as file:
        file.seek(start)
        stack = file.read()[-_MAX_CHARACTERS:].splitlines()
    return {"pid": pid, "name": name, "stack": stack, "unavailable": None}


def _path(private_dir: str, pid: int) -> str:
    return os.path.join(private_dir, f"stacks-{pid}")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
