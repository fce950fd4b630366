"""Xid errors, as the driver tells them while somebody listens. Listening never waits."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.nvml import NOT_SUPPORTED, TIMEOUT, Refusal
from engine_probe.hardware.nvml_values import ORIGIN, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.nvml import Driver

_XID_CRITICAL_ERROR = 8  # nvml.h, nvmlEventTypeXidCriticalError
_AT_ONCE_MS = 0
_MOST_EVENTS_A_READ = 32
_LARGEST_XID = 9999
_NONE = Known(0, "measured", ORIGIN)


class XidListener:
    """The last Xid of each GPU, by its place in `handles`; None there is a GPU that is not readable."""

    def __init__(self, driver: Driver, handles: Sequence[Any]) -> None:
        self._driver = driver
        self._places = {_address(handle): place for place, handle in enumerate(handles) if handle is not None}
        self._set = driver.ask("nvmlEventSetCreate")
        self._facts: list[Fact] = [self._register(handle) for handle in handles]
        self._is_heard = any(isinstance(fact, Known) for fact in self._facts)

    def read(self) -> Sequence[Fact]:
        if not self._is_heard:
            return self._facts
        for _ in range(_MOST_EVENTS_A_READ):
            event = self._driver.ask("nvmlEventSetWait_v2", self._set, _AT_ONCE_MS)
            if isinstance(event, Refusal):
                if event.code != TIMEOUT:
                    return [fact if _has_xid(fact) else event.unknown for fact in self._facts]
                break
            place = self._places.get(_address(event.device))
            if place is not None and event.eventType == _XID_CRITICAL_ERROR:
                self._facts[place] = number(event.eventData, 1, _LARGEST_XID)
        return self._facts

    def close(self) -> None:
        if not isinstance(self._set, Refusal):
            self._driver.ask("nvmlEventSetFree", self._set)

    def _register(self, handle: Any) -> Fact:
        if isinstance(self._set, Refusal):
            return self._set.unknown
        if handle is None:
            return Unknown("the GPU is not readable")
        kinds = self._driver.ask("nvmlDeviceGetSupportedEventTypes", handle)
        if isinstance(kinds, Refusal):
            return kinds.unknown
        if not kinds & _XID_CRITICAL_ERROR:
            return Refusal(NOT_SUPPORTED).unknown
        answer = self._driver.ask("nvmlDeviceRegisterEvents", handle, _XID_CRITICAL_ERROR, self._set)
        return answer.unknown if isinstance(answer, Refusal) else _NONE


def _has_xid(fact: Fact) -> bool:
    return isinstance(fact, Known) and fact != _NONE


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
