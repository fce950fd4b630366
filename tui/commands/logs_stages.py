"""How `logs --stages` prints: one line where a load stage begins, with how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.logs.clock import elapsed_s, seconds_in_year
from engine_probe.logs.lines import read_line
from tui.commands.logs_print import Named, as_object
from tui.output import terminal_width

if TYPE_CHECKING:
    from engine_probe.logs.follow import Break
    from engine_probe.logs.index_stream import LogLine
    from engine_probe.logs.sources import Source
    from tui.commands.logs_print import Naming
    from tui.output import Output

_WIDTH_OF_A_PIPE = 100
_LOOKED_BACK_LINES = 100


@dataclass
class _Begun:
    source: Source
    line: LogLine
    message: str
    begun_at: float | None
    """Seconds in the year; None where the line tells no time."""
    seconds: float | None = None
    """Until the next stage of the same source; None where that is not known."""
    is_over: bool = False


class StagePrinter(Named):
    """Only lines at which another stage begins than that of the wanted line before.

    Each is held back until the next stage of its source tells how long it took; with `at_once` (a log that is
    followed) none is, and nothing is said of seconds.
    """

    def __init__(self, output: Output, naming: Naming, *, at_once: bool = False) -> None:
        super().__init__(output, naming)
        self._stages: dict[Source, str | None] = {}
        self._at_once = at_once
        self._held: list[_Begun] = []

    def lines(self, source: Source, lines: list[LogLine]) -> None:
        for number, line in enumerate(lines):
            if line.stage is not None and line.stage != self._stages.get(source):
                self._begin(source, line, _time_at(lines, number))
            self._stages[source] = line.stage
        self._print(to_the_end=self._at_once)

    def broken(self, source: Source, happened: Break) -> None:
        self.end()
        super().broken(source, happened)

    def end(self) -> None:
        """Print also what nothing came behind."""
        self._print(to_the_end=True)

    def _begin(self, source: Source, line: LogLine, at_seconds: float | None) -> None:
        self.printed += 1
        begun = _Begun(source, line, read_line(line.text).message, at_seconds)
        last = next((one for one in reversed(self._held) if one.source == source), None)
        if last is not None:
            last.is_over = True
            last.seconds = _between(last.begun_at, at_seconds)
        self._held.append(begun)

    def _print(self, *, to_the_end: bool) -> None:
        """In the order in which they came, so that merged logs stay merged."""
        while self._held and (to_the_end or self._held[0].is_over):
            self._print_one(self._held.pop(0))

    def _print_one(self, begun: _Begun) -> None:
        line = begun.line
        self.head(begun.source)
        seconds = "" if begun.seconds is None else f"{begun.seconds:,.1f} s"
        text = f"{self.before(begun.source)}{line.stage:16}  {line.number + 1:>9}  {seconds:>10}  "
        width = terminal_width(_WIDTH_OF_A_PIPE)
        message = " ".join(begun.message.split())
        self.output.text(text + _cut(message, max(width - len(text), 20)))
        self.output.result(as_object(begun.source, line) | {"seconds": begun.seconds})


def _time_at(lines: list[LogLine], number: int) -> float | None:
    """Of the line, else of the nearest one before it that is at hand, in seconds of the year."""
    for line in reversed(lines[max(0, number + 1 - _LOOKED_BACK_LINES) : number + 1]):
        told = read_line(line.text)
        if (found := seconds_in_year(told.time or told.stamp)) is not None:
            return found
    return None


def _between(begin: float | None, end: float | None) -> float | None:
    """None where one is unknown, or time goes back: another log stands behind the first."""
    if begin is None or end is None:
        return None
    seconds = elapsed_s(begin, end)
    return round(seconds, 3) if end >= begin or seconds > 0 else None


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
