"""Runs a few lines of Python on an engine and takes what they print; nothing of it outlives the answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine_probe.engine import Engine


@dataclass(frozen=True)
class Answer:
    """`exit_code` is negative for a signal, as subprocess counts."""

    out: str
    err: str
    exit_code: int
    timed_out: bool


def ask(engine: Engine, code: str, timeout_s: float) -> Answer:
    """Raises OSError when the engine's command cannot be started at all."""
    process = subprocess.Popen(
        engine.argv("-c", code),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timed_out = False
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        _end_group(process)
        out, err = process.communicate()
    finally:
        _end_group(process)  # whatever ended the wait, a signal to us too
    return Answer(out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), process.returncode, timed_out)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """It leads a session of its own, so this ends what it started too; the group may outlive its leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
