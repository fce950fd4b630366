"""One process as a reading tells it: its memory, time, owner and title, from what was read of it."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.escapes import safe_lines
from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.processes_closely import Closely
from engine_probe.hardware.processes_read import PAGE_BYTES, TICKS_PER_SECOND, shared_pages
from engine_probe.hardware.reading import ProcessReading
from engine_probe.redact import mask, mask_argv

if TYPE_CHECKING:
    from engine_probe.hardware.processes import Process
    from engine_probe.hardware.reading import Role
    from engine_probe.hardware.server_where import Holding

_GIB = 1024**3
_LONGEST_TITLE = 300
HAS_ENDED = Unknown("the process has just ended")
NOT_VISIBLE = Unknown("the process is not visible here: it runs in another container or namespace")


@dataclass
class Teller:
    """Keeps what does not change: owners and titles."""

    proc: str
    closely: Closely = field(init=False)
    _owners: dict[tuple[int, int], tuple[str, bool]] = field(default_factory=dict)
    _titles: dict[tuple[int, int], tuple[tuple[str, ...], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.closely = Closely(self.proc)

    def forget_all_but(self, keys: set[tuple[int, int]]) -> None:
        for kept in (self._owners, self._titles):
            for key in kept.keys() - keys:
                del kept[key]

    def tell(
        self, one: Process, role: Role, rank: int | None, server: int | None, held: tuple[Holding, ...]
    ) -> ProcessReading:
        stat, closer = one.stat, self.closely.of(one)
        user, is_mine = self._owner(one)
        origin = f"{self.proc}/{stat.pid}/stat"
        shared = shared_pages(self.proc, stat.pid)
        return ProcessReading(
            pid=stat.pid,
            ppid=stat.ppid,
            title=self.title(one),
            role=role,
            user=user,
            is_mine=is_mine,
            started=one.started,
            rss_gib=Known(stat.rss_pages * PAGE_BYTES / _GIB, "measured", origin),
            pss_gib=closer.pss_gib,
            shared_gib=Unknown("it has ended") if shared is None else _pages(shared, f"{self.proc}/{stat.pid}/statm"),
            threads=Known(stat.threads, "measured", origin),
            open_files=closer.open_files,
            cpu_percent=_cpu_percent(one, origin),
            rank=rank,
            server=server,
            gpu_gib=held,
        )

    def title(self, one: Process) -> str:
        known = self._titles.get(one.key)
        if known is None or known[0] != one.words:
            text = safe_lines(mask(" ".join(mask_argv(one.words))))[:_LONGEST_TITLE] or f"[{safe_lines(one.stat.name)}]"
            known = self._titles[one.key] = (one.words, text)
        return known[1]

    def _owner(self, one: Process) -> tuple[str, bool]:
        known = self._owners.get(one.key)
        if known is None:
            known = self._owners[one.key] = _owner_of(f"{self.proc}/{one.stat.pid}")
        return known


def _owner_of(folder: str) -> tuple[str, bool]:
    """The user's name, and whether we may end what is theirs."""
    try:
        uid = os.stat(folder).st_uid  # noqa: PTH116
    except OSError:
        return "not known", False
    mine = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)  # a user of a container has no name here
    return name, mine in (0, uid)


def _cpu_percent(one: Process, origin: str) -> Fact:
    if one.before is None or one.read_at <= one.before[0]:
        return Unknown("it takes two readings")
    seconds = (one.stat.cpu_ticks - one.before[1]) / TICKS_PER_SECOND
    return Known(max(0.0, 100.0 * seconds / (one.read_at - one.before[0])), "measured", origin)


def _pages(pages: int, origin: str) -> Known:
    return Known(pages * PAGE_BYTES / _GIB, "measured", origin)


def invisible(pid: int, held: tuple[Holding, ...], *, has_ended: bool = False) -> ProcessReading:
    """Of a process that the driver knows and /proc does not show here, or not any more."""
    why = HAS_ENDED if has_ended else NOT_VISIBLE
    return ProcessReading(
        pid=pid,
        ppid=0,
        title="ending: it was here a moment ago" if has_ended else "host PID, not visible here",
        role="other",
        user="not known",
        is_mine=False,
        started=None,
        rss_gib=why,
        pss_gib=why,
        shared_gib=why,
        threads=why,
        open_files=why,
        cpu_percent=why,
        gpu_gib=held,
    )
