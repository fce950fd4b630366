"""Drives a session: does what the state machine wants done, and feeds back what came of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from engine_probe.events import Ended, Event, Trouble
from engine_probe.facts import Known
from playbooks import slow_changes
from playbooks.diagnose import step
from playbooks.effects import (
    AppliedDiffers,
    Diagnose,
    DiagnoseLogs,
    EffectFailed,
    Examine,
    Load,
    LookAtFiles,
    SendRequest,
    StopExamine,
    StopLoad,
    UndoRevision,
    WriteReport,
)
from playbooks.ended_load import diagnose_load
from playbooks.evidence_copies import NOT_USED
from playbooks.examining import Examiner
from playbooks.files_seen import look_at_files
from playbooks.keeping import Keeping
from playbooks.log_reading import diagnose_sources, evidence_of
from playbooks.session_files import SessionFiles

if TYPE_CHECKING:
    from engine_probe.launch import Launch
    from engine_probe.requests import Request
    from engine_probe.run_log import RunLog
    from playbooks.case import CaseFolder
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.effects import Done, Effect
    from playbooks.evidence import Evidence
    from playbooks.session import Session

OnChange = Callable[["Session", Event | None], None]
OnStep = Callable[["Session", "Event | Decision | Done", "Session"], None]


class ProbeLike(Protocol):
    """What a driver needs of a probe; `engine_probe.supervisor.Probe` is one."""

    async def load(self, launch: Launch, grade: str) -> None: ...
    async def request(self, model: str, request: Request) -> None: ...
    async def stop(self, model: str, reason: str | None = None) -> None: ...
    def events(self) -> AsyncIterator[Event]: ...


class Policy(Protocol):
    """Decides by itself. None: nothing to decide now."""

    def decide(self, session: Session) -> Decision | None: ...


_MOST_WAITING_EVENTS = 100


async def drive(  # noqa: PLR0913 -- what a front end knows of a case
    session: Session,
    probe: ProbeLike,
    decisions: asyncio.Queue[Decision] | Policy,
    on_change: OnChange,
    *,
    context: Context,
    case: CaseFolder | None = None,
    log: RunLog | None = None,
    given: Evidence | None = None,
    on_step: OnStep | None = None,
) -> Session:
    """Run `session` until its report is written. `on_change` gets every new session, and the event if one made it.

    `log` is given all events; whoever gives it opens and closes it. Cancelling leaves the ending of loads to the
    probe's own way out; a change under verification is undone. `given`: what is known beside logs to begin from.
    `on_step` gets all that the session is fed, with the session before and after.
    """
    kept = Keeping(case, log)
    driver = _Driver(session, probe, on_change, context, kept, given, on_step)
    kept.begin(session)
    return await driver.run(decisions)


class _Driver:
    def __init__(
        self,
        session: Session,
        probe: ProbeLike,
        on_change: OnChange,
        context: Context,
        kept: Keeping,
        given: Evidence | None,
        on_step: OnStep | None,
    ) -> None:
        self.session = session
        self._probe = probe
        self._on_change = on_change
        self._context = context
        self._kept = kept
        self._on_step = on_step
        self._given = given
        self._files = SessionFiles(kept.case, getattr(probe, "engine", None))
        self._events: asyncio.Queue[Event] = asyncio.Queue(_MOST_WAITING_EVENTS)
        self._decisions: asyncio.Queue[Decision] = asyncio.Queue()
        self._examined: deque[Done] = deque()
        self._examiner = Examiner(getattr(probe, "engine", None), self._take_examined)
        self._came = asyncio.Event()

    async def run(self, decisions: asyncio.Queue[Decision] | Policy) -> Session:
        policy = None if isinstance(decisions, asyncio.Queue) else decisions
        tasks = [asyncio.create_task(self._read_events())]
        if isinstance(decisions, asyncio.Queue):
            tasks.append(asyncio.create_task(self._read_decisions(decisions)))
        try:
            if self.session.progress.phase != "not begun":  # it goes on: whoever looks on has to know from where
                self._tell(None)
            while self.session.progress.phase != "done":
                await asyncio.sleep(0)  # a policy that decides at once, again and again, can still be cancelled
                decision = policy.decide(self.session) if policy is not None else None
                await self._take(decision if decision is not None else await self._next())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, self._examiner.close(), return_exceptions=True)
            self._kept.flush()
            self._kept.close()
            self._leave_no_unverified_change()
            self._files.close()
            if self.session.progress.phase != "done":
                self._kept.leave()
        return self.session

    async def _take(self, happening: Event | Decision | Done) -> None:
        waiting: deque[Event | Decision | Done] = deque([happening])
        if isinstance(happening, Ended) and (seen := await self._examiner.load_ended(happening)) is not None:
            waiting.appendleft(seen)
        while waiting:
            one = waiting.popleft()
            before = self.session
            effects = self._step(one)
            if self.session.verdict == "verified":
                is_over = any(isinstance(effect, WriteReport) for effect in effects)
                differs = self._files.differs() if is_over or before.verdict != "verified" else None
                if differs is not None:
                    self._step(AppliedDiffers(differs))
                self._files.settle()
            for effect in effects:
                done = await self._perform(effect)
                if done is not None:
                    waiting.append(done)
            self._tell(one if isinstance(one, Event) else None)

    def _step(self, one: Event | Decision | Done) -> tuple[Effect, ...]:
        before = self.session
        self.session, effects = step(before, one, self._context)
        self._kept.take(before, one, self.session)
        if self._on_step is not None:
            self._on_step(before, one, self.session)
        return effects

    def _tell(self, event: Event | None) -> None:
        news = self._kept.news()
        unused = self.session.facts.get(NOT_USED)
        told = str(unused.value).splitlines() if isinstance(unused, Known) else []
        new = [one for one in (*([news] if news else []), *told) if one not in self.session.notes]
        if new:
            self.session = replace(self.session, notes=(*self.session.notes, *new))
        self._on_change(self.session, event)

    async def _perform(self, effect: Effect) -> Done | None:
        if isinstance(effect, Load):
            self._examiner.load_begins(effect)
            await self._probe.load(effect.launch, effect.grade)
        elif isinstance(effect, SendRequest):
            await self._probe.request(effect.model, effect.request)
        elif isinstance(effect, StopLoad):
            await self._probe.stop(effect.model, effect.reason)
        elif isinstance(effect, Examine):
            self._examiner.begin(effect)
        elif isinstance(effect, StopExamine):
            self._examiner.stop()
        elif isinstance(effect, Diagnose):
            return await self._diagnose(effect)
        elif isinstance(effect, LookAtFiles):
            return await self._look_at_files(effect)
        elif isinstance(effect, DiagnoseLogs):
            self._on_change(self.session, None)
            return await asyncio.to_thread(diagnose_sources, effect, self._context, evidence_of(effect, self._given))
        elif self._files.takes_long(effect):
            self._on_change(self.session, None)
            return await slow_changes.perform(
                self._files, effect, self.session, self._decisions, self._tell_what_goes_on
            )
        else:
            return self._files.perform(effect, self.session)
        return None

    def _tell_what_goes_on(self, running: str) -> None:
        self.session = replace(self.session, running=running)
        self._on_change(self.session, None)

    async def _diagnose(self, effect: Diagnose) -> Done:
        """In a thread: a long log and a big model's files take seconds, and the screen goes on."""
        self._on_change(self.session, None)
        try:
            reading, engine = self._kept.reading(effect.load_number), getattr(self._probe, "engine", None)
            return await asyncio.to_thread(diagnose_load, effect, reading, self._context, engine)
        except OSError as error:
            return EffectFailed(effect, f"the log cannot be read: {error.strerror or error}")

    async def _look_at_files(self, effect: LookAtFiles) -> Done:
        """In a thread, as above."""
        self._on_change(self.session, None)
        engine = getattr(self._probe, "engine", None)
        is_local = engine is None or engine.is_local
        return await asyncio.to_thread(look_at_files, effect.launch, effect.deployment, is_local=is_local)

    async def _read_events(self) -> None:
        async for event in self._probe.events():
            await self._events.put(event)  # waits: what bounds an engine's flood is the probe's own queue
            self._came.set()
        await self._events.put(Trouble(text="the probe has ended", fatal=True))
        self._came.set()

    async def _read_decisions(self, decisions: asyncio.Queue[Decision]) -> None:
        while True:
            self._decisions.put_nowait(await decisions.get())
            self._came.set()

    def _take_examined(self, done: Done) -> None:
        self._examined.append(done)
        self._came.set()

    async def _next(self) -> Event | Decision | Done:
        """What a person decides comes before what waits: a flood of output must not hold up a stop."""
        while True:
            if not self._decisions.empty():
                return self._decisions.get_nowait()
            if self._examined:
                return self._examined.popleft()
            if not self._events.empty():
                return self._events.get_nowait()
            self._kept.flush()
            self._came.clear()
            await self._came.wait()

    def _leave_no_unverified_change(self) -> None:
        """Interrupted in the middle of a verification: the file goes back to what it was."""
        before = self.session.progress.before
        if self.session.progress.phase in ("writing", "verifying", "undoing") and before is not None:
            self._files.perform(UndoRevision(before), self.session)
