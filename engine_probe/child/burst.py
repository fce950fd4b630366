"""The same request from many threads at once, for a while, to one load: counted here, told as one event."""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

from engine_probe import events
from engine_probe.child import gpu_memory
from engine_probe.child.http_client import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.child.http_client import Endpoint
    from engine_probe.child.orders import BurstOrder

_MOST_ERRORS = 5
_LONGEST_ERROR = 200
_PAUSE_AFTER_ERROR_S = 0.05
"""A server that refuses at once must not be asked thousands of times a second."""
_GPU_PERIOD_S = 1.0


class Burst:
    """Made by the keeper, which gives it memory samples too; `on_end` is called in a thread of the burst's own."""

    def __init__(self, endpoint: Endpoint, order: BurstOrder, on_end: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._order = order
        self._on_end = on_end
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._began = time.monotonic()
        self._running = 0
        self._seconds: list[float] = []
        self._errors: dict[str, int] = {}
        self._tokens: int | None = None
        self._rss: list[int] = []
        self._gpu: list[int] = []
        self._pids: frozenset[int] = frozenset()

    def begin(self) -> None:
        """Raises RuntimeError where not one thread is to be had."""
        self._running = 1  # this one, until all have been started
        for number in range(self._order.at_once):
            with self._lock:
                self._running += 1
            try:
                threading.Thread(target=self._work, daemon=True).start()
            except RuntimeError as error:
                if number == 0:
                    raise
                self._count(0.0, {}, f"only {number} requests at once: {error}")
                self._thread_over()
                break
        if gpu_memory.can_be_read():
            threading.Thread(target=self._watch_gpus, daemon=True).start()
        self._thread_over()

    def sampled(self, rss_bytes: int | None, pids: set[int]) -> None:
        self._pids = frozenset(pids)
        if rss_bytes is not None:
            self._rss.append(rss_bytes)

    def stop(self) -> None:
        """No further request is sent; those under way are not waited for."""
        self._is_over.set()

    def result(self, error: str | None = None) -> events.BurstAnswered:
        """What has come of it by now."""
        with self._lock:
            took, errors, tokens = sorted(self._seconds), dict(self._errors), self._tokens
        seconds = time.monotonic() - self._began
        commonest = sorted(errors.items(), key=lambda item: -item[1])[:_MOST_ERRORS]
        rss, gpu = first_and_last(self._rss), first_and_last(self._gpu)
        return events.BurstAnswered(
            self._order.model,
            id=self._order.id,
            path=self._order.path,
            at_once=self._order.at_once,
            seconds=round(seconds, 3),
            answered=len(took),
            failed=sum(errors.values()),
            errors=[{"text": text, "count": count} for text, count in commonest],
            p50_seconds=round(statistics.median(took), 4) if took else None,
            max_seconds=round(took[-1], 4) if took else None,
            completion_tokens=tokens,
            tokens_per_second=round(tokens / seconds, 1) if tokens is not None and seconds > 0 else None,
            rss_first_bytes=rss[0],
            rss_last_bytes=rss[1],
            gpu_first_bytes=gpu[0],
            gpu_last_bytes=gpu[1],
            error=error,
        )

    def _work(self) -> None:
        end = self._began + self._order.seconds
        while not self._is_over.is_set() and time.monotonic() < end:
            began = time.monotonic()
            try:
                status, text = self._endpoint.ask(self._order.path, self._order.body, self._order.timeout_s)
                found = describe(status, text)
                error = None if status == 200 else f"status {status}: {found.get('error') or text}"
            except Exception as problem:  # whatever it is: it is counted
                found, error = {}, f"{type(problem).__name__}: {problem}"
            self._count(time.monotonic() - began, found, error)
            if error is not None:
                self._is_over.wait(_PAUSE_AFTER_ERROR_S)
        self._thread_over()

    def _thread_over(self) -> None:
        with self._lock:
            self._running -= 1
            is_last = self._running == 0
        if is_last and not self._is_over.is_set():
            self._is_over.set()
            self._on_end()

    def _count(self, seconds: float, found: dict[str, Any], error: str | None) -> None:
        if self._is_over.is_set():  # it was stopped meanwhile: an answer that the end of the load tore off is no error
            return
        with self._lock:
            if error is not None:
                text = error[:_LONGEST_ERROR]
                self._errors[text] = self._errors.get(text, 0) + 1
                return
            self._seconds.append(seconds)
            tokens = found.get("completion_tokens")
            if isinstance(tokens, int):
                self._tokens = (self._tokens or 0) + tokens

    def _watch_gpus(self) -> None:
        while not self._is_over.is_set():
            used = gpu_memory.used_bytes(self._pids)
            if used is not None:
                self._gpu.append(used)
            self._is_over.wait(_GPU_PERIOD_S)


def first_and_last(samples: Sequence[int]) -> tuple[int | None, int | None]:
    """The medians of the first and of the last third; None where there are not two samples."""
    if len(samples) < 2:
        return None, None
    third = max(1, len(samples) // 3)
    return int(statistics.median(samples[:third])), int(statistics.median(samples[-third:]))
