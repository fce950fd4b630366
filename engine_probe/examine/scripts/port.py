"""Binds the address and port of a launch, and looks who holds the port."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from engine_probe.examine.scripts.side import Side

_LISTEN = "0A"


def examine(host: str, port: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Facts, and reasons for those that are not known."""
    trouble = bind(host, port)
    facts: dict[str, Any] = {
        "host.port_is_free": trouble is None or trouble.errno != errno.EADDRINUSE,
        "host.address_is_here": not isinstance(trouble, socket.gaierror)
        and (trouble is None or trouble.errno != errno.EADDRNOTAVAIL),
        "host.port_trouble": "none found" if trouble is None else str(trouble.strerror or trouble),
    }
    owner = None if facts["host.port_is_free"] else owner_of(port)
    if owner is not None:
        facts["host.port_owner_pid"], facts["host.port_owner_name"] = owner
        return facts, {}
    why = (
        "nobody listens there" if facts["host.port_is_free"] else "its process is another user's or another container's"
    )
    return facts, {"host.port_owner_pid": why, "host.port_owner_name": why}


def bind(host: str, port: int) -> OSError | None:
    """The error that a server would get; without SO_REUSEPORT, which lets two servers share one port."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
            one.listen(1)
    except OSError as error:
        return error
    return None


def owner_of(port: int) -> tuple[int, str] | None:
    """Pid and name of the process that listens, as far as this user may see it (proc(5))."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            names = os.listdir(f"/proc/{pid}/fd")
            if any(_link(f"/proc/{pid}/fd/{name}") in sockets for name in names):
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                    return int(pid), file.read().strip()
        except OSError:
            continue  # it has ended, or it is another user's
    return None


def _listening(port: int) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        found |= {row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}
    return found


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def main() -> None:
    side = Side()
    host, port = str(side.given.get("host") or ""), int(side.given.get("port") or 8000)
    facts, unknown = examine(host, port)
    side.answer(facts, unknown, origin=f"bind {host or 'all addresses'}:{port}")


if __name__ == "__main__":
    main()
