"""Runs a few lines of Python on an engine and takes what they print; nothing of it outlives the answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from typing import IO

    from engine_probe.engine import Engine

_LOOK_EVERY_S = 0.2
_CLEANING_UP_S = 2.0


@dataclass(frozen=True)
class Answer:
    """`exit_code` is negative for a signal, as subprocess counts."""

    out: str
    err: str
    exit_code: int
    timed_out: bool


def ask(
    engine: Engine, code: str, timeout_s: float, given: bytes | None = None, stop: threading.Event | None = None
) -> Answer:
    """`given` is one line that the code reads from stdin: secrets do not travel in a command. Its stdin ends when we
    do, so that what we cannot reach any more can end too. `stop` ends it before its time.

    Raises OSError when the engine's command cannot be started at all.
    """
    process = subprocess.Popen(
        engine.argv("-c", code),
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    stdin, process.stdin = process.stdin, None  # `communicate` would close it
    try:
        if stdin is not None:
            with contextlib.suppress(OSError):  # it has ended already, and says why itself
                stdin.write((given or b"") + b"\n")
                stdin.flush()
        answer = _communicate(process, timeout_s, stop)
        timed_out = answer is None
        if answer is None:
            _end(process, stdin)
            answer = process.communicate()
    finally:
        _end(process, stdin)  # whatever ended the wait, a signal to us too
    out, err = (part.decode("utf-8", "replace") for part in answer)
    return Answer(out, err, process.returncode, timed_out)


def _communicate(
    process: subprocess.Popen[bytes], timeout_s: float, stop: threading.Event | None
) -> tuple[bytes, bytes] | None:
    """None: its time is over, or it was stopped."""
    ends_at = time.monotonic() + timeout_s
    while True:
        left_s = ends_at - time.monotonic()
        try:
            return process.communicate(timeout=left_s if stop is None else min(left_s, _LOOK_EVERY_S))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= ends_at or (stop is not None and stop.is_set()):
                return None


def _end(process: subprocess.Popen[bytes], stdin: IO[bytes] | None) -> None:
    """What reads stdin to its end cleans up after itself in a moment; then all of the group is killed."""
    if stdin is not None:
        with contextlib.suppress(OSError):
            stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLEANING_UP_S)
    _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """It leads a session of its own, so this ends what it started too; the group may outlive its leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
