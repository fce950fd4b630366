"""Cuts the telling parts out of every line of a block and numbers the distinct combinations; knows no meanings.

One pattern does it for a whole block: process, level, `[file:line]`, the first letters of the message. Helpers start
with little more than this module, so it imports nothing slow.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Key = tuple[bytes, ...]
"""What stands first and last is asked for by `family_of` and `head_of`."""

# Ranges and single categories are looked up faster than sets of several characters.
_TAG_AND_LEVEL = rb"(\([ -(*-~]*\) [A-Z]*|[A-Z]*)"
_PLACE_AND_HEAD = rb"([!-~]*.{0,12})"
_HEAD = rb"(\d{0,4}[^\d\n]{0,40})"
# uvicorn's access lines, which are most lines of a server that serves; else process and level, and then the place and
# how the message begins, or how a line of another kind begins, up to a number.
_PLAIN = re.compile(
    rb"\n(?:INFO:    ( )[0-9]|" + _TAG_AND_LEVEL + rb"(?: \d\d-.{12}" + _PLACE_AND_HEAD + rb"|" + _HEAD + rb"))"
)

# Where the plain pattern would see only what was put in front of the lines. Containers, journals and supervisors:
_CARRIER = (
    rb"(?:(?:<\d{1,3}>1? ?)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\S{0,10} \S{1,255} [^:\n]{1,160}: "
    rb"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,40} (?:std(?:out|err) [FP] ?|\S{1,255} [^\s:\[]{1,128}\[\d+\]: )?"
    rb"|@[0-9a-f]{24} |(?:\d\d:\d\d:\d\d )?[A-Za-z0-9][\w.-]{0,80}(?:[-_.]\d{1,4} {0,80}| {2,80})\| ?"
    rb'|\d{1,3}\|[\w.-]{1,60} {1,60}\| |\[(?:pod/)?[a-z0-9][\w.-]{0,160}/[\w.-]{1,160}\] |\{"log": ?")'
)
# VLLM_LOGGING_PREFIX: free text in front of process and level (vLLM 0.6.6 and newer, vllm/logger.py).
_RECORD = rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:"
_TAG = rb"\([^()\n]{1,80} pid=\d+[^()\n]{0,80}\) "
_OWN_PREFIX = rb"(?!" + _TAG + rb"|" + _RECORD + rb")[^\n]{1,120}?(?=(?:" + _TAG + rb")?" + _RECORD + rb")"
_OUTER = rb"(?:" + _CARRIER + rb"){1,3}|" + _OWN_PREFIX
# Python's json formatter in vLLM 0.32 and newer; the order of its keys is fixed.
_JSON = (
    rb'\{"asctime": "[^"\n]*", ("levelname": "[^"\n]*", "name": "[^"\n]*", '
    rb'(?:"process\w*": [^,\n]*, )*"message": ".{0,12})'
)
# NCCL and torch name a host or a rank before the level.
_NAMES_FIRST = rb"[^\s:]{1,255}:\d+:\d+ \[\d+\] .{0,16}|\[rank\d+\]:? ?\[?[A-Z]"
# Ray puts its own tag in front of the process's. Other formats name the logger.
_FINER = re.compile(
    rb"\n(?:" + _OUTER + rb")?(?:" + _JSON + rb"|((?:\([^()\n]*\) )*)([A-Z]*)"
    rb"(?: \d\d-.{12}(\S*.{0,12})|(.{0,8}vllm[\w.]{1,80}.{0,12}|(?:" + _NAMES_FIRST + rb"|\d{0,4})[^\d\n]{0,40})))"
)
_WANTS_FINER = re.compile(rb'\{"asctime": |\([^()\n]*\) \([^()\n]* pid=|' + _NAMES_FIRST + rb"|" + _OUTER)

_ANSI = re.compile(
    rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[()][A-Za-z0-9]|\x1b[=>78cDEHM]"
)
# Those of vLLM's formatter, most frequent first; replacing fixed words is ten times as fast as a pattern.
_OWN_COLOURS = tuple(
    b"\x1b[" + code + b"m" for code in (b"0;0", b"0", b"90", b"1;36", b"0;36", b"32", b"33", b"31", b"35", b"37")
)

LONGEST_READ = 8192
"""Bytes of a line that are looked at: whatever tells a line's kind stands near its start."""
_BYTE = 256
_MOST_NUMBERS = 200
"""A byte holds 256; a block seldom brings more than a few new ones."""
_HEAD_THAT_TELLS = 4


class Keyed(NamedTuple):
    """`numbers`: the combination of each line of a block; bytes unless there are more than 256.

    `new`: the combinations that are new since the block before, each with the first line that has it. Numbers go on
    from block to block until `begins_anew`.
    """

    numbers: bytes | list[int]
    new: list[tuple[Key, bytes]]
    begins_anew: bool
    has_objects: bool
    """Some line begins with `{`."""


class _Numbers(dict["Key", int]):
    """Combination → its number, given out in the order of first sight."""

    def __missing__(self, key: Key) -> int:
        number = self[key] = len(self)
        return number


class Keyer:
    """Numbers the combinations of block after block."""

    def __init__(self) -> None:
        self._pattern = _PLAIN
        self.begin_anew()

    def begin_anew(self) -> None:
        """So that numbers stay below 256, or mean the same to somebody who has not seen the blocks before."""
        self._numbers = _Numbers()
        self._objects: list[int] = []

    def key(self, clean: bytes) -> Keyed:
        """`clean` begins with the line end before it and lacks its own last one."""
        if len(self._numbers) > _MOST_NUMBERS:
            self.begin_anew()
        known = len(self._numbers)
        numbers = self._numbered(clean)
        new = self._first_lines(numbers, known, clean) if len(self._numbers) > known else []
        if self._pattern is not _FINER and any(_WANTS_FINER.match(line) for _, line in new):
            self._pattern = _FINER  # it tells lines like these apart; it stays for the rest of the log
            self.begin_anew()
            return self.key(clean)
        self._objects += (number for number, (_, line) in enumerate(new, known) if line.startswith(b"{"))
        return Keyed(numbers, new, known == 0, any(number in numbers for number in self._objects))

    def _numbered(self, clean: bytes) -> bytes | list[int]:
        end = clean.find(b"\n", 1)
        line, count = clean[:end], len(clean) // end if end > 0 else 0
        if count > 1 and clean == line * count:  # such as megabytes of empty lines
            number = self._numbers[self._pattern.findall(line)[0]]
            return bytes((number,)) * count if number < _BYTE else [number] * count
        keys = self._pattern.findall(clean)
        try:
            return bytes(map(self._numbers.__getitem__, keys))
        except ValueError:  # more than 256 combinations
            return list(map(self._numbers.__getitem__, keys))

    def _first_lines(self, numbers: bytes | list[int], known: int, clean: bytes) -> list[tuple[Key, bytes]]:
        lines = clean.split(b"\n")
        first = dict(zip(reversed(numbers), range(len(numbers), 0, -1), strict=True))
        return [
            (key, lines[first[number]][: LONGEST_READ + 1])
            for number, key in enumerate([*self._numbers][known:], known)
        ]


def family_of(key: Key) -> Key:
    """Process and place, without how the message begins."""
    place, bracket, _ = key[-2].partition(b"]")
    return (key[0].partition(b'"message"')[0], *key[1:-2], place if bracket else b"")


def head_of(key: Key) -> bytes:
    """The letters of the message that tell its kind most often."""
    place, bracket, head = key[-2].partition(b"]")
    return (head if bracket else place or key[-1])[:_HEAD_THAT_TELLS]


def without_colours(block: bytes) -> bytes:
    """`block` without ANSI codes; line ends stay where they are in number."""
    if b"\x1b" not in block:
        return block
    for code in _OWN_COLOURS:
        block = block.replace(code, b"")
    return _ANSI.sub(b"", block) if b"\x1b" in block else block


def last_drawn(line: bytes) -> bytes:
    """What a terminal would show of a line that was drawn over with carriage returns."""
    pieces = [piece for piece in line.split(b"\r") if piece.strip()]
    return pieces[-1] if pieces else b""


def cleaned(block: bytes) -> bytes:
    """`block` with every line as a terminal would show it, without colours."""
    block = without_colours(block)
    if b"\r" not in block or block.count(b"\r") == block.count(b"\r\n") + block.endswith(b"\r"):
        return block
    return b"\n".join([last_drawn(line) if b"\r" in line else line for line in block.split(b"\n")])
