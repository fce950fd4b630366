"""The console's side of a probe: starts the child on the engine's side, sends orders, yields its events."""

from __future__ import annotations

import asyncio
import io
import json
import os
import zipfile
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe import events as ev
from engine_probe.child.bootstrap import CODE
from engine_probe.logs.stages import StageTracker, read_wordings
from engine_probe.redact import mask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from types import TracebackType

    from engine_probe.engine import Engine
    from engine_probe.launch import Launch
    from engine_probe.requests import Request

_LONGEST_EVENT_BYTES = 16 * 1024 * 1024
_LEAVE_S = 30.0


@dataclass(frozen=True)
class Limits:
    """When a load is given up. Seconds; None: never."""

    hang_s: float = 300.0
    load_s: float | None = None
    stage_s: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _Following:
    """What the supervisor knows of one load while it goes on."""

    tracker: StageTracker
    began: float
    limits: Limits
    stage_began: float = 0.0
    over: bool = False


class Probe:
    """One child on one engine; several models at once. Use as an async context manager.

    Leaving it, however that happens, ends every load and waits until the child says that nothing is left.
    """

    def __init__(self, engine: Engine, *, limits: Limits | None = None, keep_port: bool = False) -> None:
        self.engine = engine
        self.limits = limits or Limits()
        self.keep_port = keep_port
        self._wordings = read_wordings()
        self._process: asyncio.subprocess.Process | None = None
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._following: dict[str, _Following] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._said = b""

    async def __aenter__(self) -> Probe:
        archive = child_archive()
        self._process = await asyncio.create_subprocess_exec(
            *self.engine.argv("-c", CODE, str(len(archive))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.engine.env},
            limit=_LONGEST_EVENT_BYTES,
            start_new_session=True,  # Ctrl-C is for the console: it ends the child in order
        )
        self._write(archive)
        self._tasks = [
            asyncio.create_task(self._read_events()),
            asyncio.create_task(self._read_complaints()),
            asyncio.create_task(self._watch_limits()),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.shield(self.aclose())

    async def aclose(self) -> None:
        """End every load and the child. Idempotent."""
        process = self._process
        if process is None:
            return
        self._process = None
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _LEAVE_S)
        except asyncio.TimeoutError:
            process.kill()  # its watchdog cleans up after it
            await process.wait()
        for task in self._tasks[2:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def warm(self, launches: tuple[Launch, ...] = ()) -> None:
        """Begin to import vLLM now, with what `launches` need, so that the first warm load need not wait for it."""
        env = {name: value for launch in launches for name, value in launch.child_env().items()}
        self._order({"do": "warm", "model_dirs": [launch.model for launch in launches], "env": env})

    async def load(self, launch: Launch, grade: str) -> None:
        """Ask for a load; returns at once. `grade` is dry, warm or cold."""
        now = asyncio.get_running_loop().time()
        self._following[launch.name] = _Following(StageTracker(self._wordings, launch.name), now, self.limits, now)
        self._order(
            {
                "do": "load",
                "model": launch.name,
                "model_dirs": [launch.model],
                "argv": launch.argv(),
                "env": dict(launch.child_env()),
                "cwd": str(Path.cwd()) if self.engine.is_local else None,
                "grade": grade,
                "keep_port": self.keep_port,
                "hang_s": self.limits.hang_s,
            }
        )

    async def request(self, model: str, request: Request) -> None:
        """Send one request to a ready model; `RequestAnswered` follows."""
        self._order(
            {
                "do": "request",
                "model": model,
                "id": request.id,
                "path": request.path,
                "body": None if request.body is None else dict(request.body),
                "timeout_s": request.timeout_s,
            }
        )

    async def stop(self, model: str, reason: str | None = None) -> None:
        """End a load; its `Ended` follows, after a `Failed` when a `reason` is given."""
        self._order({"do": "stop", "model": model, "reason": reason})

    async def events(self) -> AsyncIterator[ev.Event]:
        """Every event in order, until the child has ended. For one consumer."""
        while True:
            event = await self._queue.get()
            if event is None:
                return
            yield event

    def _order(self, order: dict[str, Any]) -> None:
        self._write((json.dumps(order) + "\n").encode())

    def _write(self, content: bytes) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(content)

    async def _read_events(self) -> None:
        process = self._process
        assert process is not None and process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                self._emit(ev.Trouble(text="an event longer than 16 MiB was dropped"))
                continue
            if not line:
                break
            event = _masked(ev.decode(line.decode("utf-8", "replace")))
            for one in self._with_stages(event):
                self._emit(one)
        await process.wait()
        self._child_ended(process.returncode)
        self._queue.put_nowait(None)

    def _emit(self, event: ev.Event) -> None:
        self._queue.put_nowait(event)

    def _child_ended(self, code: int | None) -> None:
        """A child that dies leaves its loads without a word: say it for them."""
        open_loads = [name for name, following in self._following.items() if not following.over]
        if not open_loads and code == 0:
            return
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        why = f"the probe's process ended with code {code}" + (f": {said[-1]}" if said else "")
        if code != 0:
            self._emit(ev.Trouble(text=mask(why), fatal=True))
        for name in open_loads:
            self._following[name].over = True
            self._emit(ev.Failed(name, reason=mask(why)))
            self._emit(ev.Ended(name))

    async def _read_complaints(self) -> None:
        process = self._process
        assert process is not None and process.stderr is not None
        while content := await process.stderr.read(65536):
            self._said = (self._said + content)[-65536:]

    def _with_stages(self, event: ev.Event) -> list[ev.Event]:
        following = self._following.get(event.model or "")
        if following is None:
            return [event]
        tracker = following.tracker
        found: list[ev.Event] = []
        if isinstance(event, ev.Started):
            found = list(tracker.enter("config", event.time))
        elif isinstance(event, ev.LogRecord):
            found = list(tracker.feed(event.message, event.time))
        elif isinstance(event, ev.Text) and not event.also_record:
            found = list(tracker.feed(event.line, event.time))
        elif isinstance(event, ev.Ready):
            found = list(tracker.enter("serving", event.time))
        elif isinstance(event, ev.ConfigBuilt):
            found = list(tracker.finish(event.time, completed=True))
        elif isinstance(event, ev.Failed):
            return [*tracker.finish(event.time, completed=False), event]
        elif isinstance(event, ev.Ended):
            following.over = True
            return [*tracker.finish(event.time, completed=True), event]
        if any(isinstance(one, ev.StageEntered) for one in found):
            following.stage_began = asyncio.get_running_loop().time()
        return [event, *found]

    async def _watch_limits(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0.25)
            for name, following in self._following.items():
                stage = following.tracker.current
                if following.over or stage == "serving":
                    continue
                allowed = following.limits.stage_s.get(stage or "")
                total = following.limits.load_s
                if allowed is not None and loop.time() - following.stage_began > allowed:
                    self._give_up(name, following, f"stage {stage} took longer than its limit of {allowed:g} s")
                elif total is not None and loop.time() - following.began > total:
                    self._give_up(name, following, f"the load took longer than its limit of {total:g} s")

    def _give_up(self, name: str, following: _Following, reason: str) -> None:
        following.limits = replace(following.limits, load_s=None, stage_s={})
        self._order({"do": "stop", "model": name, "reason": reason})


def _masked(event: ev.Event) -> ev.Event:
    """Secrets end here: nothing behind the supervisor ever sees them."""
    if isinstance(event, ev.Text):
        return replace(event, line=mask(event.line))
    if isinstance(event, ev.LogRecord):
        return replace(event, message=mask(event.message), exception=_masked_chain(event.exception))
    if isinstance(event, ev.Failed):
        return replace(event, reason=mask(event.reason), exceptions=_masked_chain(event.exceptions))
    if isinstance(event, ev.Started):
        return replace(event, argv=mask(" ".join(event.argv)).split(" "))
    if isinstance(event, ev.RequestAnswered):
        return replace(event, text=mask(event.text), error=mask(event.error) if event.error else None)
    if isinstance(event, ev.Trouble):
        return replace(event, text=mask(event.text))
    return event


def _masked_chain(chain: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "message": mask(str(one.get("message", "")))} for one in chain]


def child_archive() -> bytes:
    """The child and what it shares with us, as one zip that Python can run."""
    package = resources.files("engine_probe")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", "from engine_probe.child.main import main\n\nmain()\n")
        archive.writestr("engine_probe/__init__.py", "")
        archive.writestr("engine_probe/events.py", (package / "events.py").read_text("utf-8"))
        for file in sorted((package / "child").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                archive.writestr(f"engine_probe/child/{file.name}", file.read_text("utf-8"))
    return content.getvalue()
