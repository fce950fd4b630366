"""The living processes below one process: what it has started and not ended."""

from __future__ import annotations

from typing import NamedTuple

import psutil

_OF_THE_PROBE = ("/child.zip", "vllm-console: warm process")


class Descendant(NamedTuple):
    """`started` tells a reused pid from the process before."""

    pid: int
    started: float
    command: str


def descendants(pid: int) -> frozenset[Descendant]:
    """Below `pid`, without zombies; empty when it has ended."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return frozenset()
    return frozenset(one for process in below if (one := _read(process)) is not None)


def _read(process: psutil.Process) -> Descendant | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Descendant(process.pid, process.create_time(), " ".join(process.cmdline())[:200])
    except psutil.Error:
        return None


def is_of_the_probe(one: Descendant) -> bool:
    """It belongs to the probe itself, not to a load: keeper, watchdog, the process that loads are forked from."""
    return any(word in one.command for word in _OF_THE_PROBE)
