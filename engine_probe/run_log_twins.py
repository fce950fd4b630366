"""Which log records were printed too: vLLM prints each one, and the text is the better copy.

A record comes on a way of its own, before its text or just after it; text may be dropped under a flood.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.lines import read_line

if TYPE_CHECKING:
    from engine_probe.events import LogRecord, Text

_PATIENCE_SECONDS = 2.0
_MOST_REMEMBERED = 2_000
_COMPARED_CHARACTERS = 200


class _Key(NamedTuple):
    level: str
    file: str
    line: int
    text: str


class Twins:
    """Records wait here for their text. Times are those of the events."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, _Key, LogRecord]] = deque()
        self._printed: OrderedDict[_Key, int] = OrderedDict()
        """Lines that were printed and whose record has not come yet."""
        self._now = 0.0

    def heard(self, seconds: float) -> None:
        self._now = max(self._now, seconds)

    def printed(self, text: Text) -> None:
        """A line came that looks like a record: the record that waits for it is not needed any more."""
        read = read_line(text.line)
        if read.level is None or read.file is None:
            return
        key = _key(read.level, read.file, read.line or 0, read.message)
        for number, (_, waiting, _record) in enumerate(self._waiting):
            if waiting == key:
                del self._waiting[number]
                return
        self._printed[key] = self._printed.pop(key, 0) + 1
        if len(self._printed) > _MOST_REMEMBERED:
            self._printed.popitem(last=False)

    def logged(self, record: LogRecord) -> None:
        key = _key(record.level, record.file, record.line, record.message)
        count = self._printed.pop(key, 0)
        if count > 1:
            self._printed[key] = count - 1
        elif count == 0:
            self._waiting.append((max(self._now, record.time), key, record))

    def given_up(self, *, every: bool = False) -> list[LogRecord]:
        """Records whose text does not come; `every`: no text comes any more."""
        found: list[LogRecord] = []
        while self._waiting and (
            every or self._now - self._waiting[0][0] > _PATIENCE_SECONDS or len(self._waiting) > _MOST_REMEMBERED
        ):
            found.append(self._waiting.popleft()[2])
        return found


def _key(level: str, file: str, line: int, message: str) -> _Key:
    first = message[: _COMPARED_CHARACTERS * 2].partition("\n")[0].rstrip()
    return _Key(level, file.rpartition("/")[2], line, first[:_COMPARED_CHARACTERS])
