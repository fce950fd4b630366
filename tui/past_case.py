"""A past case as one that runs, for screens that draw cases: nothing is loaded, and nothing can be decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.run_log import NAME, RunLog
from playbooks.recorded import PastCase, past_case
from tui.running import CannotOpenError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.events import Event
    from playbooks.decisions import Decision
    from playbooks.recorded import Moment
    from playbooks.session import Session


@dataclass(frozen=True)
class PastRun:
    """`moments`, one after the other, are what there is to see; there is at least one."""

    past: PastCase
    log: RunLog = field(default_factory=RunLog)
    holders: tuple[str, ...] = ()
    temporary: bool = False

    @property
    def moments(self) -> tuple[Moment, ...]:
        return self.past.moments

    @property
    def session(self) -> Session:
        return self.moments[0].session

    async def drive(
        self, _decisions: asyncio.Queue[Decision], on_change: Callable[[Session, Event | None], None]
    ) -> Session:
        """Nothing goes on: the case is over as soon as it is shown."""
        on_change(self.session, None)
        return self.session


def open_past(folder: Path) -> PastRun:
    """The case in `folder`. Raises CannotOpenError where there is nothing to show of it."""
    past = past_case(folder)
    if not past.moments:
        raise CannotOpenError(f"case {folder.name} cannot be shown: {past.trouble or 'nothing happened in it'}")
    log = RunLog()
    log.path = folder / NAME  # read by the pane that shows it; never opened for writing
    return PastRun(past, log)
