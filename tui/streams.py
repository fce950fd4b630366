"""Standard streams that are closed or full: a command still ends in order, and says which one it was.

Nothing else is opened in the place of a closed stream, where it would take what is printed for its own.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_NAMES = {_STDOUT: "standard output", _STDERR: "standard error"}


class StreamError(Exception):
    """What a standard stream does not take any more. A reader that went away is a BrokenPipeError as always."""

    def __init__(self, descriptor: int, error: OSError) -> None:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
        super().__init__(f"{_NAMES[descriptor]} cannot be written: {why}")
        self.descriptor = descriptor


class _Stream(io.TextIOWrapper):
    """A standard stream; its descriptor stays open behind it.

    Not one level deeper, around the write of bytes: a signal there would have them written twice.
    """

    def __init__(self, descriptor: int, encoding: str, errors: str | None, *, line_buffering: bool) -> None:
        raw = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
        super().__init__(raw, encoding, errors, line_buffering=line_buffering)
        self._descriptor = descriptor

    def write(self, text: str, /) -> int:
        with _told(self._descriptor):
            return super().write(text)

    def flush(self) -> None:
        with _told(self._descriptor):
            super().flush()


@contextmanager
def _told(descriptor: int) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StreamError(descriptor, error) from error


def watch_streams() -> None:
    """Let every failed write raise StreamError. Streams that somebody replaced (a test) stay as they are."""
    if sys.__stdin__ is None:
        _hold(_STDIN, os.O_WRONLY)
    if sys.__stdout__ is None:
        _hold(_STDOUT, os.O_RDONLY)
    if sys.__stderr__ is None:
        _hold(_STDERR, os.O_WRONLY)  # whoever closes it wants no notes
    if sys.stdout is sys.__stdout__:
        sys.stdout = _watched(_STDOUT, sys.__stdout__)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _watched(_STDERR, sys.__stderr__)


def _hold(descriptor: int, mode: int) -> None:
    nowhere = os.open(os.devnull, mode)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _watched(descriptor: int, old: io.TextIOWrapper | TextIO | None) -> _Stream:
    encoding = "utf-8" if old is None else old.encoding
    is_quick = descriptor == _STDERR or os.isatty(descriptor)
    return _Stream(descriptor, encoding, None if old is None else old.errors, line_buffering=is_quick)


def demand_stdin() -> None:
    """Raises InputError where standard input was closed from the beginning."""
    if sys.__stdin__ is None and not sys.stdin:
        raise InputError("standard input is closed: name a file, or pipe a log in")


def drop_what_is_left(descriptor: int) -> None:
    """What Python flushes at its end must go nowhere, or it complains once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def say_at_last(line: str) -> None:
    """On standard error, or where that is closed or full on standard output; nowhere where both are."""
    for stream in (None if sys.__stderr__ is None else sys.stderr, sys.stdout):
        if stream is None:
            continue
        try:
            stream.write(line + "\n")
            stream.flush()
        except StreamError as error:
            drop_what_is_left(error.descriptor)
        except (OSError, ValueError):  # a stream that is not ours, or closed by now
            continue
        else:
            return
