"""Asks a server on this host for /metrics over plain HTTP, within a second and some megabytes, or says why not."""

from __future__ import annotations

import ipaddress
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.hardware.metrics import ServerMetrics, read_metrics

if TYPE_CHECKING:
    from engine_probe.hardware.server_launch import Started

TIMEOUT_SECONDS = 1.0
_MOST_BYTES = 8 << 20
_MOST_HEAD_BYTES = 64 << 10
_LOOPBACK = "127.0.0.1"
_NAMES = (None, "", "0.0.0.0", "localhost")  # noqa: S104 - where a server listens, not where we do


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    paths: tuple[str, ...] = ("/metrics",)

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.paths[0]}"


@dataclass(frozen=True)
class Answer:
    """`is_listening`: somebody took the connection; `status` None: no HTTP came."""

    metrics: ServerMetrics | Unknown
    is_listening: bool
    status: int | None = None


def address_of(started: Started) -> Address | Unknown:
    """Where a server is to be asked. Nothing outside of this host ever is."""
    if started.socket_path is not None:
        return Unknown("it listens on a Unix socket, not on a port")
    if started.has_tls:
        return Unknown("it serves https with a certificate of its own, which is not asked")
    if started.port is None or not 0 < started.port < 65536:
        return Unknown("its port is not known")
    host = _local(started.host)
    if host is None:
        return Unknown(f"its host {started.host} is no address of this machine")
    root = "/" + started.root_path.strip("/") if started.root_path.strip("/") else ""
    return Address(host, started.port, ("/metrics", f"{root}/metrics") if root else ("/metrics",))


def _local(host: str | None) -> str | None:
    if host in _NAMES:
        return _LOOPBACK
    if host == "::":
        return "::1"
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host or "").version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))  # only an address of this machine can be bound
    except (ValueError, OSError):
        return None
    return host


def ask(address: Address) -> Answer:
    """Never raises for what a server does, and never takes much longer than `TIMEOUT_SECONDS`."""
    until = time.monotonic() + TIMEOUT_SECONDS
    is_listening, status = False, None
    try:
        for path in address.paths:
            with socket.create_connection((address.host, address.port), timeout=TIMEOUT_SECONDS) as connection:
                is_listening = True
                status, body = _get(connection, address, path, until)
            if status == 200:
                return Answer(read_metrics(body, address.origin), True, status)
        return Answer(Unknown(f"{address.origin} answers with HTTP status {status}"), True, status)
    except TimeoutError:
        why = f"{address.origin} did not answer within {TIMEOUT_SECONDS:g} s"
    except OSError as error:
        why = f"{address.origin}: {error.strerror or error}"
    except ValueError as error:
        why = f"{address.origin}: {error}"
    return Answer(Unknown(why), is_listening, status)


def _get(connection: socket.socket, address: Address, path: str, until: float) -> tuple[int, bytes]:
    """HTTP 1.0, so that the body comes whole and ends with the connection."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    request = f"GET {path} HTTP/1.0\r\nHost: {host}:{address.port}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii", "replace"))
    content = bytearray()
    while b"\r\n\r\n" not in content:
        if not (more := _receive(connection, until)) or len(content) > _MOST_HEAD_BYTES:
            raise ValueError("what it answers is no HTTP")
        content += more
    head, _, rest = bytes(content).partition(b"\r\n\r\n")
    status = _status(head)
    wanted = _length(head)
    body = bytearray(rest)
    while (wanted is None or len(body) < wanted) and (more := _receive(connection, until)):
        body += more
        if len(body) > _MOST_BYTES:
            raise ValueError(f"its answer is larger than {_MOST_BYTES >> 20} MiB")
    return status, bytes(body)


def _receive(connection: socket.socket, until: float) -> bytes:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)
    return connection.recv(1 << 16)


def _status(head: bytes) -> int:
    words = head.split(b"\r\n", 1)[0].split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit() or len(words[1]) != 3:
        raise ValueError("what it answers is no HTTP")
    return int(words[1])


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 16:
            return int(value)
    return None
