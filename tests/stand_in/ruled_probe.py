"""A probe whose loads end as a rule says of each launch, and whose servers answer: for sessions over several models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine_probe.events import ConfigBuilt, Ended, Event, Failed, Ready, RequestAnswered, Started, Text
from playbooks.proof import is_standard
from tests.good_answers import good_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from engine_probe.launch import Launch
    from engine_probe.requests import Request

LENGTH = 64


class RuledProbe:
    """`rule` gets a launch and the launches that serve; a load that fails prints what it returns. None: it serves.

    `asked` tells what was done: `cold load of chat`, `stop chat`, `ask chat /health`.
    """

    def __init__(self, rule: Callable[[Launch, Mapping[str, Launch]], str | None]) -> None:
        self.asked: list[str] = []
        self.up: dict[str, Launch] = {}
        self._rule = rule
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    async def load(self, launch: Launch, grade: str) -> None:
        self.asked.append(f"{grade} load of {launch.name}")
        assert launch.name not in self.up, f"{launch.name} is loaded twice at once"
        self._tell(Started(launch.name, grade=grade))
        trouble = self._rule(launch, self.up)
        if trouble is not None:
            for line in trouble.splitlines():
                self._tell(Text(launch.name, line=line))
            self._tell(Failed(launch.name, reason="vllm exited with code 1 before it was ready", exit_code=1))
            self._tell(Ended(launch.name))
        elif grade == "dry":
            self._tell(ConfigBuilt(launch.name, seconds=0.1))
            self._tell(Ended(launch.name))
        else:
            self.up[launch.name] = launch
            served = [str(launch.args.get("served-model-name", launch.model))]
            self._tell(Ready(launch.name, seconds=1.0, served_models=served, max_model_len=LENGTH, port=8000))

    async def request(self, model: str, request: Request) -> None:
        if not is_standard(request.id):
            self.asked.append(f"ask {model} {request.path}")
        if model not in self.up:
            self._tell(RequestAnswered(model, id=request.id, path=request.path, error="nobody listens"))
            return
        self._tell(good_answer(model, request))

    async def stop(self, model: str, reason: str | None = None) -> None:
        self.asked.append(f"stop {model}")
        if reason is not None:
            self._tell(Failed(model, reason=reason))
        self.up.pop(model, None)
        self._tell(Ended(model))

    def die(self, model: str, reason: str) -> None:
        """The server of `model` ends by itself."""
        self.up.pop(model, None)
        self._tell(Failed(model, reason=reason))
        self._tell(Ended(model))

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._queue.get()

    def _tell(self, event: Event) -> None:
        self._queue.put_nowait(event)
