"""Samples a load's memory, and notices when nothing moves any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe import events
from engine_probe.child import process_tree, stacks
from engine_probe.child.memory_group import group_of

if TYPE_CHECKING:
    from engine_probe.child.context import Context
    from engine_probe.child.members import Members
    from engine_probe.child.memory_group import MemoryGroup

_READ_STEP_BYTES = 1 << 16
_MEMORY_STEP_BYTES = 1 << 22


class Progress:
    """CPU time is no progress: ranks that wait for one another spin at 100 %."""

    def __init__(self, model: str, members: Members, context: Context, hang_s: float, now: float) -> None:
        self._model = model
        self._members = members
        self._context = context
        self._hang_s = hang_s
        self._mark: tuple[int, int, int] | None = None
        self._since = now
        self._is_hung = False
        self._group: MemoryGroup | None = None
        self._kills_before = 0

    def oom_kills(self) -> int | None:
        """Processes that the kernel has killed for memory, during the load, in the group that limits it."""
        kills = None if self._group is None else self._group.oom_kills()
        return None if kills is None else kills - self._kills_before

    def restart(self, now: float) -> None:
        """Something was asked of the model: from now on it has to move."""
        self._mark, self._since = None, now

    def check(self, living: set[int], printed_bytes: int, is_idle: bool, now: float) -> events.MemorySample:
        """Sample, and return it; report a load that is expected to move and does not, once."""
        sample = self._sample(living)
        mark = (
            printed_bytes,
            (sample.read_bytes or 0) // _READ_STEP_BYTES,
            (sample.rss_bytes or 0) // _MEMORY_STEP_BYTES,
        )
        silent_seconds = now - self._since
        if mark != self._mark or is_idle:
            self._mark, self._since = mark, now
            self._is_hung = False
        elif silent_seconds > self._hang_s and not self._is_hung:
            self._is_hung = True
            found = stacks.collect(self._context.private_dir, sorted(living), self._members.titles)
            self._context.emit(events.Hung(self._model, silent_seconds=round(silent_seconds, 1), stacks=found))
        return sample

    def _sample(self, living: set[int]) -> events.MemorySample:
        self._members.name_all(living)
        rows: list[dict[str, Any]] = []
        sizes = []
        for pid in sorted(living):
            size = process_tree.rss_bytes(pid)
            rows.append({"pid": pid, "name": self._members.titles[pid], "rss_bytes": size})
            sizes += [] if size is None else [size]
        reads = [count for count in map(process_tree.read_bytes, living) if count is not None]
        total, available = process_tree.memory_info()
        self._find_group()
        sample = events.MemorySample(
            self._model,
            rss_bytes=sum(sizes) if sizes else None,
            processes=rows,
            host_available_bytes=available,
            host_total_bytes=total,
            read_bytes=sum(reads) if reads else None,
            limit_bytes=None if self._group is None else self._group.limit_bytes,
            limit_used_bytes=None if self._group is None else self._group.used_bytes(),
        )
        self._context.emit(sample)
        return sample

    def _find_group(self) -> None:
        """That of the root: looked for until there is one, since a process may join it after its start."""
        if self._group is None and self._members.root is not None:
            self._group = group_of(self._members.root)
            self._kills_before = 0 if self._group is None else self._group.oom_kills() or 0
