"""Follows what servers print, where that goes to files: which file is whose, each opened once."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.hardware.server_load import Load
from engine_probe.hardware.server_log_open import look_at, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.hardware.server_log import LogFile
    from engine_probe.logs.stages import Wordings

FileKey = tuple[int, int]


@dataclass
class Output:
    """Of one server: what its log has told, where that log is, and why there is none."""

    pid: int
    load: Load = field(default_factory=Load)
    pids: frozenset[int] = frozenset()
    """Numbers by which its processes know themselves."""
    started: float | None = None
    container_log: str | None = None
    """Where Docker keeps what it prints, if it runs there."""
    path: str | None = None
    why_none: str | None = None
    files: tuple[FileKey, ...] = ()


class Outputs:
    """Nothing of the log reader is imported before there is a log to read."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._files: dict[FileKey, LogFile] = {}
        self._wordings: Wordings | None = None

    def open(self, output: Output) -> None:
        """Look where a server prints: stdout and stderr, else the file in which its container's engine keeps both."""
        reasons: list[str] = []
        found = [self._follow(f"{self._proc}/{output.pid}/fd/{number}", reasons) for number in (1, 2)]
        if not any(found) and output.container_log is not None:
            found = [self._follow(output.container_log, [])]
        opened = [one for one in found if one is not None]
        output.files = tuple(dict.fromkeys(key for key, _ in opened))
        output.path = opened[0][1] if opened else None
        output.why_none = None if opened else reasons[0]

    def _follow(self, name: str, reasons: list[str]) -> tuple[FileKey, str] | None:
        found = look_at(name)
        if isinstance(found, str):
            reasons.append(found)
            return None
        key, path = found
        if key not in self._files:
            file = open_regular(name, path)
            if isinstance(file, str):
                reasons.append(file)
                return None
            self._files[key] = self._followed(file, path)
        return key, path

    def feed(self, outputs: Iterable[Output], seconds: float) -> None:
        """Read on in all files, for about `seconds` in all; files that nobody has any more are closed."""
        if not self._files:
            return
        from engine_probe.hardware.server_log import Writer  # noqa: PLC0415

        writers: dict[FileKey, list[Writer]] = {}
        for one in outputs:
            for number, key in enumerate(one.files):
                writers.setdefault(key, []).append(Writer(one.load, one.pids, one.started, is_beside=number > 0))
        for key in self._files.keys() - writers.keys():
            self._files.pop(key).close()
        until = time.monotonic() + seconds
        for key, log in self._files.items():
            log.writers = writers[key]
            with suppress(OSError):  # a file system that fails to read now may do so later
                log.feed(until)

    def close(self) -> None:
        for log in self._files.values():
            log.close()
        self._files = {}

    def _followed(self, file: int, path: str) -> LogFile:
        from engine_probe.hardware.server_log import LogFile  # noqa: PLC0415
        from engine_probe.logs.stages import read_wordings  # noqa: PLC0415

        if self._wordings is None:
            self._wordings = read_wordings()
        return LogFile(file, path, self._wordings)
