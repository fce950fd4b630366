"""Whether a process listens on a port, by the kernel's lists of sockets and its own open files."""

from __future__ import annotations

import os

from engine_probe.hardware.processes_read import link_of, read_bytes

_LISTENING = b"0A"
_LARGEST_LIST = 16 << 20


def listens(proc: str, pid: int, port: int) -> bool | None:
    """None: it cannot be seen, as of another user's process."""
    try:
        names = os.listdir(f"{proc}/{pid}/fd")  # noqa: PTH208
    except OSError:
        return None
    lists = [read_bytes(f"{proc}/{pid}/net/{name}", _LARGEST_LIST) for name in ("tcp", "tcp6")]
    if lists == [None, None]:
        return None
    sockets = {f"socket:[{inode}]" for content in lists for inode in _inodes(content or b"", port)}
    return any(link_of(f"{proc}/{pid}/fd/{name}") in sockets for name in names)


def _inodes(content: bytes, port: int) -> list[str]:
    """Of listening sockets (the kernel's Documentation/networking/proc_net_tcp.rst)."""
    wanted = b":%04X " % port
    rows = [line.split() for line in content.split(b"\n") if wanted in line]
    return [
        row[9].decode("ascii", "replace")
        for row in rows
        if len(row) > 9 and row[3] == _LISTENING and row[1].endswith(wanted.strip())
    ]
