"""Logs that come through a pipe, and how any source is opened to be looked at."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.follow import Break, FollowedLog
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.merged_reading import NamedLog
from engine_probe.logs.source_child import Child
from engine_probe.logs.sources import path_of, short_names
from engine_probe.logs.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.sources import Source

_STEP_SECONDS = 0.01


class SpooledLog:
    """Says what happens to a pipe, and to the program behind it, which ends with `close`."""

    def __init__(self, log: LogIndex, spool: Spool, child: Child | None = None, *, follow: bool = True) -> None:
        self.log = log
        self._follow = follow
        self.breaks: list[Break] = []
        self._spool, self._child = spool, child
        self._to_say = {"trouble", "end"}

    @property
    def has_begun(self) -> bool:
        return self._spool.has_begun if self._follow else self._spool.has_ended

    @property
    def failure(self) -> str | None:
        """Why the program failed, or why not all is kept."""
        code = None if self._child is None else self._child.exit_code
        return f"{self._child.command} ended with exit code {code}" if self._child and code else self._spool.trouble

    @property
    def has_ended(self) -> bool:
        return self._spool.has_ended and (self._child is None or self._child.exit_code is not None)

    def poll(self) -> list[Break]:
        """What went wrong, and the end, each once and behind all that came before."""
        new = []
        if "trouble" in self._to_say and self._spool.trouble is not None and self.log.advance(_STEP_SECONDS):
            self._to_say.discard("trouble")
            new.append(Break(self.log.line_count, "ended", why=self._spool.trouble))
        if "end" in self._to_say and self.has_ended and self.log.advance(_STEP_SECONDS):
            self._to_say.discard("end")
            new.append(Break(self.log.line_count, "ended", why=self._words_of_end()))
        self.breaks += new
        return new

    def _words_of_end(self) -> str:
        if self._child is None:
            return "the pipe was closed; nothing more comes"
        return f"{self._child.command} ended" + (f" with exit code {code}" if (code := self._child.exit_code) else "")

    def close(self) -> None:
        self._spool.close()
        if self._child is not None:
            self._child.end()
        self.log.close()


def open_sources(sources: Sequence[Source], *, follow: bool = True, stdin: int = 0) -> list[NamedLog]:
    """Raises InputError where one cannot be read; the others are closed then.

    `follow`: what a pipe brings later is new; else it is waited for. `stdin`: where `-` is read from.
    """
    with ExitStack() as stack:
        opened = []
        for source, name in zip(sources, short_names(sources), strict=True):
            opened.append(NamedLog(name, *_open(source, follow, stdin)))
            stack.callback(opened[-1].followed.close)
        stack.pop_all()
    return opened


def _open(source: Source, follow: bool, stdin: int) -> tuple[LogIndex, FollowedLog | SpooledLog]:
    if source.kind == "file":
        log = open_log(path_of(source))
        return log, FollowedLog(path_of(source), log)
    child = None if source.kind == "stdin" else Child(source, follow=follow)
    if child is not None:
        child.start()
    try:
        spool = Spool(stdin if child is None else child.output)
    except OSError as error:
        if child is not None:
            child.end()
        raise InputError(f"cannot keep what {source.label} prints: {error.strerror or error}") from error
    log = LogIndex(spool.file)
    return log, SpooledLog(log, spool, child, follow=follow)
