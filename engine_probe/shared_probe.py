"""One probe for several sessions, one after the other: each has its own events, and leaves nothing to the next.

async with Probe(engine) as probe, SharedProbe(probe) as shared:
    async with shared.lease() as lease:
        await drive(session, lease, …)
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe import events as ev
from engine_probe.engine import EngineError
from engine_probe.load_conditions import LoadConditions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from engine_probe.engine import Engine
    from engine_probe.launch import Launch
    from engine_probe.requests import Request
    from engine_probe.supervisor import Limits, Probe

_MOST_WAITING_EVENTS = 100
_ENDING_SECONDS = 60.0


class Lease:
    """A probe for one session."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._events: asyncio.Queue[ev.Event | None] = asyncio.Queue(_MOST_WAITING_EVENTS)
        self._open: set[str] = set()
        """Models that have not ended."""
        self._is_over = False
        self.left_behind: list[str] = []
        """What its loads could not take away."""

    @property
    def engine(self) -> Engine:
        return self._probe.engine

    async def load(self, launch: Launch, grade: str) -> None:
        await self._probe.load(launch, grade)
        self._open.add(launch.name)

    async def request(self, model: str, request: Request) -> None:
        await self._probe.request(model, request)

    async def stop(self, model: str, reason: str | None = None) -> None:
        await self._probe.stop(model, reason)

    async def events(self) -> AsyncIterator[ev.Event]:
        """Until the probe has ended. For one consumer."""
        while (event := await self._events.get()) is not None:
            yield event
        self._events.put_nowait(None)

    async def take(self, event: ev.Event | None) -> None:
        """From the probe; waits while the session is behind."""
        if isinstance(event, ev.Ended):
            self._open.discard(event.model or "")
            self.left_behind += event.left_behind
        if not self._is_over:
            await self._events.put(event)

    async def end(self) -> None:
        """End what still goes on, and wait for its end."""
        for model in tuple(self._open):
            await self._probe.stop(model)
        while self._open:
            if await self._events.get() is None:
                return

    def close(self) -> None:
        """Nobody reads any more: whoever waits to give an event goes on."""
        self._is_over = True
        while not self._events.empty():
            self._events.get_nowait()


class SharedProbe:
    """Reads the probe's events as long as it is entered; between leases they are nobody's."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._lease: Lease | None = None
        self._reader: asyncio.Task[None] | None = None
        self._warmed: ev.Warmed | None = None
        self.is_lost = False

    async def __aenter__(self) -> SharedProbe:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    @asynccontextmanager
    async def lease(
        self, conditions: LoadConditions | None = None, limits: Limits | None = None
    ) -> AsyncIterator[Lease]:
        """For one session, under `conditions` and `limits`. Raises EngineError when the probe has ended."""
        if self.is_lost:
            raise EngineError(f"the probe on {self.probe.engine.label} has ended")
        assert self._lease is None
        before = self.probe.conditions, self.probe.limits
        self.probe.conditions = conditions or LoadConditions()
        self.probe.limits = limits or self.probe.limits
        lease = self._lease = Lease(self.probe)
        if self._warmed is not None:  # what is known of the engine, each session hears
            await lease.take(replace(self._warmed, seconds=0.0))
        try:
            yield lease
        except Exception:
            await self._end(lease)
            raise
        else:
            await self._end(lease)
        finally:  # one that is cancelled leaves the ending to the probe's own way out
            self._lease = None
            lease.close()
            self.probe.conditions, self.probe.limits = before

    async def _end(self, lease: Lease) -> None:
        try:
            await asyncio.wait_for(lease.end(), _ENDING_SECONDS)
        except asyncio.TimeoutError:
            self.is_lost = True
            raise EngineError(f"loads did not end within {_ENDING_SECONDS:.0f} s") from None

    async def _read(self) -> None:
        async for event in self.probe.events():
            if isinstance(event, ev.Warmed):
                self._warmed = event
            if self._lease is not None:
                await self._lease.take(event)
        self.is_lost = True
        if self._lease is not None:
            await self._lease.take(None)
