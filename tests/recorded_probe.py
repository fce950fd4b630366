"""A probe that plays back what a real one reported: vLLM 0.32.0, CPU, the KV cache too small and then mended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.events import Ended, Event, Failed, Ready, RequestAnswered, Started, Text, decode
from engine_probe.launch import Launch
from engine_probe.requests import Request
from engine_probe.run_log import RunLog
from playbooks.ended_load import diagnose_load
from playbooks.proof import is_standard
from tests.good_answers import good_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from playbooks.context import Context
    from playbooks.effects import Diagnose, Diagnosed

DATA = Path(__file__).parent / "data"


def recorded_loads(name: str = "kv-cache-too-small.jsonl") -> list[list[Event]]:
    """The events of each load of a recording, from Started to Ended."""
    loads: list[list[Event]] = []
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        event = decode(line)
        if isinstance(event, Started):
            loads.append([])
        if loads:
            loads[-1].append(event)
    return loads


def failing_load(model: str, message: str, kind: str = "ValueError") -> list[Event]:
    """A load that ends with one exception, as little as a probe can say."""
    frames = [{"file": "/opt/vllm/lib/vllm/v1/engine/core.py", "line": 9, "function": "f"}]
    chain = [{"type": kind, "message": message, "frames": frames}]
    return [
        Started(model, grade="warm"),
        Text(model, line=f"{kind}: {message}"),
        Failed(model, reason="vllm exited with code 1 before it was ready", exit_code=1, exceptions=chain),
        Ended(model),
    ]


class RecordedProbe:
    """Each load plays the next of `loads`, up to the first answer; each request plays on to its answer."""

    def __init__(self, *loads: list[Event]) -> None:
        self.asked: list[Launch | Request | str] = []
        self._loads = list(loads)
        self._rest: list[Event] = []
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    @property
    def launches(self) -> list[Launch]:
        return [one for one in self.asked if isinstance(one, Launch)]

    @property
    def requests(self) -> list[Request]:
        """Those that a playbook makes by itself."""
        return [one for one in self.asked if isinstance(one, Request)]

    async def load(self, launch: Launch, grade: str) -> None:
        self.asked.append(launch)
        self._rest = [self._of(launch, event) for event in self._loads.pop(0)]
        while self._rest and not isinstance(self._rest[0], RequestAnswered):
            if isinstance(self._rest[0], Ended) and any(isinstance(one, Ready) for one in self._played):
                break
            self._play()

    async def request(self, model: str, request: Request) -> None:
        if request.id.startswith("trial-") or is_standard(request.id):
            self._queue.put_nowait(good_answer(model, request))  # every model is asked it; a recording has no answer
            return
        self.asked.append(request)
        while self._rest and not isinstance(self._rest[0], Ended):
            answered = isinstance(self._rest[0], RequestAnswered)
            self._play()
            if answered:
                return

    async def stop(self, model: str, reason: str | None = None) -> None:
        self.asked.append(f"stop {model}")
        if reason is not None:
            self._queue.put_nowait(Failed(model, reason=reason))
        self._rest = [one for one in self._rest if not isinstance(one, RequestAnswered)]
        while self._rest:
            self._play()

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._queue.get()

    @property
    def _played(self) -> list[Event]:
        return list(self._queue._queue)  # type: ignore[attr-defined]

    def _play(self) -> None:
        self._queue.put_nowait(self._rest.pop(0))

    @staticmethod
    def _of(launch: Launch, event: Event) -> Event:
        if isinstance(event, Ready):
            event = replace(event, served_models=[launch.model])
        return replace(event, model=launch.name) if event.model is not None else event


def diagnosis_of(effect: Diagnose, happenings: Iterable[object], context: Context) -> Diagnosed:
    """What a driver would feed back, of the events among `happenings` that are of the load."""
    log = RunLog()
    log.open_privately()
    for one in happenings:
        if isinstance(one, Event) and one.model == effect.launch.name:
            log.add(one)
    try:
        return diagnose_load(effect, log.reading(), context)
    finally:
        log.close()
