"""Files of ours that are there whole or not at all: after a kill or on a full disk, and to who reads meanwhile."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, content: bytes, *, is_sure: bool = False) -> None:
    """Put `content` in the place of whatever lies at `path`, be it a pipe. `is_sure`: on the disk before it returns.

    Only its owner may read it. Raises OSError, and then leaves nothing of its own.
    """
    beside = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            if is_sure:
                stream.flush()
                os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # of the file that people know
