"""Which of several servers that claim one port has it: that which listens there, by the kernel's list of sockets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.hardware.ports import listens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.server_tree import Family

_EVERY_SECONDS = 2.0
"""The list of sockets of a busy host is long."""


class Owner(NamedTuple):
    """`is_seen`: it was seen to listen; else it is only the one that was started first."""

    family: Family
    is_seen: bool

    @property
    def words(self) -> str:
        why = "listens on it" if self.is_seen else "was started before"
        return f"pid {self.family.root.stat.pid}, which {why}"


class PortOwners:
    """Remembers for a moment whom it saw listen."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._seen: dict[tuple[int, tuple[int, int]], tuple[float, bool | None]] = {}

    def of(self, port: int, claiming: Sequence[Family]) -> Owner:
        """`claiming` in the order in which they were started."""
        if len(claiming) == 1:
            return Owner(claiming[0], is_seen=False)
        listen = [self._listens(one, port) for one in claiming]
        self._forget()
        if True in listen:
            return Owner(claiming[listen.index(True)], is_seen=True)
        unseen = [one for one, does in zip(claiming, listen, strict=True) if does is None]
        return Owner((unseen or claiming)[0], is_seen=False)

    def _listens(self, family: Family, port: int) -> bool | None:
        key, now = (port, family.root.key), time.monotonic()
        known = self._seen.get(key)
        if known is None or now - known[0] > _EVERY_SECONDS:
            servers = [pid for pid, (role, _) in family.members.items() if role == "api_server"]
            found = [listens(self._proc, pid, port) for pid in servers]
            known = self._seen[key] = now, True if True in found else None if None in found or not found else False
        return known[1]

    def _forget(self) -> None:
        now = time.monotonic()
        self._seen = {key: one for key, one in self._seen.items() if now - one[0] <= _EVERY_SECONDS}
