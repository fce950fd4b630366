"""Starts a process that the keeper itself reaps, and that never outlives the keeper."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from engine_probe.child import prctl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def spawn(
    argv: Sequence[str], env: Mapping[str, str], output_fd: int, cwd: str | None = None, pass_fds: Sequence[int] = ()
) -> int:
    """Start `argv` in a session of its own, both outputs into `output_fd`; returns its pid.

    Raises OSError (no such program, no memory), ValueError (a zero byte) or subprocess.SubprocessError.
    """
    keeper = os.getpid()
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=output_fd,
        stderr=output_fd,
        env=dict(env),
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        # One system call, whose library is loaded: nothing that another thread could hold a lock of.
        preexec_fn=lambda: prctl.die_with_parent(keeper),  # noqa: PLW1509
    )
    process.returncode = 0  # the keeper waits for any child: Popen must not wait for this one when it is collected
    return process.pid
