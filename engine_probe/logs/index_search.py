"""Finds lines by a pattern, a bit at a time, so that a search of any size never keeps a key waiting."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from engine_probe.logs.index_keys import without_colours
from engine_probe.logs.index_selection import Selection

if TYPE_CHECKING:
    from engine_probe.logs.index_blocks import Blocks

BATCH_SECONDS = 0.02
_LITERAL = re.compile(rb"[^\\.^$*+?{}\[\]|()]+")


class Search:
    """Counts and marks matching lines. It looks at text without colours, line by line."""

    def __init__(self, blocks: Blocks, pattern: re.Pattern[bytes]) -> None:
        self._blocks = blocks
        self._match = Matcher(pattern)
        self._start_over()

    def _start_over(self) -> None:
        self._generation = self._blocks.generation
        self._mask = bytearray()
        self._block = 0

    @property
    def searched_lines(self) -> int:
        return len(self._mask)

    @property
    def count(self) -> int:
        return self._mask.count(1)

    def marks(self, start: int, stop: int) -> bytearray:
        """1 for each line that matches, of the searched ones from `start` to `stop`."""
        return self._mask[start:stop]

    def selection(self) -> Selection:
        """Matching lines among those that were searched; all others count as not matching."""
        return Selection(self._mask.ljust(self._blocks.line_count, b"\0"))

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Search for about `seconds`; True when all lines of now are searched. Call it again when there are more."""
        if self._generation != self._blocks.generation:
            self._start_over()
        until = time.monotonic() + seconds
        last = len(self._blocks) - 1
        while self._block <= last:
            lines = self._blocks.lines_of(self._block)
            del self._mask[lines.start :]
            self._mask += self._match.marks(self._blocks.content(self._block), len(lines))
            if self._block == last:  # its line may be unfinished: it is looked at again next time
                return True
            self._block += 1
            if time.monotonic() >= until:
                return False
        return True


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """A pattern for lines as bytes; letters outside ASCII are taken as they are written. Raises re.error."""
    re.compile(text)  # says what is wrong in the words and places of the text
    return re.compile(text.encode("utf-8", "surrogateescape"))


class Matcher:
    """A pattern for single lines, tried on whole blocks first where it is plain text."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._search = pattern.search
        is_plain = _LITERAL.fullmatch(pattern.pattern) and not pattern.flags & re.IGNORECASE
        self._literal = pattern.pattern if is_plain else None

    def marks(self, content: bytes, count: int) -> bytes:
        """1 for each of the `count` lines of a block that matches, 0 for the others."""
        clean = without_colours(content)
        if self._literal is not None and self._literal not in clean:
            return bytes(count)
        search = self._search
        return bytes(search(line) is not None for line in clean.split(b"\n")[:count]).ljust(count, b"\0")
