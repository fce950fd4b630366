"""What a console's loads leave on this host, told from what others run at the same time."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.child import process_tree

if TYPE_CHECKING:
    from collections.abc import Callable


class Leftovers:
    """Made before the console starts; `environment` is to be given to it, and `look` called while it runs."""

    def __init__(self) -> None:
        self._mark = f"LEAVES_NOTHING={uuid.uuid4()}"
        self._shm_before = set(Path("/dev/shm").iterdir())
        # Short, because paths of sockets are.
        self.temp = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        self._seen: set[tuple[int, int]] = set()
        name, _, value = self._mark.partition("=")
        self.environment = {"TMPDIR": str(self.temp), name: value}

    def look(self, console: int) -> None:
        """Remember what runs below the console.

        The mark in the environment is overwritten once vLLM sets a title: who descends from it is ours all the same.
        """
        processes = process_tree.read_all()
        found = process_tree.descendants(processes, [console]) | process_tree.marked(self._mark)
        self._seen |= {(pid, processes[pid].start_ticks) for pid in found if pid in processes}

    def living(self) -> set[int]:
        """Processes of the load that run; a zombie holds nothing."""
        processes = process_tree.read_all()
        ours = {pid for pid, start in self._seen if pid in processes and processes[pid].start_ticks == start}
        ours |= process_tree.descendants(processes, ours) | process_tree.marked(self._mark)
        return {pid for pid in ours if pid in processes and processes[pid].state not in "ZX"}

    def shm(self) -> set[Path]:
        """New files in shared memory that no living process of somebody else has mapped."""
        new = set(Path("/dev/shm").iterdir()) - self._shm_before
        ours = self.living()
        of_others = {path for pid in process_tree.read_all() if pid not in ours for path in process_tree.shm_paths(pid)}
        return {path for path in new if str(path) not in of_others and path.name not in of_others}

    def temp_files(self) -> list[Path]:
        """torchinductor's cache is the user's, and stays."""
        return [path for path in self.temp.iterdir() if not path.name.startswith("torchinductor_")]

    def assert_gone(self) -> None:
        until(lambda: not self.living() and not self.shm() and not self.temp_files(), self.describe)
        shutil.rmtree(self.temp)

    def describe(self) -> str:
        return f"left: {[process_tree.title(p) for p in self.living()]} {self.shm()} {self.temp_files()}"


def until(holds: Callable[[], bool], describe: Callable[[], str], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.02)
