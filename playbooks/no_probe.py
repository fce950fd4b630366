"""Stands for a probe where a session loads nothing: no event comes, and no load is asked for (`Session.no_loads`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from engine_probe.events import Event
    from engine_probe.launch import Launch
    from engine_probe.requests import Request


class NoProbe:
    """A ProbeLike."""

    async def load(self, launch: Launch, grade: str) -> None:
        raise RuntimeError(f"this session loads nothing, and {launch.name} was to be loaded ({grade})")

    async def request(self, model: str, request: Request) -> None:
        raise RuntimeError(f"this session loads nothing, and {model} was to answer {request.path}")

    async def stop(self, model: str, reason: str | None = None) -> None:
        """Nothing runs."""

    async def events(self) -> AsyncIterator[Event]:
        """None ever comes; ends when it is cancelled."""
        await asyncio.Event().wait()
        none: tuple[Event, ...] = ()
        for event in none:
            yield event
