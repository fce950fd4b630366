"""The processes of one load: found by parentage, session, output and environment, remembered after they end."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from engine_probe.child import process_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.child.process_tree import Process


class Members:
    """`root` leads a session of its own, so what it starts is known even after parents have died.

    What left that session and lost its parent was adopted by the keeper; it still prints into the load's
    pipe, or carries `mark` in its environment.
    """

    def __init__(self, pipe_inode: int, mark: str) -> None:
        self.root: int | None = None
        self.start_ticks: dict[int, int] = {}
        self.titles: dict[int, str] = {}
        self.endings: dict[int, int] = {}
        """Pid → wait status."""
        self.shm: set[str] = set()
        self.shm_before = process_tree.shm_listed()
        """What others had made before the load."""
        self._shm_seen: tuple[frozenset[str], frozenset[int]] | None = None
        self._pipe_inode = pipe_inode
        self._mark = mark

    def begin(self, root: int) -> None:
        self.root = root
        self.titles[root] = "vllm"
        process = process_tree.read_one(root)
        if process is not None:
            self.start_ticks[root] = process.start_ticks

    def on_exit(self, pid: int, status: int) -> bool:
        """Take in a wait status; False when the process is no member."""
        if pid != self.root and pid not in self.start_ticks:
            return False
        self.endings[pid] = status
        return True

    def update(self, processes: Mapping[int, Process]) -> set[int]:
        """Take in what has come since the last scan; returns the living pids."""
        living = set()
        for pid in process_tree.descendants(processes, self._known(processes)):
            process = processes[pid]
            self.start_ticks[pid] = process.start_ticks
            if process.exit_status is not None:
                self.endings.setdefault(pid, process.exit_status)
            elif process.is_living:
                living.add(pid)
        return living

    def _known(self, processes: Mapping[int, Process]) -> set[int]:
        # A pid that was reused by a stranger has another start time: it must never be taken for ours.
        known = {
            pid for pid, ticks in self.start_ticks.items() if pid in processes and processes[pid].start_ticks == ticks
        }
        if self.root is not None and (self.root in known or self.root not in processes):
            known |= {process.pid for process in processes.values() if process.session == self.root}
        keeper = os.getpid()
        orphans = (pid for pid, process in processes.items() if process.ppid == keeper and pid not in known)
        return known | {pid for pid in orphans if self._is_ours(pid)}

    def _is_ours(self, pid: int) -> bool:
        return process_tree.prints_into(pid, self._pipe_inode) or process_tree.is_marked(pid, self._mark)

    def name_all(self, living: Iterable[int]) -> None:
        for pid in living:
            self.titles[pid] = process_tree.title(pid)

    def remember_shm(self, living: Iterable[int]) -> None:
        """Look into the maps only when /dev/shm or the processes have changed: reading maps holds one up a little."""
        pids = frozenset(living)
        seen = (process_tree.shm_listed(), pids)
        if seen != self._shm_seen:
            self._shm_seen = seen
            for pid in pids:
                self.shm |= process_tree.shm_paths(pid) - self.shm_before

    def root_ending(self) -> tuple[int | None, str | None]:
        """How the root ended, see `how_it_ended`."""
        return how_it_ended(None if self.root is None else self.endings.get(self.root))

    def ended_processes(self) -> list[dict[str, Any]]:
        """As `Failed.processes` wants it: every process of the load that is gone."""
        rows = []
        for pid, ticks in sorted(self.start_ticks.items()):
            process = process_tree.read_one(pid)
            if process is None or not process.is_living or process.start_ticks != ticks:
                code, name = how_it_ended(self.endings.get(pid))
                rows.append({"pid": pid, "name": self.titles.get(pid, "?"), "exit_code": code, "signal": name})
        return rows


def how_it_ended(status: int | None) -> tuple[int | None, str | None]:
    """(exit code, signal name) of a wait status; both None when the parent took it first."""
    if status is None:
        return None, None
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return None, signal.Signals(number).name
        except ValueError:
            return None, f"signal {number}"
    return os.WEXITSTATUS(status), None
