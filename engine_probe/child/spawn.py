"""Starts a process that the keeper itself reaps, and that never outlives the keeper."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from engine_probe.child import conditions, prctl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    output_fd: int,
    cwd: str | None = None,
    pass_fds: Sequence[int] = (),
    under: Mapping[str, Any] | None = None,
) -> int:
    """Start `argv` in a session of its own, both outputs into `output_fd`; returns its pid. `under`: conditions.

    Raises OSError (no such program, no memory), ValueError (a zero byte) or subprocess.SubprocessError.
    """
    keeper = os.getpid()

    def before_it_begins() -> None:
        prctl.die_with_parent(keeper)
        if under:
            conditions.apply(under)

    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=output_fd,
        stderr=output_fd,
        env=dict(env),
        cwd=cwd,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        # System calls, whose library is loaded: nothing that another thread could hold a lock of.
        preexec_fn=before_it_begins,  # noqa: PLW1509
    )
    process.returncode = 0  # the keeper waits for any child: Popen must not wait for this one when it is collected
    return process.pid
