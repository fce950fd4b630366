"""Who listens on a port: another server that was quicker must not be taken for the load."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTEN = "0A"


def may_listen(pids: Iterable[int], port: int) -> bool:
    """Whether one of the processes listens on the port, as far as can be seen: unknown counts as yes."""
    inodes = _listening_inodes(port)
    return not inodes or any(_has_socket(pid, inodes) for pid in pids)


def _listening_inodes(port: int) -> set[str]:
    """Socket inodes from /proc/net/tcp, see proc(5): column 1 is the address, 3 the state, 9 the inode."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        found |= {row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}
    return found


def _has_socket(pid: int, inodes: set[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in wanted for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False  # gone, or a descriptor closed while we looked: asked again soon
