"""A tree with `proc` that a test fills with processes; what is not written is as of a process that cannot be read."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGES_PER_GIB = 1024**3 // os.sysconf("SC_PAGE_SIZE")
BOOT = int(time.time()) - 100_000
LONG_AGO = BOOT + 90_000.0


class FakeProc:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc"
        self.proc.mkdir(parents=True)
        (self.proc / "stat").write_text(f"cpu  100 0 100 800 0 0 0 0 0 0\nbtime {BOOT}\n")
        (self.proc / "self").mkdir()
        (self.proc / "self/cgroup").write_text("0::/\n")

    def add(
        self,
        pid: int,
        words: Sequence[str] | str,
        parent: int = 1,
        *,
        state: str = "S",
        started: float | None = None,
        cpu_ticks: int = 0,
        rss_gib: float = 1.0,
        env: Mapping[str, str] | None = None,
        cgroup: str = "0::/user.slice\n",
        own_pid: int | None = None,
        group: int | None = None,
        name: str = "python",
        outputs: Sequence[Path] = (),
    ) -> None:
        """`words` as one text is a title; `outputs`: the files that descriptors 1 and 2 are."""
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        ticks = int(((started or LONG_AGO) - BOOT) * TICKS)
        pages = int(rss_gib * PAGES_PER_GIB)
        fields = [state, parent, group or pid, group or pid, 0, -1, 0, 0, 0, 0, 0, cpu_ticks, 0, 0, 0, 20, 0, 7, 0]
        rest = [ticks, 1 << 30, pages, *([0] * 27)]
        (folder / "stat").write_text(f"{pid} ({name}) " + " ".join(map(str, fields + rest)) + "\n")
        (folder / "cmdline").write_bytes(command_line(words))
        (folder / "statm").write_text(f"1 {pages} {pages // 2} 0 0 0 0\n")
        (folder / "status").write_text(f"Name:\t{name}\nNSpid:\t{pid}\t{own_pid or pid}\n")
        (folder / "smaps_rollup").write_text(f"0-1 ---p 00000000 00:00 0  [rollup]\nRss: 9 kB\nPss: {1024**2} kB\n")
        (folder / "cgroup").write_text(cgroup)
        if env is not None:
            content = "".join(f"{key}={value}\0" for key, value in env.items())
            (folder / "environ").write_bytes(content.encode())
        descriptors = folder / "fd"
        descriptors.mkdir(exist_ok=True)
        for number, path in enumerate(outputs, 1):
            link = descriptors / str(number)
            link.unlink(missing_ok=True)
            link.symlink_to(path)

    def end(self, pid: int) -> None:
        folder = self.proc / str(pid)
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        folder.rmdir()


def command_line(words: Sequence[str] | str) -> bytes:
    if isinstance(words, str):
        return words.encode() + b"\0\0\0\0"
    return b"".join(word.encode() + b"\0" for word in words)
