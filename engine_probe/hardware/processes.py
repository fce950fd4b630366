"""The processes of this host, looked at again and again for little: new ones, young ones, those that are asked for.

Others are read again in turn, a few a look, because a process may give itself another title at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.hardware.processes_read import (
    TICKS_PER_SECOND,
    boot_time,
    read_pids,
    read_stat,
    read_words,
)
from engine_probe.hardware.server_titles import Part, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.hardware.processes_read import Stat

_YOUNG_SECONDS = 60.0
_WORDS_SECONDS = 4.0
_IN_TURN = 8
_ENDED_SECONDS = 10.0
"""So long a driver may still list a process that has ended: it gives back its memory."""
_MOST_ANCESTORS = 64
_MOST_WORDS = 12
_LONGEST_WORD = 200


@dataclass
class Process:
    """One process as it was last read. A zombie keeps the words that it had."""

    stat: Stat
    words: tuple[str, ...]
    started: float | None
    part: Part | None = None
    read_at: float = 0.0
    words_read_at: float = 0.0
    before: tuple[float, int] | None = None
    """When it was read the time before, and its CPU time then."""

    @property
    def key(self) -> tuple[int, int]:
        """Tells it from a later process of the same number."""
        return self.stat.pid, self.stat.start_ticks


@dataclass
class Processes:
    """`look` brings `known` up to date; everything else only reads it."""

    proc: str
    known: dict[int, Process] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    """Of those that were watched, which have just ended, and when that was seen."""
    reads: int = 0
    """Processes read so far: what looking costs."""
    _boot_time: float | None = None
    _turn: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._boot_time = boot_time(self.proc)

    def look(self, now: float, watched: Iterable[int]) -> None:
        """`watched` are read each time; `now` in seconds since the epoch."""
        pids = read_pids(self.proc)
        gone = self.known.keys() - pids
        wanted = set(watched)
        self.ended = {pid: when for pid, when in self.ended.items() if now - when < _ENDED_SECONDS and pid not in pids}
        self.ended |= dict.fromkeys(gone & wanted, now)
        for pid in gone:
            del self.known[pid]
        again = wanted & pids
        again |= {pid for pid, one in self.known.items() if self._is_due(one, now, gone)}
        turn = self._next_in_turn()
        for pid in pids:
            if pid in again or pid in turn or pid not in self.known:
                self._read(pid, now, has_turn=pid in turn)

    def _is_due(self, one: Process, now: float, gone: set[int]) -> bool:
        """A young one is read again each time that its age has grown by half."""
        age = _YOUNG_SECONDS if one.started is None else now - one.started
        is_young = age < _YOUNG_SECONDS and now - one.read_at > age / 3
        return is_young or one.stat.ppid in gone

    def _next_in_turn(self) -> set[int]:
        if not self._turn:
            self._turn = list(self.known)
        chosen, self._turn = self._turn[:_IN_TURN], self._turn[_IN_TURN:]
        return set(chosen)

    def _read(self, pid: int, now: float, *, has_turn: bool) -> None:
        stat = read_stat(self.proc, pid)
        if stat is None:
            self.known.pop(pid, None)
            return
        self.reads += 1
        before = self.known.get(pid)
        if before is not None and before.stat.start_ticks != stat.start_ticks:
            before = None
        if before is None:
            words = read_words(self.proc, pid)
            started = None if self._boot_time is None else self._boot_time + stat.start_ticks / TICKS_PER_SECOND
            part = part_of(words or (stat.name,))
            self.known[pid] = Process(stat, _kept(words, part), started, part, now, now)
            return
        is_renamed = stat.name != before.stat.name  # another program, and most titles, have another name, too
        before.before = (before.read_at, before.stat.cpu_ticks)
        before.stat, before.read_at = stat, now
        if is_renamed or has_turn or now - before.words_read_at > _WORDS_SECONDS:
            self._read_words(before, now)

    def _read_words(self, one: Process, now: float) -> None:
        words, one.words_read_at = read_words(self.proc, one.stat.pid), now
        if words:
            one.part = part_of(words)
            one.words = _kept(words, one.part)

    def parents(self, pid: int) -> list[Process]:
        """From the parent up."""
        found: list[Process] = []
        one = self.known.get(pid)
        while one is not None and len(found) < _MOST_ANCESTORS:
            one = self.known.get(one.stat.ppid)
            if one is not None:
                found.append(one)
        return found

    def children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for pid, one in self.known.items():
            found.setdefault(one.stat.ppid, []).append(pid)
        return found


def _kept(words: tuple[str, ...], part: Part | None) -> tuple[str, ...]:
    """All of a command of vLLM's; of any other as much as tells what it is."""
    return words if part is not None else tuple(word[:_LONGEST_WORD] for word in words[:_MOST_WORDS])
