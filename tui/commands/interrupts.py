"""Ctrl-C, SIGTERM and SIGHUP as something to wait for, so that a command ends what it runs and says so."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from tui.streams import StreamError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from types import TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
T = TypeVar("T")


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` for what cleans up as it leaves: a signal cancels `main`, and so does every further one.

    asyncio's own handler raises a second Ctrl-C wherever the program stands, in the midst of its cleaning up too.
    Raises KeyboardInterrupt or SystemExit, as the first signal asks, once `main` has left.
    """
    came: list[int] = []

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def take(number: int) -> None:
            came.append(number)
            task.cancel()

        before = {number: signal.getsignal(number) for number in SIGNALS}
        heard = [number for number, handler in before.items() if callable(handler)]  # under nohup one is ignored
        for number in heard:
            loop.add_signal_handler(number, take, number)
        try:
            return await main
        finally:
            for number in heard:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])

    try:
        return asyncio.run(watched())
    except (asyncio.CancelledError, StreamError):  # of a terminal that vanished the error comes with its signal
        if not came:
            raise
    if came[0] == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + came[0])


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
