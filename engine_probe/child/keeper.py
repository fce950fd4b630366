"""Stays small and outlives what it starts: takes orders, runs loads, reports events, leaves nothing behind.

The console's end of the pipe is its heartbeat: when that closes, by `kill -9` too, every load is ended.
"""

from __future__ import annotations

import os
import platform
import select
import selectors
import signal
import sys
import time
from typing import TYPE_CHECKING

from engine_probe import events
from engine_probe.child import log_tap, open_requests, orders, owned, prctl, process_tree, sweep
from engine_probe.child.context import Context
from engine_probe.child.loads import Loads
from engine_probe.child.outbox import Outbox
from engine_probe.child.posted import Posted
from engine_probe.child.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from types import FrameType

_TICK_S = 0.05
_LAST_EVENTS_S = 5.0


class Keeper:
    """One loop over orders, texts, records and the warm process; nothing in it blocks for long."""

    def __init__(self, private_dir: str) -> None:
        self._private_dir = private_dir
        events_fd = os.dup(1)
        os.dup2(2, 1)  # whatever else is printed must not end up among the events
        self._outbox = Outbox(events_fd)
        self._selector = selectors.DefaultSelector()
        self._orders = orders.OrderReader(0)
        self._posted = Posted()
        self._unclaimed: dict[int, int] = {}
        self._is_ending = False
        self._watchdog = Watchdog("CONSOLE_PROBE=" + os.path.basename(private_dir), private_dir)
        context = Context(
            private_dir=private_dir,
            emit=self._outbox.send,
            post=self._posted.post,
            sweep=self._sweep,
            collect_exits=self._collect_exits,
            claim_exit=lambda pid: self._unclaimed.pop(pid, None),
            watch_pipe=self._watchdog.watch_pipe,
        )
        self._loads = Loads(context, self._selector, adopter=os.getpid() if prctl.become_subreaper() else 0)

    def run(self) -> None:
        """Until the console closes its end, or a signal asks to end; then leave nothing."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ, self._on_orders)
        self._selector.register(self._posted.fd, selectors.EVENT_READ, self._posted.run)
        self._outbox.send(
            events.ProbeStarted(
                pid=os.getpid(), python=sys.executable, python_version=platform.python_version(), host=platform.node()
            )
        )
        self._loop()
        self._leave()

    def _loop(self) -> None:
        while self._loads or not self._is_ending:
            self._await_console()
            for key, _ in self._selector.select(_TICK_S):
                key.data()
            if self._outbox.broken:
                self._end(None)
            self._collect_exits()
            self._loads.tick()

    def _await_console(self) -> None:
        """Be woken when the console has read, as long as events wait for that."""
        is_awaited = self._outbox.fd in self._selector.get_map()
        if self._outbox.wants_to_write and not is_awaited:
            self._selector.register(self._outbox.fd, selectors.EVENT_WRITE, self._outbox.flush)
        elif is_awaited and not self._outbox.wants_to_write:
            self._selector.unregister(self._outbox.fd)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        reason = f"the probe was ended by {signal.Signals(number).name}"
        self._posted.post(lambda: self._end(reason))

    def _on_orders(self) -> None:
        lines = self._orders.read()
        if lines is None:
            self._selector.unregister(0)
            self._end(None)
            return
        for line in lines:
            try:
                self._obey(orders.parse(line))
            except Exception as error:  # one bad order must not end the loads that run
                self._outbox.send(events.Trouble(text=f"an order failed: {type(error).__name__}: {error}"))

    def _obey(self, order: orders.Order) -> None:
        if isinstance(order, orders.WarmOrder):
            self._loads.warm_up(order)
            return
        if isinstance(order, orders.OwnOrder):
            owned.add(self._private_dir, order.folder)
            return
        if isinstance(order, orders.LoadOrder):
            if self._is_ending:
                self._loads.refuse(order, "the probe is ending")
            else:
                self._loads.make(order)
            return
        load = self._loads.get(order.model)
        if isinstance(order, (orders.RequestOrder, orders.BurstOrder)):
            if load is None:
                self._outbox.send(open_requests.refused(order, f"{order.model} is not loaded"))
            else:
                load.request(order)
        elif load is not None:
            load.stop(order.reason)

    def _collect_exits(self) -> None:
        for pid, status in sweep.reap().items():
            if not self._loads.on_exit(pid, status):
                self._unclaimed[pid] = status
        if not self._loads.some_await_pids:
            self._unclaimed.clear()

    def _sweep(self, chosen: sweep.Select, known_shm: Iterable[str], shm_of_others: Container[str] = ()) -> sweep.Swept:
        known_shm = {*known_shm, *log_tap.noted_shared_memory(self._private_dir)}
        return sweep.sweep(
            chosen,
            known_shm,
            spared=(self._watchdog.pid,),
            collect_exits=self._collect_exits,
            shm_of_others=shm_of_others,
        )

    def _end(self, reason: str | None) -> None:
        self._is_ending = True
        self._loads.stop_all(reason)

    def _leave(self) -> None:
        """All loads have ended; what still descends from us goes too, then our folder."""
        spared = {os.getpid(), self._watchdog.pid}

        def others(processes: Mapping[int, process_tree.Process]) -> set[int]:
            return process_tree.descendants(processes, {os.getpid()}) - spared

        swept = self._sweep(others, ())
        if swept.left_behind:
            self._outbox.send(events.Trouble(text="could not end: " + ", ".join(sorted(swept.left_behind))))
        owned.remove_all(self._private_dir)
        deadline = time.monotonic() + _LAST_EVENTS_S
        while self._outbox.wants_to_write and time.monotonic() < deadline:
            select.select((), (self._outbox.fd,), (), _TICK_S)
            self._outbox.flush()
        self._watchdog.dismiss()
