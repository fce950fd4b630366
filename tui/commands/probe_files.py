"""What one probe run leaves for later: every event, and a log for each model, from byte 0."""

from __future__ import annotations

import re
import shutil
import time
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

from engine_probe import events as ev
from engine_probe.locations import find_locations, writable
from engine_probe.run_log import RunLog

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_KEPT_RUNS = 20


class RunFiles:
    """A new folder below the state folder's `probes`; of earlier runs the newest few are kept. A context manager."""

    def __init__(self) -> None:
        runs = writable(find_locations().state / "probes")
        for old in sorted(path for path in runs.iterdir() if path.is_dir())[: -_KEPT_RUNS + 1]:
            shutil.rmtree(old, ignore_errors=True)
        self.folder = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
        self.folder.mkdir()
        self._open = ExitStack()
        events = (self.folder / "events.jsonl").open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        self._events: IO[str] = self._open.enter_context(events)
        self._logs: dict[str, RunLog] = {}

    def __enter__(self) -> RunFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def write(self, event: ev.Event) -> None:
        self._events.write(ev.encode(event) + "\n")
        if event.model is not None:
            log = self._log(event.model)
            log.add(event)
            log.flush()

    def log_of(self, model: str) -> Path:
        return self.folder / f"{file_stem(model)}.log"

    def _log(self, model: str) -> RunLog:
        if model not in self._logs:
            self._logs[model] = RunLog()
            self._logs[model].open(self.log_of(model))
            self._open.callback(self._logs[model].close)
        return self._logs[model]


def file_stem(model: str) -> str:
    """A model's name as a file's: names are the user's own and may hold anything."""
    return re.sub(r"[^\w.-]", "_", model).lstrip(".")[:100] or "model"
