"""Ctrl-C, SIGTERM and SIGHUP as something to wait for, so that a command ends what it runs and says so."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within it, the first signal calls `on_signal` and is remembered; a second one cancels the command's task."""

    def __init__(self, on_signal: Callable[[], Awaitable[None]] | None = None) -> None:
        self.number: int | None = None
        self._came = asyncio.Event()
        self._on_signal = on_signal
        self._reaction: asyncio.Task[None] | None = None

    def __enter__(self) -> Interrupts:
        self._task = asyncio.current_task()
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._take, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        if isinstance(error, asyncio.CancelledError) and self.exit_code is not None:
            raise SystemExit(self.exit_code) from None  # the second signal's cancellation ends here

    def _take(self, number: int) -> None:
        if self.number is not None and self._task is not None:
            self._task.cancel()
        self.number = self.number or number
        self._came.set()
        if self._on_signal is not None and self._reaction is None:
            self._reaction = asyncio.ensure_future(self._react(self._on_signal))

    @staticmethod
    async def _react(on_signal: Callable[[], Awaitable[None]]) -> None:
        await on_signal()

    async def wait(self) -> None:
        """Until the first signal has come."""
        await self._came.wait()

    @property
    def exit_code(self) -> int | None:
        """128 + the signal's number, as shells count; None when none came."""
        return None if self.number is None else 128 + self.number
