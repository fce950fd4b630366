"""Ends processes for good and removes the shared memory that they alone held."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Callable

from engine_probe.child import process_tree
from engine_probe.child.process_tree import Process

_Targets = dict[int, int]

_TRACKERS_S = 3.0
"""A resource tracker ends as soon as the last process that it tracks for is gone, and removes what they made first."""

Select = Callable[[Mapping[int, Process]], set[int]]
"""Names the pids to end among all processes; asked again after each round."""


@dataclass
class Swept:
    """What a sweep did: pids it killed, shared memory it removed, what it could not remove."""

    killed: set[int] = field(default_factory=set)
    removed_shm: set[str] = field(default_factory=set)
    left_behind: set[str] = field(default_factory=set)


def reap() -> dict[int, int]:
    """Take every ended child; returns the wait status of each."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def sweep(
    select: Select,
    known_shm: Iterable[str] = (),
    spared: Iterable[int] = (),
    collect_exits: Callable[[], object] = reap,
    deadline_s: float = 10.0,
    shm_of_others: Container[str] = (),
) -> Swept:
    """Kill all that `select` names until it names none, then unlink their shared memory.

    Python's resource trackers come last: they alone know of segments that nobody maps, and end by themselves.
    `known_shm` are paths seen earlier, of processes that are gone by now; `shm_of_others` were there before. Never
    signals init, this process, its parent or those `spared`.
    """
    result = Swept()
    shm = set(known_shm)
    never = {0, 1, os.getpid(), os.getppid(), *spared}
    deadline = time.monotonic() + deadline_s
    _end_all(lambda: _without_trackers(_targets(select, never)), shm, result, deadline, collect_exits)
    trackers = _targets(select, never)
    if trackers and time.monotonic() < deadline:
        _signal_all(trackers, signal.SIGCONT)
        _wait_until_gone(trackers, min(deadline, time.monotonic() + _TRACKERS_S), collect_exits)
    _end_all(lambda: _targets(select, never), shm, result, deadline, collect_exits)
    _remove_shm({path for path in shm if path not in shm_of_others}, result)
    return result


def _end_all(
    targets_now: Callable[[], _Targets],
    shm: set[str],
    result: Swept,
    deadline: float,
    collect_exits: Callable[[], object],
) -> None:
    """All are stopped first: a tree that stands still cannot fork past us, and its maps vanish with it."""
    while True:
        targets = targets_now()
        if not targets:
            return
        if time.monotonic() > deadline:
            result.left_behind.update(f"pid {pid} ({process_tree.title(pid)})" for pid in targets)
            return
        _signal_all(targets, signal.SIGSTOP)
        more = targets_now()
        _signal_all(more, signal.SIGSTOP)
        targets.update(more)
        for pid in targets:
            shm |= process_tree.shm_paths(pid)
        _signal_all(targets, signal.SIGKILL)
        result.killed.update(targets)
        _wait_until_gone(targets, deadline, collect_exits)


def _without_trackers(targets: _Targets) -> _Targets:
    return {pid: ticks for pid, ticks in targets.items() if not process_tree.is_resource_tracker(pid)}


def _targets(select: Select, never: set[int]) -> _Targets:
    """Pid → start time of the living that are to end. The start time tells a reused pid from the one meant."""
    processes = process_tree.read_all()
    chosen = (processes[pid] for pid in select(processes) - never if pid in processes)
    return {process.pid: process.start_ticks for process in chosen if process.is_living}


def _lives(pid: int, start_ticks: int) -> bool:
    process = process_tree.read_one(pid)
    return process is not None and process.is_living and process.start_ticks == start_ticks


def _signal_all(targets: _Targets, number: int) -> None:
    for pid, start_ticks in targets.items():
        if _lives(pid, start_ticks):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # one not ours shows up in left_behind
                os.kill(pid, number)


def _wait_until_gone(targets: _Targets, deadline: float, collect_exits: Callable[[], object]) -> None:
    while any(_lives(pid, ticks) for pid, ticks in targets.items()) and time.monotonic() < deadline:
        collect_exits()
        time.sleep(0.005)
    collect_exits()


def _remove_shm(paths: Iterable[str], result: Swept) -> None:
    """A segment that a living process still maps stays: another load's is no matter of this one, else it is said."""
    existing = {path for path in paths if os.path.exists(path)}
    if not existing:
        return
    processes = process_tree.read_all()
    of_other_loads = process_tree.descendants(processes, {os.getpid()})
    mapped: set[str] = set()
    for pid in processes.keys() - {os.getpid()}:
        held = existing & process_tree.shm_paths(pid)
        mapped |= held
        if pid not in of_other_loads:
            result.left_behind.update(f"{path} (pid {pid} maps it)" for path in held)
    for path in existing - mapped:
        try:
            os.unlink(path)
            result.removed_shm.add(path)
        except FileNotFoundError:
            pass  # its owner was quicker
        except OSError as error:
            result.left_behind.add(f"{path} ({error.strerror})")
