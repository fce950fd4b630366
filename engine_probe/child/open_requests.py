"""The requests of one load that have no answer yet. Each gets exactly one, whatever becomes of the load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine_probe import events
from engine_probe.child import http_client

if TYPE_CHECKING:
    from engine_probe.child.context import Context
    from engine_probe.child.orders import RequestOrder


def refused(order: RequestOrder, why: str, seconds: float = 0.0) -> events.RequestAnswered:
    """The answer to a request that the server never answered."""
    return events.RequestAnswered(order.model, id=order.id, path=order.path, error=why, seconds=round(seconds, 3))


class OpenRequests:
    """An answer that comes after `fail_all` is dropped: the request has had its own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[int, tuple[RequestOrder, float]] = {}
        self._sent = 0

    @property
    def is_empty(self) -> bool:
        return not self._open

    def send(self, endpoint: http_client.Endpoint, order: RequestOrder) -> None:
        self._sent += 1
        number = self._sent
        self._open[number] = (order, time.time())
        try:
            http_client.send(endpoint, order, lambda answer: self._context.post(lambda: self._answered(number, answer)))
        except RuntimeError as error:  # no thread to be had
            self._answered(number, refused(order, str(error)))

    def fail_all(self, why: str) -> None:
        while self._open:
            _, (order, began) = self._open.popitem()
            self._context.emit(refused(order, why, time.time() - began))

    def _answered(self, number: int, answer: events.RequestAnswered) -> None:
        if self._open.pop(number, None) is not None:
            self._context.emit(answer)
