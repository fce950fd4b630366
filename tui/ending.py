"""Ends one process that a person chose: never another one that was given the same pid in between."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.hardware.reading import ProcessReading

_CLOCK_SLACK_SECONDS = 2.0
"""The kernel tells when the host was started in whole seconds."""
_STATE, _START_TICKS = 0, 19
"""Fields of /proc/PID/stat behind the name (proc_pid_stat(5))."""


class CannotEndError(Exception):
    """The text says why in words."""


@dataclass(frozen=True)
class Target:
    """A process for good: a pid that is given anew has another start."""

    pid: int
    start_ticks: int


def target_of(process: ProcessReading) -> Target:
    """Raises CannotEndError where it is not the person's own, has ended, or is not the one that was read."""
    if not process.is_mine:
        raise CannotEndError(f"pid {process.pid} belongs to {process.user}: only its user may end it")
    if process.started is None:
        raise CannotEndError(f"when pid {process.pid} was started is not known, so it could be another one by now")
    ticks = start_ticks(process.pid)
    if ticks is None:
        raise CannotEndError(f"pid {process.pid} has ended by itself")
    if abs(_moment(ticks) - process.started) > _CLOCK_SLACK_SECONDS:
        raise CannotEndError(f"pid {process.pid} is another process by now; nothing was ended")
    return Target(process.pid, ticks)


def send(target: Target, how: Literal["TERM", "KILL"]) -> None:
    """Checks once more that it is the same process, and holds on to it. Raises CannotEndError."""
    number = signal.SIGTERM if how == "TERM" else signal.SIGKILL
    try:
        held = os.pidfd_open(target.pid)
    except ProcessLookupError:
        raise CannotEndError(f"pid {target.pid} has ended by itself") from None
    except OSError:  # kernels before 5.3
        _demand_same(target)
        _signal(lambda: os.kill(target.pid, number), target)
        return
    try:
        _demand_same(target)
        _signal(lambda: signal.pidfd_send_signal(held, number), target)
    finally:
        os.close(held)


def is_there(target: Target) -> bool:
    """Whether it still runs; one that only waits for its parent to take note has ended."""
    return start_ticks(target.pid) == target.start_ticks


def start_ticks(pid: int) -> int | None:
    """When it was started, in ticks since the host was; None when it has ended."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if fields[_STATE] in "ZX" else int(fields[_START_TICKS])
    return None


def _demand_same(target: Target) -> None:
    ticks = start_ticks(target.pid)
    if ticks is None:
        raise CannotEndError(f"pid {target.pid} has ended by itself")
    if ticks != target.start_ticks:
        raise CannotEndError(f"pid {target.pid} is another process by now; nothing was ended")


def _signal(act: Callable[[], None], target: Target) -> None:
    try:
        act()
    except ProcessLookupError:
        raise CannotEndError(f"pid {target.pid} has ended by itself") from None
    except PermissionError:
        raise CannotEndError(f"pid {target.pid} may not be ended by this user") from None


def _moment(ticks: int) -> float:
    """Seconds since the epoch."""
    for line in Path("/proc/stat").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    raise CannotEndError("this host does not say when it was started, so a process cannot be told from another")
