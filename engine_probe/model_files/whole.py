"""Reads every byte of a model's folder: can it be read at all, and is it what its name in the hub's cache says?

A file of the cache is a link to `blobs/DIGEST`: sha256 of a large file, git's sha1 of a small one.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

_BLOCK_BYTES = 8 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class WholeRead:
    """`wrong`: file and what is wrong with it, completing the sentence that begins with its name."""

    total_bytes: int
    read_bytes: int
    compared: int
    """Files that have a digest to be compared with."""
    wrong: tuple[tuple[str, str], ...] = ()
    why_not: str | None = None
    """Not all was read, and why."""

    @property
    def share(self) -> float:
        return self.read_bytes / self.total_bytes if self.total_bytes else 1.0


def read_whole(folder: Path, limit_s: float, stop: threading.Event) -> WholeRead:
    """All files of `folder`, not of folders in it. Raises OSError where it cannot be listed."""
    ends_at = time.monotonic() + limit_s
    files = sorted(path for path in folder.iterdir() if path.is_file())
    total = sum(path.stat().st_size for path in files)
    done = compared = 0
    wrong: list[tuple[str, str]] = []
    is_over = False

    def goes_on() -> bool:
        nonlocal is_over
        is_over = stop.is_set() or time.monotonic() >= ends_at
        return not is_over

    for path in files:
        digest = path.resolve().name if path.is_symlink() else ""
        size, trouble = _read(path, digest, goes_on)
        done += size
        if trouble is not None:
            wrong.append((path.name, trouble))
        if is_over:
            break
        compared += bool(_hash(digest, 0))
    why_not = None
    if is_over and done < total:
        reason = "it was stopped" if stop.is_set() else f"its time of {limit_s:.0f} s is over"
        why_not = f"{done / 2**30:.2f} of {total / 2**30:.2f} GiB were read, then {reason}"
    return WholeRead(total, done, compared, tuple(wrong), why_not)


def _hash(digest: str, size: int) -> hashlib._Hash | None:
    if _SHA256.fullmatch(digest):
        return hashlib.sha256()
    if _SHA1.fullmatch(digest):
        return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    return None


def _read(path: Path, digest: str, goes_on: Callable[[], bool]) -> tuple[int, str | None]:
    """Bytes read, and what is wrong with the file."""
    done = 0
    try:
        found = _hash(digest, path.stat().st_size)
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                done += len(block)
                if found is not None:
                    found.update(block)
                if not goes_on():
                    return done, None
    except OSError as error:
        return done, f"cannot be read beyond byte {done:,}: {error.strerror or error}"
    if found is not None and found.hexdigest() != digest:
        return done, "is not what its name in the hub's cache says: its digest is another"
    return done, None
