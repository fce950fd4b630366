"""The port of a load: the launch's own where it is free, else another, promised to nobody else meanwhile."""

from __future__ import annotations

import contextlib
import errno
import socket
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.child.surroundings import argument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_PORT = 8000
NOBODY: Mapping[int, str] = MappingProxyType({})


class Port(NamedTuple):
    """Where a load will serve, and its arguments with that port. `promise` is held until the load is over."""

    number: int
    argv: list[str]
    note: str | None
    promise: socket.socket | None


def no_port(argv: Sequence[str]) -> Port:
    """Of a load that serves nothing."""
    return Port(0, list(argv), None, None)


def the_launchs_own(argv: Sequence[str]) -> Port:
    """Taken or not: what vLLM says of a taken one is what is wanted."""
    number = _wanted(argv)[1]
    return Port(number, list(argv), None, _promise(number))


def _wanted(argv: Sequence[str]) -> tuple[str | None, int]:
    """What the launch says, and the number that it comes to."""
    wanted = argument(argv, "--port")
    return wanted, int(wanted) if wanted and wanted.isdigit() else DEFAULT_PORT


def choose_port(argv: Sequence[str], keep: bool, beside: Mapping[int, str] = NOBODY) -> Port:
    """A taken port is replaced and said so; with `keep` the port stays and OSError is raised.

    `beside`: models of this probe by the port that their launches name. Two that name the same one are a fault of the
    deployment, which must show itself.
    """
    wanted, number = _wanted(argv)
    promise = _promise(number)
    if promise is not None:
        return Port(number, list(argv), None, promise)
    if wanted and number in beside:
        return Port(number, list(argv), f"port {number} is that of {beside[number]} too, and stays", None)
    if keep:
        raise OSError(f"port {number} is in use")
    number_free, promise = _any_port()
    note = f"port {number} is in use: port {number_free} instead"
    return Port(number_free, [*argv, "--port", str(number_free)], note, promise)


def _promise(number: int) -> socket.socket | None:
    """None where the port is taken, or promised to a load that has not opened it yet, here or in another probe.

    The promise is a name in the kernel (an abstract Unix socket: it goes with its holder, by `kill -9` too, and
    lives in the same network namespace as the port). Seconds pass between the choice and vLLM's own bind.
    """
    promise = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):
        promise.bind(f"\0vllm-console-port-{number}")
        if _is_free(number):
            return promise
    promise.close()
    return None


def _is_free(number: int) -> bool:
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, number))
        except OverflowError:
            return True  # above 65535: vLLM's to refuse
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
    return True


def _any_port() -> tuple[int, socket.socket]:
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            number = int(probe.getsockname()[1])
        promise = _promise(number)
        if promise is not None:
            return number, promise
