"""How `logs` prints lines, as text or as one JSON object a line (logs_stages.py: where stages begin)."""

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

    def end(self) -> None:
        """All has been read."""


Naming = Literal["no", "above", "before"]
"""Where several sources are named: above their lines, as `tail` does, or before each line, where they are merged."""


class Named:
    """Says of which source lines are."""

    def __init__(self, output: Output, naming: Naming) -> None:
        self.output = output
        self._naming = naming
        self._last: Source | None = None
        self.printed = 0

    def head(self, source: Source) -> None:
        if self._naming == "above" and source != self._last:
            self.output.text(f"==> {source.label} <==", "bold")
        self._last = source

    def before(self, source: Source) -> str:
        return f"{source.label}: " if self._naming == "before" else ""

    def end(self) -> None:
        """Nothing is held back."""

    def broken(self, source: Source, happened: Break) -> None:
        """Mark where the log does not simply go on."""
        self.head(source)
        self.output.text(f"{self.before(source)}--- {happened.words} ---", "bold")
        self.output.result({"source": source.label, "break": happened.kind, "text": happened.words})


class LinePrinter(Named):
    """Each line as it stands in the log; a block at a time, because a log may have millions."""

    def lines(self, source: Source, lines: list[LogLine]) -> None:
        if not lines:
            return
        self.printed += len(lines)
        if self.output.as_json:
            for line in lines:
                self.output.result(as_object(source, line))
            return
        self.head(source)
        before = self.before(source)
        sys.stdout.write("".join(f"{before}{printable(line.text)}\n" for line in lines))
        sys.stdout.flush()


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
