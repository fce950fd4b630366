"""A command that may take long: its output is kept, a stop ends it and all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine_probe.outside.work import Work

_BEAT_SECONDS = 0.2
_GRACE_SECONDS = 10.0
_MOST_BYTES = 64 << 10
"""Of what was printed the end is taken."""


class Ran(NamedTuple):
    """`text` is what it printed, both streams."""

    text: str
    exit_code: int


def run_words(words: Sequence[str], told: Callable[[], str], work: Work, env: Mapping[str, str] | None = None) -> Ran:
    """`told` says what is done while it runs. Its standard input stays open as long as we live.

    Raises InputError where it cannot be started, StoppedError.
    """
    with tempfile.TemporaryFile(prefix="vllm-console-") as output:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=output, stderr=output, env=env, start_new_session=True
            )
        except OSError as error:
            raise InputError(f"{words[0]} cannot be run: {error.strerror or error}") from error
        try:
            while process.poll() is None:
                work.go_on(told())
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_BEAT_SECONDS)
        finally:
            _end(process)
        return Ran(_end_of(output), process.returncode)


def _end(process: subprocess.Popen[bytes]) -> None:
    """It leads a session of its own: what it started ends with it."""
    if process.poll() is None:
        _send(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    _send(process, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _send(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, what)


def _end_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _MOST_BYTES))
    return output.read().decode("utf-8", "replace")
