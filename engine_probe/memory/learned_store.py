"""What was learnt, in one file of the state folder: a JSON object a line, newest last, at most so many.

Several processes may add to it at once. A line that cannot be read is counted and passed over, never fatal.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from engine_probe.errors import InputError
from engine_probe.locations import find_locations, writable
from engine_probe.memory.learned import QUANTITIES, Printed, Start
from engine_probe.memory.learned_model import Fingerprint
from engine_probe.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAME = "learned.jsonl"
SCHEMA = 1
MOST_STARTS = 2_000
_MOST_ALIKE = 8
"""Of one model, release, card and set of arguments: the newest are enough."""
_MOST_BYTES = 8 << 20
_LONGEST_LINE = 64 << 10
_PATIENCE_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 0.02
_MOST_SETTINGS = 300
_LARGEST = 1e12


@dataclass(frozen=True)
class Learned:
    """`damaged`: lines that are no start; `newer`: lines of a later form of this file, which are kept."""

    starts: tuple[Start, ...] = ()
    damaged: int = 0
    newer: int = 0


class _Line(msgspec.Struct):
    """A line as it is written; keys that it does not know are passed over."""

    schema: int
    id: str
    time: float
    config: str
    weights: str | None
    version: str
    card: str
    args: dict[str, bool | int | float | str]
    printed: dict[str, tuple[float, str]]
    predicted: dict[str, float] = {}


class _Schema(msgspec.Struct):
    schema: int


def learned_path() -> Path:
    """Raises InputError where no home folder is known."""
    return find_locations().state / NAME


def read_learned(path: Path | None = None) -> Learned:
    """Newest first; a start that is there twice counts once. Nothing there yet is nothing learnt. Raises InputError."""
    path = path or learned_path()
    try:
        lines = _last_lines(path)
    except FileNotFoundError:
        return Learned()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    starts: dict[str, Start] = {}
    damaged = newer = 0
    for line in reversed(lines):
        found = _start_of(line)
        if isinstance(found, Start):
            starts.setdefault(found.id, found)
        elif found is not None:
            newer += 1
        else:
            damaged += 1
    return Learned(tuple(starts.values()), damaged, newer)


def keep_learned(starts: Sequence[Start], path: Path | None = None) -> int:
    """How many of them were not known before; of one that says more than it did, the new form counts from now on.

    All or nothing is written. Raises InputError where nothing can be.
    """
    if not starts:
        return 0
    path = path or learned_path()
    writable(path.parent)
    try:
        with _locked(path):
            known = {one.id: len(one.printed) for one in read_learned(path).starts}
            more = [one for one in starts if known.get(one.id, 0) < len(one.printed)]
            if more:
                _append(path, b"".join(_line_of(one) for one in more))
                _bound(path)
            return sum(one.id not in known for one in more)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(path)) from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time, in a file beside it: the file itself may be replaced."""
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(_ASK_AGAIN_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _append(path: Path, content: bytes) -> None:
    """In one write. What a crash left without its end is closed first, so that it spoils only itself."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        written = os.write(descriptor, content)
        if written != len(content):
            os.ftruncate(descriptor, size)
            raise OSError(None, "the disk is full")
    finally:
        os.close(descriptor)


def _bound(path: Path) -> None:
    """Keeps the newest lines once there are a quarter more than that; lines of a later form stay while they are new."""
    lines = _last_lines(path)
    if len(lines) <= MOST_STARTS + MOST_STARTS // 4 and path.stat().st_size <= _MOST_BYTES // 2:
        return
    kept: list[bytes] = []
    alike: dict[object, int] = {}
    size = 0
    for line in reversed(lines):
        found = _start_of(line)
        if found is None:
            continue
        if isinstance(found, Start):
            key = (found.model, found.version, found.card, tuple(sorted(found.args.items(), key=str)))
            alike[key] = alike.get(key, 0) + 1
            if alike[key] > _MOST_ALIKE:
                continue
        size += len(line) + 1
        if len(kept) >= MOST_STARTS or size > _MOST_BYTES // 4:
            break
        kept.append(line + b"\n")
    write_whole(path, b"".join(reversed(kept)))


def _last_lines(path: Path) -> list[bytes]:
    """Without the beginning of a file that has grown too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        size = os.fstat(descriptor).st_size
        start = max(0, size - _MOST_BYTES)
        stream.seek(start)
        content = stream.read(_MOST_BYTES)
    lines = content.split(b"\n")
    return [line for line in (lines[1:] if start else lines) if line.strip()]


def _start_of(line: bytes) -> Start | int | None:
    """The number of a later schema where it is of one; None for what is damaged."""
    if len(line) > _LONGEST_LINE:
        return None
    try:
        schema = msgspec.json.decode(line, type=_Schema).schema
        if schema != SCHEMA:
            return schema if schema > SCHEMA else None
        read = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    numbers = [read.time, *(one for one, _ in read.printed.values()), *read.predicted.values()]
    if not all(math.isfinite(one) and abs(one) < _LARGEST for one in numbers) or len(read.args) > _MOST_SETTINGS:
        return None
    printed: dict[str, Printed] = {name: Printed(*one) for name, one in read.printed.items() if name in QUANTITIES}
    model = Fingerprint(read.config, read.weights)
    return Start(read.id, read.time, model, read.version, read.card, read.args, printed, read.predicted)


def _line_of(start: Start) -> bytes:
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "id": start.id,
        "time": round(start.time, 3),
        "config": start.model.config,
        "weights": start.model.weights,
        "version": start.version,
        "card": start.card,
        "args": dict(start.args),
        "printed": {name: list(one) for name, one in start.printed.items()},
    }
    if start.predicted:
        content["predicted"] = {name: round(value, 4) for name, value in start.predicted.items()}
    return msgspec.json.encode(content) + b"\n"
