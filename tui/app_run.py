"""Runs the console's app: signals come between two events, garbage is looked for seldom, a lost terminal ends it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from tui.terminal_driver import TerminalDriver, is_there

if TYPE_CHECKING:
    from tui.app import ConsoleApp

HANGUP_SECONDS = 15.0
_GARBAGE_THRESHOLDS = (2_000, 10, 10)
_STARTED_SECONDS = 3.0


def _hang_up(app: ConsoleApp) -> None:
    """SIGHUP: somebody sent it, and the terminal is restored as by any signal; or the terminal is gone.

    Then nothing more is written to it. If the way out is blocked all the same, the process ends; the probe sees that
    and cleans up by itself.
    """
    if not is_there(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0):
        # A shell that ends sends it once more: the first has begun the way out, and a second would cut it short.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
        _write_nowhere()
        last_resort = threading.Timer(HANGUP_SECONDS, os._exit, (128 + signal.SIGHUP,))
        last_resort.daemon = True
        last_resort.start()
    app.end_by_signal(signal.SIGHUP)


def _write_nowhere() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


def _keep_what_stays() -> None:
    """What was made while starting is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


async def run_app(app: ConsoleApp) -> int:
    """Signals are handled between two events, never inside one: the console leaves by its own way out."""
    loop = asyncio.get_running_loop()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)  # a command that ends soon postpones it (tui/cli.py); this one stays
    loop.call_later(_STARTED_SECONDS, _keep_what_stays)
    app.driver_class = TerminalDriver
    loop.add_signal_handler(signal.SIGTERM, app.end_by_signal, signal.SIGTERM)
    loop.add_signal_handler(signal.SIGHUP, _hang_up, app)
    return await app.run_async() or 0
