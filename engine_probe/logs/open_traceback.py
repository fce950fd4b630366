"""A traceback of a log that may still go on: which lines belong to it, and which of them tells its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs import joining
from engine_probe.logs.index_classes import without_colours
from engine_probe.logs.lines import Line, read_line
from engine_probe.logs.tracebacks import START, chains_in

if TYPE_CHECKING:
    from engine_probe.logs.covers import Wrappers

_OWN_FORMATS = ("vllm", "vllm_0.7")
_LONGEST_READ = 8192
_LONGEST_TEXT = 1000


class OpenTraceback:
    """Lines of one writer from the one that says `Traceback …` on, as far as they are one record."""

    def __init__(self, number: int, line: Line, mark: int) -> None:
        self.first_line = self.last_line = number
        self.mark = mark
        """What its lines are marked with."""
        self.hidden_count = 0
        """Lines behind the first that are known to belong to it."""
        self.is_changed = False
        self._record = joining.Open(number, line)
        self._numbers = [number] * len(self._record.texts)
        self._blanks: list[int] = []

    def takes(self, line: Line, has_returns: bool) -> bool:
        return self._record.takes(line, has_returns)

    def add(self, number: int, line: Line) -> list[int]:
        """The lines that are now known to belong: blank ones do when something follows."""
        before = len(self._record.texts)
        self._record.add(number, line)
        if len(self._record.texts) == before:
            self._blanks.append(number)
            return []
        added = [*self._blanks, number]
        self._blanks = []
        self._numbers += added[before - len(self._record.texts) :]
        self.last_line = number
        self.hidden_count += len(added)
        self.is_changed = True
        return added

    def cause(self, covers: Wrappers) -> tuple[int, bool]:
        """The line of the innermost exception that is no cover message, and whether there is none but covers."""
        raised = [one for chain in chains_in(self._record.texts) for one in chain]
        if not raised:
            return self.last_line, False
        told = next((one for one in raised if not covers.covers(one.text)), None)
        return self._numbers[(told or raised[-1]).at], told is None

    def number_of(self, at: int) -> int:
        """Of the line `at` of the record; of its last one where it has no such line."""
        return self._numbers[min(at, len(self._numbers) - 1)]


def in_one_line(text: str) -> str:
    """What was raised, as it is shown in one row."""
    return " ".join(text[:_LONGEST_TEXT].split())


def begins_traceback(line: Line) -> bool:
    return line.message.rstrip().endswith(START)


class QuickReader:
    """`read_line` for lines of which many in a row have one prefix: those of a record that vLLM logged."""

    def __init__(self) -> None:
        self._prefix: bytes | None = None
        self._first: Line | None = None

    def read(self, raw: bytes) -> Line:
        if self._first is not None and self._prefix is not None and raw.startswith(self._prefix):
            rest = raw[len(self._prefix) :]
            text = rest.removesuffix(b"\r")
            if b"\r" not in text and b"\x1b" not in text and b"[repeated " not in text:
                is_continued = len(text) < len(rest)
                message = text[:_LONGEST_READ].decode("utf-8", "replace")
                return self._first._replace(message=message, is_continued=is_continued)
        return self._read(raw)

    def _read(self, raw: bytes) -> Line:
        text = without_colours(raw[:_LONGEST_READ]).decode("utf-8", "replace")
        line = read_line(text)
        at = text.rfind(line.message) if line.format in _OWN_FORMATS and line.message else -1
        if at > 0:
            self._prefix, self._first = text[:at].encode(), line
        return line
