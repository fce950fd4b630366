"""Finds exceptions in the text of one record: chains, innermost cause first, with their frames.

Reads what CPython prints, exception groups, what ray repeats of another process, and tracebacks that vLLM prints inside
messages (subprocesses that inspect a model, V0 workers).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

START = "Traceback (most recent call last):"
JOINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_FRAME = re.compile(r'^ *File "(?P<file>[^"]{1,4096})", line (?P<line>\d{1,9})(?:, in (?P<function>.*))?$')
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\([\w.]+\))?(?: \[\w+\])?)(?:: ?(?P<message>.*))?$")
_GROUP_BAR = re.compile(r"^ *(?:\| |\+ (?=Exception Group)|\+-[+-]*-+(?: (?:\d+|\.\.\.) -+)?$)")
_ALONE = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)): (?P<message>.+)$")
_MOST_FRAMES = 60
_MOST_MESSAGE_LINES = 200


class Frame(NamedTuple):
    file: str
    line: int
    function: str


class Raised(NamedTuple):
    """One exception as printed. `type` may be dotted; `frames` outermost first; `at` counts lines inside the record."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    at: int = 0
    is_cut: bool = False
    """Its traceback begins with a frame: what stood above is not there."""

    @property
    def text(self) -> str:
        """`ValueError: the message`, as a traceback ends."""
        short = self.type.rsplit(".", 1)[-1]
        return f"{short}: {self.message}" if self.message else short


Chain = tuple[Raised, ...]


class _Parser:
    """Fed line by line; `chains` holds every finished chain, in order."""

    def __init__(self) -> None:
        self.chains: list[list[Raised]] = []
        self._frames: list[Frame] | None = None
        """Of the traceback that is being printed; None outside one."""
        self._message: list[str] | None = None
        """Of the exception at `_position` of the last chain, while it may still go on."""
        self._position = 0
        self._is_joined = False
        self._is_cut = False
        self._is_inner = False
        """The next exception is told inside the message of the last one: it is its cause."""

    def feed(self, at: int, line: str) -> None:
        line = _GROUP_BAR.sub("", line)
        content = line.strip()
        if content in JOINED:
            self.end_message()
            self._is_joined = True
        elif content.endswith(START):
            self._begin(content)
        elif self._frames is not None:
            self._inside(at, line, self._frames)
        elif self._message is not None:
            self._after(line, self._message)
        elif not self.chains and (frame := _FRAME.match(line)):  # its beginning was cut off, or it never had one
            self._frames, self._is_cut = [_frame_of(frame)], True

    def _begin(self, content: str) -> None:
        last = self._message[-1].rstrip() if self._message else ""
        self._is_inner = self._message is not None and (last.endswith(":") or not content.startswith(START))
        self.end_message()
        self._frames = []

    def _inside(self, at: int, line: str, frames: list[Frame]) -> None:
        if frame := _FRAME.match(line):
            frames.append(_frame_of(frame))
            del frames[: max(0, len(frames) - _MOST_FRAMES)]
        elif line and not line[0].isspace() and (raised := _RAISED.match(line)):
            self._finish(Raised(raised["type"], (raised["message"] or "").strip(), tuple(frames), at, self._is_cut))

    def _finish(self, raised: Raised) -> None:
        if self._is_inner:
            self.chains[-1].insert(self._position, raised)
        elif self._is_joined and self.chains:
            self.chains[-1].append(raised)
            self._position = len(self.chains[-1]) - 1
        else:
            self.chains.append([raised])
            self._position = 0
        self._frames, self._message = None, [raised.message]
        self._is_joined = self._is_inner = self._is_cut = False

    def _after(self, line: str, message: list[str]) -> None:
        if frame := _FRAME.match(line):  # ray goes on with the frames of the other process
            self.end_message()
            self._is_inner, self._frames = True, [_frame_of(frame)]
        elif len(message) < _MOST_MESSAGE_LINES:
            message.append(line.rstrip())

    def end_message(self) -> None:
        if self._message is not None:
            chain = self.chains[-1]
            chain[self._position] = chain[self._position]._replace(message="\n".join(self._message).strip())
        self._message = None


def _frame_of(match: re.Match[str]) -> Frame:
    return Frame(match["file"], int(match["line"]), match["function"] or "")


def chains_in(lines: Sequence[str]) -> list[Chain]:
    """Every chain in the lines of one record (without prefixes), in the order of the text."""
    parser = _Parser()
    for at, line in enumerate(lines):
        parser.feed(at, line)
    parser.end_message()
    return [tuple(chain) for chain in parser.chains]


def raised_without_traceback(line: str) -> Raised | None:
    """`ValueError: no` alone, as it stands where the traceback was cut off; None for any other line."""
    found = _ALONE.match(line)
    return Raised(found["type"], found["message"].strip()) if found is not None else None


def raised_on(line: str) -> Raised | None:
    """What a line of a traceback that ends in it says was raised; None for any other line."""
    found = _RAISED.match(_GROUP_BAR.sub("", line))
    return Raised(found["type"], (found["message"] or "").strip()) if found is not None else None


def head_of(lines: Sequence[str]) -> list[str]:
    """The lines in front of the first traceback: the record's own message."""
    for index, line in enumerate(lines):
        if _FRAME.match(line) and all(text[:1].isspace() for text in lines[:index]):
            return []
        if line.rstrip().endswith(START):
            before = line.rstrip().removesuffix(START).rstrip(" ,|+")
            return [*lines[:index], *([before] if before.strip() and not before.endswith("Exception Group") else [])]
    return list(lines)
