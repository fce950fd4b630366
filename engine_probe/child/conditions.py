"""What a load's first process takes on before it begins (engine_probe/load_conditions.py); its children inherit it."""

from __future__ import annotations

import ctypes
import os
import resource
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLONE_NEWNS = 0x00020000
_MS_RDONLY = 0x1
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000


def apply(conditions: Mapping[str, Any]) -> None:
    """For this process and its children, without a way back. Raises OSError, ValueError for what cannot be had."""
    for path in conditions.get("cgroups", ()):
        with open(path, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    for name, value in conditions.get("rlimits", {}).items():
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        resource.setrlimit(number, (value, hard))
    mounts = conditions.get("tmpfs", ())
    if mounts:
        _mount(mounts)


def _mount(mounts: Any) -> None:
    """In a mount namespace of our own: nobody else sees them, and they go with the last process in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    _demand(libc.unshare(_CLONE_NEWNS), "unshare")
    _demand(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")
    for at, size_bytes, read_only in mounts:
        options = f"size={size_bytes}".encode()
        flags = _MS_RDONLY if read_only else 0
        _demand(libc.mount(b"tmpfs", os.fsencode(at), b"tmpfs", flags, options), at)


def _demand(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
