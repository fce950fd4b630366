"""All loads that go on: made, started cold or warm, listened to, and forgotten once they have ended."""

from __future__ import annotations

import selectors
import time
from typing import TYPE_CHECKING

from engine_probe import events
from engine_probe.child import process_tree
from engine_probe.child.load import Load
from engine_probe.child.orders import LoadOrder, WarmOrder
from engine_probe.child.spawn import spawn
from engine_probe.child.surroundings import command
from engine_probe.child.warm_process import WarmProcess

if TYPE_CHECKING:
    from engine_probe.child.context import Context

_SCAN_S = 0.5


class Loads:
    """By name; a name is free again once its load has ended. `adopter`: see ForkOrder.keeper."""

    def __init__(self, context: Context, selector: selectors.BaseSelector, adopter: int) -> None:
        self._context = context
        self._selector = selector
        self._adopter = adopter
        self._loads: dict[str, Load] = {}
        self._count = 0
        self._warm: WarmProcess | None = None
        self._next_scan = 0.0

    def __bool__(self) -> bool:
        return bool(self._loads)

    @property
    def some_await_pids(self) -> bool:
        return any(load.awaits_pid for load in self._loads.values())

    def get(self, model: str) -> Load | None:
        return self._loads.get(model)

    def warm_up(self, order: WarmOrder) -> WarmProcess:
        """The warm process; a new one when there is none, or the one before was lost."""
        if self._warm is None or self._warm.is_lost:
            self._warm = WarmProcess(order, self._context, self._selector, self._adopter)
        return self._warm

    def make(self, order: LoadOrder) -> None:
        """Begin a load; whatever stands against it ends it. Raises ValueError where its name is taken."""
        if order.model in self._loads:
            raise ValueError(f"{order.model} is loaded already")
        self._count += 1
        try:
            ports = {one.port: one.model for one in self._loads.values()}
            load = Load(order, self._count, self._context, ports)
        except OSError as error:
            self.refuse(order, str(error))
            return
        self._loads[load.model] = load
        self._selector.register(load.text.reader, selectors.EVENT_READ, lambda: self._on_text(load))
        self._selector.register(load.records.socket, selectors.EVENT_READ, load.records.read)
        try:
            self._start(load)
        except Exception as error:  # no program, no memory, a zero byte: a load that was made must end
            load.not_begun(f"vllm could not be started: {error}")

    def refuse(self, order: LoadOrder, reason: str) -> None:
        """A load that cannot even begin."""
        self._context.emit(events.Failed(order.model, reason=reason))
        self._context.emit(events.Ended(order.model))

    def stop_all(self, reason: str | None) -> None:
        for load in self._loads.values():
            load.stop(reason)

    def on_exit(self, pid: int, status: int) -> bool:
        """A process has ended; False when it belongs to no load."""
        return any(load.on_exit(pid, status) for load in self._loads.values())

    def tick(self) -> None:
        """Look after every load; twice a second at all processes too."""
        now = time.monotonic()
        processes = None
        if self._loads and now >= self._next_scan:
            processes = process_tree.read_all()
            self._next_scan = now + _SCAN_S
        for load in list(self._loads.values()):
            load.tick(processes, now)
            if load.finished:
                self._forget(load)

    def _start(self, load: Load) -> None:
        warm = None
        if load.grade != "cold":
            warm = self.warm_up(WarmOrder(load.order.model_dirs, load.order.env))
        if warm is not None and load.grade == "warm":
            changed = warm.differences(load.order.env)
            if changed:
                load.become_cold(f"cold instead of warm: {', '.join(changed)} is read when vLLM is imported")
        if warm is None or load.grade == "cold":
            load.begun(
                spawn(command(load.argv), load.env, load.text.writer, load.order.cwd, under=load.order.conditions)
            )
        else:
            warm.load(load)

    def _on_text(self, load: Load) -> None:
        if load.text.is_open and load.text.read() == 0:
            self._selector.unregister(load.text.reader)
            load.text.close()

    def _forget(self, load: Load) -> None:
        del self._loads[load.model]
        if load.text.is_open:
            self._selector.unregister(load.text.reader)
        self._selector.unregister(load.records.socket)
        load.close()
