"""How `logs` prints: lines or stages, as text or as one JSON object a line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, Protocol

from tui.output import printable

if TYPE_CHECKING:
    from engine_probe.logs.follow import Break
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.sources import Source
    from tui.output import Output


class Printer(Protocol):
    """Takes what a source gives."""

    printed: int
    """Lines so far."""

    def lines(self, source: Source, lines: list[LogLine]) -> None: ...

    def broken(self, source: Source, happened: Break) -> None: ...


Naming = Literal["no", "above", "before"]
"""Where several sources are named: above their lines, as `tail` does, or before each line, where they are merged."""


class _Named:
    def __init__(self, output: Output, naming: Naming) -> None:
        self._output = output
        self._naming = naming
        self._last: Source | None = None
        self.printed = 0

    def _head(self, source: Source) -> None:
        if self._naming == "above" and source != self._last:
            self._output.text(f"==> {source.label} <==", "bold")
        self._last = source

    def _before(self, source: Source) -> str:
        return f"{source.label}: " if self._naming == "before" else ""

    def broken(self, source: Source, happened: Break) -> None:
        """Mark where the log does not simply go on."""
        self._head(source)
        self._output.text(f"{self._before(source)}--- {happened.words} ---", "bold")
        self._output.result({"source": source.label, "break": happened.kind, "text": happened.words})


class LinePrinter(_Named):
    """Each line as it stands in the log; a block at a time, because a log may have millions."""

    def lines(self, source: Source, lines: list[LogLine]) -> None:
        if not lines:
            return
        self.printed += len(lines)
        if self._output.as_json:
            for line in lines:
                self._output.result(as_object(source, line))
            return
        self._head(source)
        before = self._before(source)
        sys.stdout.write("".join(f"{before}{printable(line.text)}\n" for line in lines))
        sys.stdout.flush()


class StagePrinter(_Named):
    """Only lines at which another stage begins than that of the wanted line before, behind the stage's name."""

    def __init__(self, output: Output, naming: Naming) -> None:
        super().__init__(output, naming)
        self._stages: dict[Source, str | None] = {}

    def lines(self, source: Source, lines: list[LogLine]) -> None:
        for line in lines:
            if line.stage is not None and line.stage != self._stages.get(source):
                self._head(source)
                self._output.text(f"{self._before(source)}{line.stage:16}  {line.number + 1:>9}  {line.text}")
                self._output.result(as_object(source, line))
            self._stages[source] = line.stage


def as_object(source: Source, line: LogLine) -> dict[str, object]:
    """A line as JSON; `line` counts from 1. null: the log does not say."""
    return {
        "source": source.label,
        "line": line.number + 1,
        "level": line.level,
        "layer": line.layer,
        "process": line.process,
        "stage": line.stage,
        "continues": line.continues,
        "text": line.text,
    }
