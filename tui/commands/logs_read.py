"""How `logs` reads its sources: one after the other, or with --follow all of them as they come."""

from __future__ import annotations

import os
import select
from contextlib import ExitStack
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.follow import Break, Watch
from engine_probe.logs.index_blocks import Cutter
from engine_probe.logs.index_stream import PipeCutter, Stream
from engine_probe.logs.opening import open_file
from engine_probe.logs.source_child import Child
from engine_probe.logs.sources import path_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from engine_probe.logs.index_wanted import Wanted
    from engine_probe.logs.sources import Source
    from tui.commands.logs_print import Printer

_LOOK_SECONDS = 0.2
_READ_BYTES = 1 << 16


class Reader:
    """Reads sources and hands the wanted lines to the printer."""

    def __init__(
        self,
        sources: list[Source],
        wanted: Wanted,
        pattern: re.Pattern[bytes] | None,
        printer: Printer,
        *,
        follow: bool,
    ) -> None:
        self._sources = sources
        self._wanted = wanted
        self._pattern = pattern
        self._printer = printer
        self._follow = follow
        self._streams: list[Stream] = []

    @property
    def line_count(self) -> int:
        """Lines read so far, of all sources."""
        return sum(stream.line_count for stream in self._streams)

    def run(self) -> int:
        """Until all sources have ended. Raises InputError where one cannot be read; the others are read first."""
        with ExitStack() as stack:
            files = [self._file(source) for source in self._sources if source.kind == "file"]
            for file in files:
                stack.callback(file.close)
            pipes = {pipe.descriptor: pipe for pipe in self._pipes(stack)}
            for file in files:
                file.read()
            troubles = list(self._read_pipes(pipes, files))
        if troubles:
            raise InputError("\n".join(troubles))
        return 0

    def _file(self, source: Source) -> _File:
        return _File(source, self._stream(), self._printer, follow=self._follow)

    def _stream(self) -> Stream:
        self._streams.append(Stream(self._wanted, self._pattern))
        return self._streams[-1]

    def _pipes(self, stack: ExitStack) -> Iterator[_Pipe]:
        for source in self._sources:
            if source.kind == "stdin":
                yield _Pipe(source, 0, None, self._stream(), self._printer)
            elif source.kind != "file":
                child = stack.enter_context(Child(source, follow=self._follow))
                yield _Pipe(source, child.output, child, self._stream(), self._printer)

    def _read_pipes(self, pipes: dict[int, _Pipe], files: list[_File]) -> Iterator[str]:
        """Until all pipes have ended, and for ever where files are followed; yields why a child failed."""
        goes_on = self._follow and bool(files)
        waiting = select.poll()
        for descriptor in pipes:
            waiting.register(descriptor, select.POLLIN)
        while pipes or goes_on:
            for descriptor, _ in waiting.poll(int(_LOOK_SECONDS * 1000) if goes_on else None):
                pipe = pipes[descriptor]
                if pipe.read():
                    continue
                waiting.unregister(descriptor)
                del pipes[descriptor]
                if (trouble := pipe.trouble()) is not None:
                    yield trouble
            for file in files if goes_on else ():
                file.look()


class _Pipe:
    def __init__(self, source: Source, descriptor: int, child: Child | None, stream: Stream, printer: Printer) -> None:
        self.descriptor = descriptor
        self.child = child
        self._source = source
        self._stream = stream
        self._printer = printer
        self._cutter = PipeCutter()
        self._has_brought = False

    def trouble(self) -> str | None:
        """Once it has ended: why the program that printed it failed, or that it found nothing."""
        if self.child is None:
            return None
        return self.child.failure() or (None if self._has_brought else self.child.nothing_printed())

    def read(self) -> bool:
        """Read what is there; False at the end."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except OSError as error:
            raise InputError(f"cannot read {self._source.label}: {error.strerror or error}") from error
        self._has_brought = self._has_brought or bool(data.strip())
        block = self._cutter.feed(data) if data else self._cutter.finish()
        if block is not None:
            self._printer.lines(self._source, self._stream.feed(block))
        return bool(data)


class _File:
    def __init__(self, source: Source, stream: Stream, printer: Printer, *, follow: bool) -> None:
        self._source = source
        self._stream = stream
        self._printer = printer
        self._follow = follow
        self._path = path_of(source)
        self._open(open_file(self._path))

    def _open(self, file: int) -> None:
        self._file = file
        self._cutter = Cutter(file)
        self._watch = Watch(self._path, file)

    def close(self) -> None:
        os.close(self._file)

    def read(self, *, to_the_end: bool = False) -> None:
        """All that is there; a last line without an end only when nothing can follow."""
        while (cut := self._cutter.next()) is not None:
            if not cut.is_whole:
                if self._cutter.is_inside_a_line:
                    continue
                if self._follow and not to_the_end:
                    return
            self._printer.lines(self._source, self._stream.feed(cut.content))
            if not cut.is_whole:
                return

    def look(self) -> None:
        """What has come since, with a mark where the file does not simply go on."""
        kind = self._watch.look(self._cutter.position)
        if kind is None:
            self.read()
            return
        if kind == "cut":
            self._open(self._file)
        elif kind == "rotated":
            newer = self._watch.newer()
            if newer is None:
                return
            self.read(to_the_end=True)
            os.close(self._file)
            self._open(newer)
        self._printer.broken(self._source, Break(self._stream.line_count, kind))
        self.read()
