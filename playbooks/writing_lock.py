"""One session at a time may write a deployment file, or the files of a model's folder.

lock = take(state, file)     # raises InputError that names who has it
lock.tell(case="2026-11-29-0007")
lock.release()

The system lets go of the lock of a process that is dead, so that what it had can be taken over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 4096


@dataclass
class WritingLock:
    """`descriptor` None: this state folder can hold no lock."""

    of: Path
    path: Path
    descriptor: int | None

    def tell(self, case: str | None) -> None:
        """Who has it, for the error that another one gets."""
        if self.descriptor is None:
            return
        content = json.dumps({"pid": os.getpid(), "case": case})
        with contextlib.suppress(OSError):  # a full disk: it is locked all the same
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, content.encode(), 0)

    def release(self) -> None:
        """Idempotent."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self.descriptor)
            self.descriptor = None


def take(state: Path, of: Path, case: str | None = None) -> WritingLock:
    """For the deployment file or the model's folder `of`. Raises InputError where another session has it."""
    _demand_no_loop(of)
    path = state / "locks" / hashlib.sha256(os.fsencode(os.path.realpath(of))).hexdigest()[:32]
    while True:
        lock = WritingLock(of, path, _descriptor(of, path))
        if lock.descriptor is None or _is_that(path, lock.descriptor):
            lock.tell(case)
            return lock
        os.close(lock.descriptor)  # its owner removed it in between: once more


def _demand_no_loop(of: Path) -> None:
    try:
        of.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"cannot be read: {error.strerror}", file=str(of)) from None


def _descriptor(of: Path, path: Path) -> int | None:
    """None where no lock can be had at all: a disk that is full, a file system without locks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(descriptor)
        os.close(descriptor)
        raise InputError(f"is worked on by {owner}: only one session at a time may change it", file=str(of)) from None
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_that(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _owner(descriptor: int) -> str:
    try:
        content = json.loads(os.pread(descriptor, _MOST_BYTES, 0))
        case = f", case {content['case']}" if content["case"] else ""
        return f"another vllm-console (process {int(content['pid'])}{case})"
    except (OSError, ValueError, TypeError, KeyError):
        return "another vllm-console"
