"""Whose a case is: the process that works on it, told by its number and the time at which it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping


def this_process() -> dict[str, Any]:
    """`pid` and `since`, in seconds since the epoch."""
    me = psutil.Process()
    return {"pid": me.pid, "since": me.create_time()}


def is_alive(owner: Mapping[str, Any]) -> bool:
    """That very process runs: another one may have its number by now, and one that nobody has reaped yet is dead."""
    try:
        process = psutil.Process(owner["pid"])
        is_same = abs(process.create_time() - owner["since"]) < 1.0
        return bool(is_same and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except (psutil.Error, KeyError, TypeError, ValueError, OverflowError):
        return False
