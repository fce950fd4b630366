"""Ends processes for good and removes the shared memory that they alone held."""

import os
import signal
import time

from engine_probe.child import process_tree


class Swept:
    """What a sweep did: pids it killed, shared memory it removed, what it could not remove."""

    def __init__(self):
        self.killed = set()
        self.removed_shm = set()
        self.left_behind = set()


def sweep(select, known_shm=(), deadline_s=10.0):
    """Kill all that `select(processes)` names until it names none, then unlink their shared memory.

    All are stopped first: a tree that stands still cannot fork past us, and what it maps can be read before
    the maps vanish with it. `known_shm` are paths seen earlier, of processes that are gone by now.
    """
    result = Swept()
    shm = set(known_shm)
    deadline = time.monotonic() + deadline_s
    while True:
        pids = _living(select(process_tree.read_all()))
        if not pids:
            break
        if time.monotonic() > deadline:
            result.left_behind.update("pid %d (%s)" % (pid, process_tree.title(pid)) for pid in pids)
            break
        _signal_all(pids, signal.SIGSTOP)
        more = _living(select(process_tree.read_all()))
        if not more <= pids:
            _signal_all(more, signal.SIGSTOP)
            pids |= more
        for pid in pids:
            shm |= process_tree.shm_paths(pid)
        _signal_all(pids, signal.SIGKILL)
        result.killed |= pids
        _wait_until_gone(pids, deadline)
    _remove_shm(shm, result)
    return result


def _living(pids):
    found = set()
    for pid in pids:
        process = process_tree.read_one(pid)
        if process is not None and process.state not in "ZX":
            found.add(pid)
    return found


def _signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # gone already; one that is not ours shows up in left_behind


def _wait_until_gone(pids, deadline):
    while _living(pids) and time.monotonic() < deadline:
        reap()
        time.sleep(0.005)
    reap()


def reap():
    """Take every ended child; returns {pid: wait status}."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def _remove_shm(paths, result):
    """A segment that a living process outside still maps is not ours to remove."""
    existing = {path for path in paths if os.path.exists(path)}
    if not existing:
        return
    for pid in process_tree.read_all():
        if pid != os.getpid():
            existing -= process_tree.shm_paths(pid)
    for path in existing:
        try:
            os.unlink(path)
            result.removed_shm.add(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            result.left_behind.add("%s (%s)" % (path, error.strerror))
