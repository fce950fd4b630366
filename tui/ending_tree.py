"""A process with all that descends from it: what of it a person may end, and how it is ended together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tui.ending import CannotEndError, Target, is_there, send, target_of

if TYPE_CHECKING:
    from engine_probe.hardware.reading import ProcessReading, Reading


@dataclass(frozen=True)
class Chosen:
    """`processes`: all of the tree, children before their parents. `stays`: (process, why it is left alone)."""

    root: ProcessReading
    processes: tuple[ProcessReading, ...]
    targets: tuple[Target, ...]
    stays: tuple[tuple[ProcessReading, str], ...] = ()

    @property
    def left(self) -> tuple[Target, ...]:
        return tuple(target for target in self.targets if is_there(target))


def tree_of(root: ProcessReading, reading: Reading) -> tuple[ProcessReading, ...]:
    """Those of an engine whose root it is, and what descends from any of them; the deepest first."""
    server = next((one for one in reading.servers if one.pid == root.pid), None)
    by_pid = {one.pid: one for one in reading.processes}
    tops = [root, *(by_pid[pid] for pid in (server.pids if server else ()) if pid in by_pid and pid != root.pid)]
    depth = {one.pid: 0 for one in tops}
    children: dict[int, list[int]] = {}
    for one in reading.processes:
        children.setdefault(one.ppid, []).append(one.pid)
    todo = list(depth)
    while todo:
        pid = todo.pop()
        for child in children.get(pid, ()):
            if child != root.pid and depth.get(child, -1) <= depth[pid] < len(by_pid):
                depth[child] = depth[pid] + 1
                todo.append(child)
    found = [by_pid.get(pid, root) for pid in depth]
    return tuple(sorted(found, key=lambda one: (-depth[one.pid], one.pid)))


def choose(root: ProcessReading, reading: Reading) -> Chosen:
    """Raises CannotEndError where the root itself may not or cannot be ended."""
    target_of(root)
    processes = tree_of(root, reading)
    found = [(one, _target_or_why(one)) for one in processes]
    targets = tuple(target for _, target in found if isinstance(target, Target))
    return Chosen(root, processes, targets, tuple((one, why) for one, why in found if isinstance(why, str)))


def _target_or_why(process: ProcessReading) -> Target | str:
    try:
        return target_of(process)
    except CannotEndError as why:
        return str(why)


def send_all(targets: tuple[Target, ...], how: Literal["TERM", "KILL"]) -> int:
    """To how many it was sent. Raises CannotEndError where it was none, with a reason."""
    reasons = [_send_or_why(target, how) for target in targets]
    if None not in reasons:
        raise CannotEndError(reasons[-1] if reasons else "nothing is left to be ended")
    return reasons.count(None)


def _send_or_why(target: Target, how: Literal["TERM", "KILL"]) -> str | None:
    try:
        send(target, how)
    except CannotEndError as why:
        return str(why)
    return None
