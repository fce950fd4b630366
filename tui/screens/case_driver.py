"""Drives one case beside the screen: what it tells waits in an inbox, what a person decides goes into a queue."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.engine import EngineError
from engine_probe.errors import InputError
from playbooks.decisions import Finish, Stop
from playbooks.diagnose import allowed
from tui.running import CaseRun, Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.events import Event
    from playbooks.decisions import Decision
    from playbooks.session import Session


class CaseDriver:
    """`told` is called when the inbox was empty and is not any more. Nothing of the case runs before `drive`."""

    def __init__(self, run: CaseRun, told: Callable[[], None]) -> None:
        self.run = run
        self.inbox = Inbox()
        self.is_leaving = False
        self._told = told
        self._decisions: asyncio.Queue[Decision] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._has_begun = self._stop_is_sent = False

    def decide(self, decision: Decision) -> None:
        self._decisions.put_nowait(decision)

    async def drive(self, last: Callable[[], Session]) -> tuple[Session | None, str | None]:
        """The case's last session, and the driver's own failure in words. `last` is the newest session seen."""
        self._has_begun = True
        try:
            return await self.run.drive(self._decisions, self._put), None
        except EngineError as problem:
            session = last()
            notes = (*session.notes, str(problem))
            return replace(session, verdict="cannot run", running=None, notes=notes), None
        except (InputError, OSError) as problem:
            return None, str(problem)
        except Exception as problem:
            return None, f"internal error: {type(problem).__name__}: {problem}"
        finally:
            self._ended.set()

    @property
    def has_begun(self) -> bool:
        """Whether anything of the case runs or ran."""
        return self._has_begun

    def go_on_leaving(self, session: Session) -> None:
        """Stop what runs, then finish: each as soon as the case allows it."""
        if not self.is_leaving or self._ended.is_set():
            return
        if allowed(session, Finish()):
            self.decide(Finish())
        elif allowed(session, Stop()) and not self._stop_is_sent:
            self._stop_is_sent = True
            self.decide(Stop())

    def _put(self, session: Session, event: Event | None) -> None:
        if self.inbox.put(session, event):
            self._told()
