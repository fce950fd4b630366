"""What an installation keeps in its folder: the steps that are finished, and the lock that only one holds."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCHEMA = 1
_ASK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class InstallState:
    """`begun` is the step that was running when the file was last written; None when none was."""

    requirement: str = ""
    finished: tuple[str, ...] = ()
    begun: str | None = None
    schema: int = SCHEMA

    def with_begun(self, step: str) -> InstallState:
        return replace(self, begun=step)

    def with_finished(self, step: str) -> InstallState:
        return replace(self, begun=None, finished=(*(s for s in self.finished if s != step), step))

    def up_to(self, steps: tuple[str, ...]) -> InstallState:
        """Only `steps` still count as finished."""
        return replace(self, finished=tuple(step for step in self.finished if step in steps))


def read_state(path: Path) -> InstallState:
    """What the file says; an absent, damaged or newer file counts as nothing done."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            return InstallState()
        begun = content["begun"]
        return InstallState(str(content["requirement"]), tuple(map(str, content["finished"])), begun)
    except (OSError, ValueError, KeyError, TypeError):
        return InstallState()


def write_state(path: Path, state: InstallState) -> None:
    """Atomic: a kill leaves the old file or the new one."""
    write_whole(path, json.dumps(asdict(state)).encode(), is_sure=True)


@contextmanager
def held_lock(path: Path, waiting: Callable[[float], None]) -> Iterator[int]:
    """Hold the lock of an engine's folder and give its descriptor; `waiting` gets the seconds waited so far.

    The kernel lets go of it when the last process that has it open ends, however it ends.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting(time.monotonic() - began)
                time.sleep(_ASK_AGAIN_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)
