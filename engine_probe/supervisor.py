"""The console's side of a probe: starts the child on the engine's side, sends orders, yields its events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any

from engine_probe import events as ev
from engine_probe import wire_orders
from engine_probe.child.bootstrap import CODE
from engine_probe.child_archive import child_archive
from engine_probe.engine import EngineError
from engine_probe.following import Following, Limits, unanswered
from engine_probe.load_conditions import LoadConditions
from engine_probe.logs.stage_tracker import StageTracker
from engine_probe.logs.stages import read_wordings
from engine_probe.masking import masked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

    from engine_probe.engine import Engine
    from engine_probe.launch import Launch
    from engine_probe.requests import Request

__all__ = ["Limits", "Probe"]

_LONGEST_EVENT_BYTES = 16 * 1024 * 1024
_KEPT_COMPLAINT_BYTES = 65536
_LEAVE_S = 30.0
_SILENT_LEAVE_S = 5.0
_ANSWER_S = 60.0
"""An engine's command starts a Python and reads 100 kB: what has not answered by then never will."""
_MOST_WAITING_EVENTS = 10_000
_LONGEST_TURN_SECONDS = 0.01
_LIMITS_TICK_S = 0.25


class Probe:
    """One child on one engine; several models at once. Use as an async context manager.

    Leaving it, however that happens, ends every load and waits until the child says that nothing is left.
    """

    def __init__(
        self, engine: Engine, *, limits: Limits | None = None, keep_port: bool = False, owns: Path | None = None
    ) -> None:
        """`owns`: a folder made for this probe alone; it goes with the probe, even after `kill -9` of the console."""
        self.engine = engine
        self._owns = owns if engine.is_local else None
        self.limits = limits or Limits()
        self.keep_port = keep_port
        self.conditions = LoadConditions()
        """What every load from now on lives under."""
        self._wordings = read_wordings()
        self._process: asyncio.subprocess.Process | None = None
        self._leaving: asyncio.subprocess.Process | None = None
        """Told to end, and not gone yet."""
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._has_answered = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._following: dict[str, Following] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._watcher: asyncio.Task[None] | None = None
        self._complaints = b""
        self._is_lost = False

    @property
    def pid(self) -> int | None:
        """Of the engine's command on this host; None when it has ended."""
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> Probe:
        """Raises EngineError when the engine's command cannot be started at all."""
        archive = child_archive()
        try:
            process = await asyncio.create_subprocess_exec(
                *self.engine.argv("-c", CODE, str(len(archive))),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **self.engine.env},
                limit=_LONGEST_EVENT_BYTES,
                start_new_session=True,  # Ctrl-C is for the console: it ends the child in order
            )
        except OSError as error:
            raise EngineError(f"{self.engine.label} cannot be started: {error}") from error
        self._process = process
        self._write(archive)
        if self._owns is not None:
            self._order(wire_orders.own_order(self._owns))
        self._readers = [
            asyncio.create_task(self._read_events(process)),
            asyncio.create_task(self._read_complaints(process)),
        ]
        self._watcher = asyncio.create_task(self._watch_limits())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_cancelled = False
        while not await self._is_closed():
            is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError

    async def _is_closed(self) -> bool:
        """False when it was cancelled meanwhile, as a second Ctrl-C does: the child goes on to end."""
        try:
            await self.aclose()
        except asyncio.CancelledError:
            return False
        return True

    @property
    def has_answered(self) -> bool:
        """Whether the child ever ran."""
        return self._has_answered

    def give_up_if_silent(self) -> None:
        """End an engine's command that has never answered; nothing of ours runs behind it yet."""
        if self._process is not None and not self._has_answered:
            _kill_group(self._process)

    async def aclose(self) -> None:
        """End every load and the child. Idempotent; goes on where it was cancelled."""
        if self._process is not None:
            self._leaving, self._process = self._process, None
        process = self._leaving
        if process is None:
            return
        self._has_room.set()
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _LEAVE_S if self._has_answered else _SILENT_LEAVE_S)
        except asyncio.TimeoutError:
            _kill_group(process)  # its watchdog, in a session of its own, cleans up after it
            await process.wait()
        if self._watcher is not None:
            self._watcher.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        self._leaving = None

    async def warm(self, launches: tuple[Launch, ...] = ()) -> None:
        """Begin to import vLLM now, with what `launches` need, so that the first warm load need not wait for it."""
        self._order(wire_orders.warm_order(launches))

    async def load(self, launch: Launch, grade: str) -> None:
        """Ask for a load; returns at once. `grade` is dry, warm or cold.

        Raises ValueError while a load of that name goes on, EngineError when the child has ended.
        """
        before = self._following.get(launch.name)
        if before is not None and not before.is_over:
            raise ValueError(f"{launch.name} is loaded already")
        if self._is_lost:
            raise EngineError(f"the probe on {self.engine.label} has ended")
        tracker = StageTracker(self._wordings, launch.name)
        self._following[launch.name] = Following(launch.name, tracker, self.limits, asyncio.get_running_loop().time())
        self._order(
            wire_orders.load_order(
                launch,
                grade,
                hang_s=self.limits.hang_s,
                keep_port=self.keep_port,
                is_local=self.engine.is_local,
                conditions=self.conditions,
            )
        )

    async def request(self, model: str, request: Request) -> None:
        """Send one request to a ready model; exactly one `RequestAnswered`, or `BurstAnswered`, follows."""
        following = self._following.get(model)
        if self._is_lost or following is None:
            why = "the probe has ended" if self._is_lost else f"{model} is not loaded"
            self._emit(unanswered(model, request, why))
            return
        following.asked(request)
        self._order(wire_orders.request_order(model, request))

    async def stop(self, model: str, reason: str | None = None) -> None:
        """End a load; its `Ended` follows, after a `Failed` when a `reason` is given."""
        self._order(wire_orders.stop_order(model, reason))

    async def events(self) -> AsyncIterator[ev.Event]:
        """Every event in order, until the child has ended. For one consumer."""
        while True:
            event = await self._queue.get()
            if self._queue.qsize() < _MOST_WAITING_EVENTS // 2:
                self._has_room.set()
            if event is None:
                self._queue.put_nowait(None)
                return
            yield event

    def _order(self, order: dict[str, Any]) -> None:
        self._write((json.dumps(order) + "\n").encode())

    def _write(self, content: bytes) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(content)

    def _emit(self, event: ev.Event) -> None:
        self._queue.put_nowait(event)

    async def _read_events(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        turn_began = loop.time()
        while True:
            if loop.time() - turn_began > _LONGEST_TURN_SECONDS:
                await asyncio.sleep(0)  # lines that have come already are read without waiting: a screen wants its turn
                turn_began = loop.time()
            try:
                line = await process.stdout.readline()
            except ValueError:
                self._emit(ev.Trouble(text="an event longer than 16 MiB was dropped"))
                continue
            if not line:
                break
            event = masked(ev.decode(line.decode("utf-8", "replace")))
            self._has_answered = self._has_answered or isinstance(event, ev.ProbeStarted)
            following = self._following.get(event.model or "")
            for one in [event] if following is None else following.take(event, loop.time()):
                self._emit(one)
            # A consumer that is slower than the engine's text makes the child wait and drop, never us grow.
            if self._queue.qsize() >= _MOST_WAITING_EVENTS and self._process is not None:
                self._has_room.clear()
                await self._has_room.wait()
        self._child_ended(await process.wait())
        self._queue.put_nowait(None)

    def _child_ended(self, code: int) -> None:
        """A child that dies leaves its loads without a word: say it for them."""
        self._is_lost = True
        said = self._complaints.decode("utf-8", "replace").strip().splitlines()
        why = ": ".join([f"the probe's process ended with code {code}", *said[-1:]])
        if code != 0:
            self._emit(masked(ev.Trouble(text=why, fatal=True)))
        for following in self._following.values():
            for event in following.lost(why):
                for one in following.take(masked(event), asyncio.get_running_loop().time()):
                    self._emit(one)

    async def _read_complaints(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while content := await process.stderr.read(65536):
            self._complaints = (self._complaints + content)[-_KEPT_COMPLAINT_BYTES:]

    async def _watch_limits(self) -> None:
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(_LIMITS_TICK_S)
            now = asyncio.get_running_loop().time()
            if now - began > _ANSWER_S:
                self.give_up_if_silent()
            for name, following in self._following.items():
                reason = following.give_up(now)
                if reason is not None:
                    self._order(wire_orders.stop_order(name, reason))


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """The command and what it has started: it leads a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
