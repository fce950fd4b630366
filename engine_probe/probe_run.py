"""A whole deployment through one probe: in order or all at once, kept alive together, ended together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe import events as ev
from engine_probe.requests import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from engine_probe.launch import Deployment, Launch
    from engine_probe.supervisor import Probe


@dataclass
class ProbeRun:
    """Iterate `events()`; afterwards `failed` names the models that did not load or answer."""

    probe: Probe
    deployment: Deployment
    grade: str
    hold: bool = False
    """Keep the models up once all have answered, until `stop` is called or one fails."""
    ready: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _waiting: list[Launch] = field(default_factory=list)
    _open: set[str] = field(default_factory=set)
    _stopping: bool = False

    async def events(self) -> AsyncIterator[ev.Event]:
        """Every event, until all that was started has ended."""
        self._waiting = list(self.deployment.models)
        await self._start_next()
        async for event in self.probe.events():
            if isinstance(event, ev.Ended):
                self._open.discard(event.model or "")
                if self.grade == "dry" and not self.failed:
                    self.ready.append(event.model or "")
                    await self._start_next()
            await self._react(event)
            yield event
            if not self._open:
                return

    async def _react(self, event: ev.Event) -> None:
        if self._stopping:
            return  # what comes now comes of the stop and says nothing of a model
        name = event.model or ""
        if isinstance(event, ev.Failed):
            self.failed.append(name)
            await self.stop()
        elif isinstance(event, ev.Hung):
            await self.probe.stop(name, f"no progress for {event.silent_seconds:g} s: it hangs")
        elif isinstance(event, ev.Ready):
            self.ready.append(name)
            await self.probe.request(name, _short_request(event))
        elif isinstance(event, ev.RequestAnswered):
            (self.answered if event.status == 200 else self.failed).append(name)
            await self._after_answer()

    @property
    def all_answered(self) -> bool:
        return len(self.answered) == len(self.deployment.models)

    async def _after_answer(self) -> None:
        if self.failed or (self.all_answered and not self.hold):
            await self.stop()
        elif self.deployment.start == "sequential":
            await self._start_next()

    async def _start_next(self) -> None:
        count = 1 if self.deployment.start == "sequential" else len(self._waiting)
        for launch in self._waiting[:count]:
            self._open.add(launch.name)
            await self.probe.load(launch, self.grade)
        del self._waiting[:count]

    async def stop(self) -> None:
        """End what was started and start nothing more; `events()` goes on until all has ended."""
        self._waiting = []
        if not self._stopping:
            self._stopping = True
            self.probe.give_up_if_silent()
            for name in self._open:
                await self.probe.stop(name)


def _short_request(ready: ev.Ready) -> Request:
    """One token is enough to show that the whole path works; a model that cannot complete says so itself."""
    body = {"model": (ready.served_models or [""])[0], "prompt": "Hello", "max_tokens": 1}
    return Request("first-completion", "/v1/completions", body, timeout_s=120.0)
