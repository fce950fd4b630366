"""The processes of one load: found by parentage and session, remembered after they end."""

import os
import signal

from engine_probe.child import process_tree


class Members:
    """`root` leads a session of its own, so what it starts is known even after parents have died."""

    def __init__(self, root):
        self.root = root
        self.start_ticks = {}
        self.titles = {root: "vllm"}
        self.endings = {}
        self.shm = set()
        self._shm_listed = None

    def update(self, processes):
        """Take in what has come since the last scan; returns the living pids."""
        # A pid that was reused by a stranger has another start time: it must never be taken for ours.
        known = {
            pid for pid, ticks in self.start_ticks.items() if pid in processes and processes[pid].start_ticks == ticks
        }
        known |= {p.pid for p in processes.values() if p.session == self.root}
        living = set()
        for pid in process_tree.descendants(processes, known):
            process = processes[pid]
            self.start_ticks[pid] = process.start_ticks
            if process.exit_status is not None:
                self.endings.setdefault(pid, process.exit_status)
            elif process.state not in "ZX":
                living.add(pid)
        return living

    def name_all(self, living):
        for pid in living:
            self.titles[pid] = process_tree.title(pid)

    def remember_shm(self, living):
        """Look into the maps only when /dev/shm has changed: reading maps holds a process up a little."""
        try:
            listed = frozenset(os.listdir("/dev/shm"))
        except OSError:
            return
        if listed != self._shm_listed:
            self._shm_listed = listed
            for pid in living:
                self.shm |= process_tree.shm_paths(pid)

    def ended_processes(self):
        """As `Failed.processes` wants it: every process of the load that is gone."""
        rows = []
        for pid in sorted(self.start_ticks):
            process = process_tree.read_one(pid)
            alive = process is not None and process.state not in "ZX" and process.start_ticks == self.start_ticks[pid]
            if not alive:
                code, name = how_it_ended(self.endings.get(pid))
                rows.append({"pid": pid, "name": self.titles.get(pid, "?"), "exit_code": code, "signal": name})
        return rows


def how_it_ended(status):
    """(exit code, signal name) of a wait status; both None when the parent took it first."""
    if status is None:
        return None, None
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return None, signal.Signals(number).name
        except ValueError:
            return None, "signal %d" % number
    return os.WEXITSTATUS(status), None
