"""The requests of one load that have no answer yet. Each gets exactly one, whatever becomes of the load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine_probe import events
from engine_probe.child import http_client
from engine_probe.child.burst import Burst
from engine_probe.child.orders import BurstOrder

if TYPE_CHECKING:
    from engine_probe.child.context import Context
    from engine_probe.child.orders import RequestOrder


def refused(order: RequestOrder | BurstOrder, why: str, seconds: float = 0.0) -> events.Event:
    """The answer to a request that the server never answered."""
    seconds = round(seconds, 3)
    if isinstance(order, BurstOrder):
        return events.BurstAnswered(
            order.model, id=order.id, path=order.path, at_once=order.at_once, error=why, seconds=seconds
        )
    return events.RequestAnswered(order.model, id=order.id, path=order.path, error=why, seconds=seconds)


class OpenRequests:
    """An answer that comes after `fail_all` is dropped: the request has had its own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[int, tuple[RequestOrder, float]] = {}
        self._bursts: dict[int, Burst] = {}
        self._sent = 0

    @property
    def is_empty(self) -> bool:
        return not self._open and not self._bursts

    def send(self, endpoint: http_client.Endpoint, order: RequestOrder | BurstOrder) -> None:
        self._sent += 1
        number = self._sent
        try:
            if isinstance(order, BurstOrder):
                self._begin(number, endpoint, order)
                return
            self._open[number] = (order, time.time())
            http_client.send(endpoint, order, lambda answer: self._context.post(lambda: self._answered(number, answer)))
        except RuntimeError as error:  # no thread to be had
            self._open.pop(number, None)
            self._bursts.pop(number, None)
            self._context.emit(refused(order, str(error)))

    def sampled(self, rss_bytes: int | None, pids: set[int]) -> None:
        """The load's memory now, and its processes."""
        for burst in self._bursts.values():
            burst.sampled(rss_bytes, pids)

    def stop_bursts(self, why: str) -> None:
        """They are over now, with what they have counted."""
        for number in tuple(self._bursts):
            self._bursts[number].stop()
            self._burst_over(number, why)

    def fail_all(self, why: str) -> None:
        self.stop_bursts(why)
        while self._open:
            _, (order, began) = self._open.popitem()
            self._context.emit(refused(order, why, time.time() - began))

    def _begin(self, number: int, endpoint: http_client.Endpoint, order: BurstOrder) -> None:
        def over() -> None:
            self._context.post(lambda: self._burst_over(number))

        burst = self._bursts[number] = Burst(endpoint, order, over)
        burst.begin()

    def _burst_over(self, number: int, why: str | None = None) -> None:
        burst = self._bursts.pop(number, None)
        if burst is not None:
            self._context.emit(burst.result(why))

    def _answered(self, number: int, answer: events.RequestAnswered) -> None:
        if self._open.pop(number, None) is not None:
            self._context.emit(answer)
