"""Finds lines by a pattern, a bit at a time, so that a search of any size never keeps a key waiting."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from engine_probe.logs.index_keys import without_colours
from engine_probe.logs.index_selection import Selection, count_of

if TYPE_CHECKING:
    from engine_probe.logs.index_blocks import Blocks

BATCH_SECONDS = 0.02
_LONG_SECONDS = 0.004
_MOST_LINES = 16
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
        self._was_at_end = False
        self._piece_lines = 1
        """More where lines do not take long."""

    @property
    def searched_lines(self) -> int:
        return len(self._mask)

    @property
    def count(self) -> int:
        return count_of(self._mask)

    def marks(self, start: int, stop: int) -> bytearray:
        """1 for each line that matches, of the searched ones from `start` to `stop`."""
        return self._mask[start:stop]

    def selection(self) -> Selection:
        """Matching lines among those that were searched; all others count as not matching."""
        rest = bytes(max(0, self._blocks.line_count - len(self._mask)))
        return Selection(b"".join((self._mask, rest)))

    def advance(self, seconds: float = BATCH_SECONDS) -> bool:
        """Search for about `seconds`; True when all lines of now are searched. Call it again when there are more."""
        if self._generation != self._blocks.generation:
            self._start_over()
        until = time.monotonic() + seconds
        last = len(self._blocks) - 1
        if self._was_at_end:  # the last block's line may have been unfinished: it is looked at again
            self._was_at_end = False
            del self._mask[self._blocks.lines_of(self._block).start :]
        while self._block <= last:
            if not self._search_block(self._blocks.lines_of(self._block), until):
                return False
            if self._block == last:
                self._was_at_end = True
                return True
            self._block += 1
            if time.monotonic() >= until:
                return False
        return True

    def _search_block(self, lines: range, until: float) -> bool:
        """Go on in a block; False when time is over before its end."""
        content = without_colours(self._blocks.content(self._block))
        if not self._match.is_possible(content):
            self._mask += bytes(lines.stop - len(self._mask))
            return True
        texts = content.split(b"\n")
        while (at := len(self._mask) - lines.start) < len(lines):
            count = min(self._piece_lines, len(lines) - at)
            began = time.monotonic()
            self._mask += self._match.marks(texts[at : at + count], count)
            now = time.monotonic()
            if now - began > _LONG_SECONDS:
                self._piece_lines = 1
            elif self._piece_lines < _MOST_LINES:
                self._piece_lines *= 2
            if now >= until and len(self._mask) < lines.stop:
                return False
        return True


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """A pattern for lines as bytes; letters outside ASCII are taken as they are written. Raises re.error."""
    re.compile(text)  # says what is wrong in the words and places of the text
    return re.compile(text.encode("utf-8", "surrogateescape"))


class Matcher:
    """A pattern for single lines; where it is plain text, it is looked for in whole blocks first."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._search = pattern.search
        is_plain = _LITERAL.fullmatch(pattern.pattern) and not pattern.flags & re.IGNORECASE
        self._literal = pattern.pattern if is_plain else None

    def is_possible(self, content: bytes) -> bool:
        """False: no line of this text without colours can match."""
        return self._literal is None or self._literal in content

    def marks(self, lines: list[bytes], count: int) -> bytes:
        """1 for each of `count` lines that matches; lines that are missing at the end do not."""
        search = self._search
        return bytes(search(line) is not None for line in lines).ljust(count, b"\0")
