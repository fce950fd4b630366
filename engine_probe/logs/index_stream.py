"""The wanted lines of a log as it is read, without an index: for pipes, and for printing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.index_blocks import LONGEST_SHOWN_BYTES
from engine_probe.logs.index_classes import CONTINUES, LAYER_SHIFT, LAYERS, LEVEL_BITS, LEVELS, STAGE_NAMES
from engine_probe.logs.index_keys import without_colours
from engine_probe.logs.index_resolve import Resolver
from engine_probe.logs.index_scan import Scanner
from engine_probe.logs.index_search import Matcher
from engine_probe.logs.index_selection import and_masks
from engine_probe.logs.index_text import readable
from engine_probe.logs.index_time import TimeFilter
from engine_probe.logs.index_wanted import Wanted, is_model

if TYPE_CHECKING:
    import re

    from engine_probe.logs.index_classes import Classify
    from engine_probe.logs.index_scan import Columns


class LogLine(NamedTuple):
    """One line for a person: colours off, secrets masked, cut at 64 KiB. Other control characters are as they were."""

    number: int
    text: str
    level: str | None
    layer: str
    process: str | None
    stage: str | None
    continues: bool
    """Level and layer are those of the record above it."""
    source: int = 0
    """The number of the log that it is of, where several are merged."""


def line_of(number: int, raw: bytes, code: int, process: str, stage: int) -> LogLine:
    """Unpack one line; `process` may be empty."""
    return LogLine(
        number=number,
        text=readable(raw),
        level=LEVELS[code & LEVEL_BITS] or None,
        layer=LAYERS[code >> LAYER_SHIFT & 7],
        process=process or None,
        stage=STAGE_NAMES[stage] or None,
        continues=bool(code & CONTINUES),
    )


class Stream:
    """Feed it blocks in order; each gives the lines that are wanted.

    Lines of a load before it tells its model belong to the model before: nobody can know what is told later.
    """

    def __init__(
        self, wanted: Wanted | None = None, pattern: re.Pattern[bytes] | None = None, classify: Classify | None = None
    ) -> None:
        self._wanted = wanted or Wanted()
        self._match = None if pattern is None else Matcher(pattern)
        self._times = TimeFilter(self._wanted.span) if self._wanted.span else None
        self._scanner = Scanner(classify)
        self._resolver = Resolver(self._scanner.processes.known)
        self._is_model = self._wanted.model is None
        self.line_count = 0

    def feed(self, content: bytes) -> list[LogLine]:
        """The wanted lines of a block that begins with a line end and lacks its own last one."""
        found, models = self._scanner.scan(content)
        columns = self._resolver.resolve(found)
        mask = self._mask(content, columns, models)
        first, count = self.line_count, len(columns.codes)
        self.line_count += count
        at = mask.find(1)
        if at < 0:
            return []
        raw = content.split(b"\n")
        lines = []
        while at >= 0:
            lines.append(self._line(first + at, raw[at + 1], columns, at))
            at = mask.find(1, at + 1)
        return lines

    def _line(self, number: int, raw: bytes, columns: Columns, at: int) -> LogLine:
        known = self._scanner.processes.known
        return line_of(number, raw, columns.codes[at], known[columns.processes[at]].name, columns.stages[at])

    def _mask(self, content: bytes, columns: Columns, models: tuple[tuple[int, str], ...]) -> bytes:
        mask = self._wanted.mask(columns, self._scanner.processes.known)
        if self._wanted.model is not None:
            mask = and_masks(mask, self._of_model(len(mask), self._wanted.model, models))
        if self._times is not None:
            mask = and_masks(mask, self._times.mask(content))
        if self._match is not None and 1 in mask:
            mask = and_masks(mask, self._matches(content, len(mask)))
        return mask

    def _matches(self, content: bytes, count: int) -> bytes:
        assert self._match is not None
        text = without_colours(content.removeprefix(b"\n"))
        return self._match.marks(text.split(b"\n"), count) if self._match.is_possible(text) else bytes(count)

    def _of_model(self, count: int, model: str, models: tuple[tuple[int, str], ...]) -> bytes:
        mask = bytearray()
        for line, name in models:
            mask += bytes((self._is_model,)) * (line - len(mask))
            self._is_model = is_model(name, model)
        return bytes(mask).ljust(count, bytes((self._is_model,)))


class PipeCutter:
    """Cuts what comes through a pipe into blocks of whole lines; of an endless line it keeps only the start."""

    def __init__(self) -> None:
        self._pending = b"\n"

    def feed(self, data: bytes) -> bytes | None:
        """The whole lines that `data` completes, as a block; None when it completes none."""
        head, end, rest = data.rpartition(b"\n")
        if not end:
            self._pending = (self._pending + data)[: LONGEST_SHOWN_BYTES + 1]
            return None
        block, self._pending = self._pending + head, b"\n" + rest[:LONGEST_SHOWN_BYTES]
        return block

    def finish(self) -> bytes | None:
        """The last line, when it has no end."""
        rest, self._pending = self._pending, b"\n"
        return rest if len(rest) > 1 else None
