"""The keeper's side of the warm process: starts it, hands loads over, notices when it dies."""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine_probe import events
from engine_probe.child import surroundings
from engine_probe.child.fork_load import ForkOrder
from engine_probe.child.spawn import spawn

if TYPE_CHECKING:
    from engine_probe.child.context import Context
    from engine_probe.child.load import Load
    from engine_probe.child.orders import WarmOrder

_KEPT_OUTPUT_BYTES = 100_000


class WarmProcess:
    """Loads that come before it is warm wait; when it cannot get warm they fail with its own words.

    Making one raises what `spawn` raises.
    """

    def __init__(self, order: WarmOrder, context: Context, selector: selectors.BaseSelector, adopter: int) -> None:
        self._import_env = surroundings.read_at_import(order.env)
        self._context = context
        self._selector = selector
        self._adopter = adopter
        self._is_ready = False
        self._error: str | None = None
        self._can_return = True
        self._waiting: list[Load] = []
        self._handed_over: list[Load] = []
        self._orders_written = 0
        self._answers = b""
        self._output = b""
        self._start(order.model_dirs)
        context.emit(events.Warming())

    @property
    def is_lost(self) -> bool:
        """It has died, for no reason that would be there again: another one may be started."""
        return self._error is not None and self._can_return

    def differences(self, env: dict[str, str]) -> list[str]:
        """Settings read at import that a launch wants otherwise than this process was started with."""
        wanted = surroundings.read_at_import(env)
        names = sorted({*wanted, *self._import_env})
        return [name for name in names if wanted.get(name) != self._import_env.get(name)]

    def load(self, load: Load) -> None:
        if self._error is not None:
            load.not_begun(self._error)
        elif not self._is_ready:
            self._waiting.append(load)
        else:
            self._hand_over(load)

    def _start(self, model_dirs: list[str]) -> None:
        private_dir = self._context.private_dir
        self._channel, theirs = socket.socketpair()
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        archive = os.path.join(private_dir, "child.zip")
        argv = [sys.executable, archive, "--warm", str(theirs.fileno()), json.dumps(model_dirs)]
        env = {**surroundings.own_environment(), "TMPDIR": private_dir, **self._import_env}
        try:
            spawn(argv, env, writer, pass_fds=(theirs.fileno(),))
        finally:
            theirs.close()
            os.close(writer)
        self._selector.register(self._channel, selectors.EVENT_READ, self._on_answer)
        self._selector.register(self._reader, selectors.EVENT_READ, self._on_output)

    def _hand_over(self, load: Load) -> None:
        """The order goes by file: one in the channel could be cut, and a full channel would hold the keeper up."""
        private_dir = self._context.private_dir
        order = ForkOrder(
            load.argv, load.env, load.order.cwd, load.grade, private_dir, self._adopter, load.order.conditions
        )
        self._orders_written += 1
        path = os.path.join(private_dir, f"order-{self._orders_written}.json")
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump(asdict(order), file)
            socket.send_fds(self._channel, [path.encode()], [load.text.writer])
        except OSError as error:
            load.not_begun(f"the warm process is gone: {error}")
            return
        load.awaits_pid = True
        self._handed_over.append(load)

    def _on_answer(self) -> None:
        try:
            content = self._channel.recv(65536)
        except OSError:
            content = b""
        if not content:
            self._died()
            return
        *lines, self._answers = (self._answers + content).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, answer: dict[str, Any]) -> None:
        if "pid" in answer:
            self._handed_over.pop(0).begun(answer["pid"])
        elif "not_begun" in answer:
            self._handed_over.pop(0).not_begun(answer["not_begun"])
        elif "error" in answer:
            self._cannot_import(answer["error"])
        else:
            self._became_ready(answer)

    def _became_ready(self, answer: dict[str, Any]) -> None:
        self._is_ready = True
        self._context.emit(
            events.Warmed(seconds=answer["seconds"], vllm_version=answer["version"], flags=answer["flags"])
        )
        waiting, self._waiting = self._waiting, []
        for load in waiting:
            if not load.is_over:
                self._hand_over(load)

    def _cannot_import(self, traceback_text: str) -> None:
        last = traceback_text.strip().splitlines()[-1]
        self._error = f"vLLM cannot be imported: {last}"
        self._can_return = False
        self._context.emit(events.Trouble(text=f"{self._error}\n{traceback_text}", fatal=True))

    def _died(self) -> None:
        self._selector.unregister(self._channel)
        self._channel.close()
        self._on_output()
        if self._error is None:
            tail = self._output.decode("utf-8", "replace").strip().splitlines()[-1:]
            self._error = ": ".join(["the warm process ended", *tail])
            self._context.emit(events.Trouble(text=self._error, fatal=not self._is_ready))
        for load in self._waiting + self._handed_over:
            load.not_begun(self._error)
        self._waiting, self._handed_over = [], []

    def _on_output(self) -> None:
        try:
            content = os.read(self._reader, 65536)
        except OSError:  # nothing there, or closed already
            return
        self._output = (self._output + content)[-_KEPT_OUTPUT_BYTES:]
        if not content:
            self._selector.unregister(self._reader)
            os.close(self._reader)
