"""Changes that take long, copies and pip, are made in a thread: what they do is told, and a stop ends them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from playbooks.decisions import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.decisions import Decision
    from playbooks.effects import Done, Effect
    from playbooks.session import Session
    from playbooks.session_files import SessionFiles

_BEAT_SECONDS = 0.25


async def perform(
    files: SessionFiles,
    effect: Effect,
    session: Session,
    decisions: asyncio.Queue[Decision],
    tell: Callable[[str], None],
) -> Done:
    """What came of it. `tell` is called with what is being done. Cancelled, it waits until the change is taken back."""
    task = asyncio.create_task(asyncio.to_thread(files.perform, effect, session))
    told = ""
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_BEAT_SECONDS)
            if _wants_stop(decisions):
                files.work.stop()
            if files.work.doing not in ("", told):
                told = files.work.doing
                tell(told)
    except asyncio.CancelledError:
        files.work.stop()
        await asyncio.wait({task})
        raise
    return task.result()


def _wants_stop(decisions: asyncio.Queue[Decision]) -> bool:
    """Takes a stop out of what waits to be decided."""
    waiting = [decisions.get_nowait() for _ in range(decisions.qsize())]
    for one in waiting:
        if not isinstance(one, Stop):
            decisions.put_nowait(one)
    return any(isinstance(one, Stop) for one in waiting)
