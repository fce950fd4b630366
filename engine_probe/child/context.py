"""What a load, and the warm process, may use of the keeper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from collections.abc import Container

    from engine_probe.child.sweep import Select, Swept
    from engine_probe.events import Event


@dataclass(frozen=True)
class Context:
    """All but `post` belong to the keeper's own thread."""

    private_dir: str
    emit: Callable[[Event], None]
    post: Callable[[Callable[[], None]], None]
    """Run a call in the keeper's thread: the way in for every other thread."""
    sweep: Callable[[Select, set[str], Container[str]], Swept]
    """End all that the selection names and remove the shared memory that they, or the set, had; not that of others.

    Sees to exits meanwhile and spares the keeper's own.
    """
    collect_exits: Callable[[], None]
    claim_exit: Callable[[int], int | None]
    """The wait status of a process that ended before anyone knew its pid."""
    watch_pipe: Callable[[int], None]
    """Tell the watchdog the inode of a text pipe: who prints there is ours."""
