"""Opens what a case keeps: anything may lie under such a name by now, and a pipe would be waited for, for ever."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path


def opened(path: Path) -> int:
    """A descriptor, the caller's. Raises OSError, also where it is no regular file."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def open_kept(path: Path) -> BinaryIO:
    """As `opened`, to be read."""
    return os.fdopen(opened(path), "rb")


def read_kept(path: Path) -> bytes:
    """All of it. Raises OSError."""
    with open_kept(path) as stream:
        return stream.read()


def text_of(path: Path) -> str:
    """All of it; bytes that are no text stand as U+FFFD. Raises OSError."""
    return read_kept(path).decode("utf-8", "replace")
