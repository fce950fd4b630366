"""Whether the log of one server says that its load, or the server itself, failed, and by which exception.

Nothing is kept of a log without errors, and no record reader is imported before there is one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.escapes import safe_lines
from engine_probe.facts import Known
from engine_probe.redact import mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.ending_words import EndingWords
    from engine_probe.logs.lines import Line
    from engine_probe.logs.records import Record

_BAD = ("ERROR", "CRITICAL")
_BARE_BAD = ("Traceback (most recent call last)", "usage: ")
_BAD_FORMATS = ("shell", "argparse")
_CERTAIN_FORMATS = (*_BAD_FORMATS, "uvicorn")
_SIGNALS = ("SIGTERM", "SIGINT", " signal ")
_MOST_LINES, _MOST_SIGNS = 2000, 1 << 20
_LONGEST_WORDS = 300
_SHARE = 1 / 50
"""The most of one core that looking may take, where a log prints error after error."""


@dataclass
class Failure:
    """`take` each line, `go_on` when another stage begins: an error after which a load goes on is none."""

    is_up: bool = False
    _lines: list[tuple[str, str]] = field(default_factory=list)
    """From the first error on: each with where it stands."""
    _signs: int = 0
    _serving: str | None = None
    _told: Known | None = None
    _is_old: bool = False
    _is_asked: bool = False
    _has_died: bool = False
    _due: float = 0.0

    def go_on(self, text: str, *, is_up: bool) -> None:
        self._lines, self._signs, self._told = [], 0, None
        self._is_old = self._has_died = False
        if is_up and not self.is_up:
            self.is_up, self._serving = True, text

    def take(self, line: Line, text: str, origin: str) -> None:
        """A server that is up prints errors of requests: of those only what comes with a death is kept."""
        is_bad = line.level in _BAD or line.message.startswith(_BARE_BAD) or line.format in _BAD_FORMATS
        if not self._lines and not is_bad:
            self._is_asked |= any(sign in line.message for sign in _SIGNALS) and _says("asked", line.message)
        if self._is_asked or (not self._lines and not is_bad):
            return
        if self._signs > _MOST_SIGNS or len(self._lines) >= _MOST_LINES:
            if not self.is_up:
                return  # the first ones tell the root
            self._lines = self._lines[len(self._lines) // 2 :]
            self._signs = sum(len(one) for one, _ in self._lines)
        self._lines.append((text, origin))
        self._signs += len(text)
        self._is_old |= is_bad or not self.is_up
        self._has_died |= self.is_up and _says("death", line.message)

    def told(self) -> Known | None:
        """The first line of the root exception; None where nothing says that it failed."""
        began = time.monotonic()
        if self._is_old and began >= self._due:
            self._is_old = False
            self._told = self._look() or self._told
            now = time.monotonic()
            self._due = now + (now - began) / _SHARE
        return self._told

    def _look(self) -> Known | None:
        from engine_probe.logs.covers import read_wrappers  # noqa: PLC0415 - seldom needed
        from engine_probe.logs.ending_words import ending_words  # noqa: PLC0415
        from engine_probe.logs.endings import ending_of  # noqa: PLC0415
        from engine_probe.logs.records import Reader  # noqa: PLC0415

        if self.is_up and not self._has_died:
            return None
        words, covers, reader = ending_words(), read_wrappers(), Reader()
        texts = [self._serving] if self.is_up and self._serving is not None else []
        shift = len(texts)
        texts += [text for text, _ in self._lines]
        records = [record for number, text in enumerate(texts) for record in reader.feed(number, text)]
        records += reader.finish()
        records.sort(key=lambda one: (one.first_line, one.last_line))
        asked_at = next((at for at, one in enumerate(records) if _says_asked(words, one)), len(records))
        records = records[:asked_at]  # what breaks after it was asked to end is no failure
        ending = ending_of(records, covers, is_server=True)
        if ending.outcome != "failed" or not (self.is_up or _is_certain(records, covers)):
            return None
        record = ending.record
        root = ending.root.text if ending.root is not None else record.message if record is not None else ""
        first = root.strip().partition("\n")[0][:_LONGEST_WORDS]
        at = max(record.first_line - shift, 0) if record is not None else 0
        return Known(safe_lines(mask(first)) or "an error without words", "parsed", self._lines[at][1])


def _says(kind: str, message: str) -> bool:
    from engine_probe.logs.ending_words import ending_words  # noqa: PLC0415 - seldom needed

    return ending_words().says(kind, message)


def _says_asked(words: EndingWords, record: Record) -> bool:
    texts = (record.message, *(raised.text for chain in record.chains for raised in chain))
    return any(words.says("asked", text) for text in texts)


def _is_certain(records: Sequence[Record], covers: Wrappers) -> bool:
    """An exception that nobody caught, or the words of who saw it: with one that was only logged a load may go on."""
    return any(
        (record.format in _CERTAIN_FORMATS and (record.format != "uvicorn" or record.level in _BAD))
        or record.role == "error"
        or (record.format is None and record.chains)
        or (record.level in _BAD and (covers.covers(record.message) or _is_covered(record, covers)))
        for record in records
    )


def _is_covered(record: Record, covers: Wrappers) -> bool:
    return any(covers.covers(raised.text) for chain in record.chains for raised in chain)
