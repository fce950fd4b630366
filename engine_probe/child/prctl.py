"""Two requests to the Linux kernel about parents and children, see prctl(2)."""

from __future__ import annotations

import ctypes
import os
import signal
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Adopt every descendant whose parent dies. False: no such call here, so exit codes of forks are unknown."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """End at once when `parent` ends; it may have ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def die_with_adopter(middle: int, adopter: int) -> None:
    """As `die_with_parent`, for a process whose parent `middle` is about to leave it to `adopter`."""
    while os.getppid() == middle:
        time.sleep(0.001)
    die_with_parent(adopter)


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
