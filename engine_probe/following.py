"""What the console knows of one load while it goes on: its stage, its limits, the requests that are open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe import events as ev

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.logs.stage_tracker import StageTracker
    from engine_probe.requests import Request


def unanswered(model: str, request: Request, why: str) -> ev.Event:
    """What is told of a request that nobody answers."""
    if request.burst is None:
        return ev.RequestAnswered(model, id=request.id, path=request.path, error=why)
    return ev.BurstAnswered(model, id=request.id, path=request.path, at_once=request.burst.at_once, error=why)


@dataclass(frozen=True)
class Limits:
    """When a load is given up. Seconds; None: never. `hang_s` only reports that nothing moves."""

    hang_s: float = 300.0
    load_s: float | None = None
    stage_s: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Following:
    """`began` and every `now` are seconds of the same clock."""

    name: str
    tracker: StageTracker
    limits: Limits
    began: float
    is_over: bool = False
    _stage_began: float = 0.0
    _is_given_up: bool = False
    _open_requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stage_began = self.began

    def asked(self, request: Request) -> None:
        self._open_requests.append(request)

    def take(self, event: ev.Event, now: float) -> list[ev.Event]:
        """`event` and what it means for the stages, in the order in which it is to be told."""
        if isinstance(event, (ev.RequestAnswered, ev.BurstAnswered)):
            self._forget_request(event.id)
        if isinstance(event, ev.Failed):
            return [*self.tracker.finish(event.time, completed=False), event]
        if isinstance(event, ev.Ended):
            self.is_over = True
            # Serving has no end of its own; any other stage that was going on was cut off.
            completed = self.tracker.current == "serving"
            return [*self.tracker.finish(event.time, completed=completed), event]
        found = self._stages(event)
        if any(isinstance(one, ev.StageEntered) for one in found):
            self._stage_began = now
        return [event, *found]

    def give_up(self, now: float) -> str | None:
        """Why the load has to be ended now; said once."""
        stage = self.tracker.current
        if self.is_over or self._is_given_up or stage == "serving":
            return None
        allowed, total = self.limits.stage_s.get(stage or ""), self.limits.load_s
        reason = None
        if allowed is not None and now - self._stage_began > allowed:
            reason = f"stage {stage} took longer than its limit of {allowed:g} s"
        elif total is not None and now - self.began > total:
            reason = f"the load took longer than its limit of {total:g} s"
        self._is_given_up = reason is not None
        return reason

    def lost(self, why: str) -> Iterator[ev.Event]:
        """The child has died without a word: what it would have said."""
        for request in tuple(self._open_requests):
            yield unanswered(self.name, request, why)
        if not self.is_over:
            yield ev.Failed(self.name, reason=why)
            yield ev.Ended(self.name)

    def _forget_request(self, request_id: str) -> None:
        for request in self._open_requests:
            if request.id == request_id:
                self._open_requests.remove(request)
                return

    def _stages(self, event: ev.Event) -> list[ev.Event]:
        tracker = self.tracker
        if isinstance(event, ev.Started):
            return tracker.enter("config", event.time)
        if isinstance(event, ev.LogRecord):
            return tracker.feed(event.message, event.time)
        if isinstance(event, ev.Text) and not event.also_record:
            return tracker.feed(event.line, event.time)
        if isinstance(event, ev.Ready):
            return tracker.enter("serving", event.time)
        return tracker.finish(event.time, completed=True) if isinstance(event, ev.ConfigBuilt) else []
