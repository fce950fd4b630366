"""Runs the console's app: signals come between two events, garbage is looked for seldom, a lost terminal ends it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.app import ConsoleApp

HANGUP_SECONDS = 15.0
_GARBAGE_THRESHOLDS = (2_000, 10, 10)
_STARTED_SECONDS = 3.0


def _end_without_terminal(app: ConsoleApp) -> None:
    """The terminal is gone: nothing is written to it any more, because Textual waits for ever for what it wrote.

    If the way out is blocked all the same, the process ends; the probe sees that and cleans up by itself.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())
    last_resort = threading.Timer(HANGUP_SECONDS, os._exit, (128 + signal.SIGHUP,))
    last_resort.daemon = True
    last_resort.start()
    app.end_by_signal(signal.SIGHUP)


def _keep_what_stays() -> None:
    """What was made while starting is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


async def run_app(app: ConsoleApp) -> int:
    """Signals are handled between two events, never inside one: the console leaves by its own way out."""
    loop = asyncio.get_running_loop()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)  # a command that ends soon postpones it (tui/cli.py); this one stays
    loop.call_later(_STARTED_SECONDS, _keep_what_stays)
    loop.add_signal_handler(signal.SIGTERM, app.end_by_signal, signal.SIGTERM)
    loop.add_signal_handler(signal.SIGHUP, _end_without_terminal, app)
    return await app.run_async() or 0
