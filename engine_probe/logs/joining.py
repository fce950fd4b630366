"""Which lines make one record: each line of a vLLM record has the whole prefix, all others go on by their looks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.logs.tracebacks import JOINED, START

if TYPE_CHECKING:
    from engine_probe.logs.lines import Line
    from engine_probe.logs.stages import Found

Owner = tuple[str | None, str | None, int | None]
"""Container, process tag and pid: who prints. All None: lines that name nobody."""

_MOST_LINES = 2_000
_MOST_BLANKS = 3
_LONGEST_WARNING = 12
_VLLM = ("vllm", "vllm_0.7")
_ALONE = ("tqdm", "tqdm_weights", "tqdm_graphs", "nccl", "nccl_version", "glog", "uvicorn_access", "shell")
_FRAME = re.compile(r'^\s*(?:\| *)?File "')
_IN_A_GROUP = re.compile(r"^ *\| ")
_GOES_ON = re.compile(
    r"^(?:frame #|Exception raised from |C\+\+ CapturedTraceback|For further information|CUDA kernel |Compile with )"
)


def owner_of(line: Line) -> Owner:
    return (line.source, line.process, line.pid if line.process else None)


def is_blank(line: Line) -> bool:
    return line.format is None and not line.message.strip()


def is_alone(line: Line) -> bool:
    """Whether a line is a record of its own, and interrupts none: drawn or written past Python's streams."""
    return line.format in _ALONE


class Open:
    """A record that may still go on."""

    def __init__(self, number: int, line: Line) -> None:
        self.first_line = self.last_line = number
        self.line = line
        self.found: tuple[Found, ...] = ()
        self.stage: str | None = None
        self.version: str | None = None
        self.neighbour: Line | None = None
        """The last line before it that names its process."""
        self.texts = line.message.split("\n")
        self._blanks = 0
        self._is_traceback = _begins_traceback(line.message) or self._is_cut_traceback(line.message)
        self._has_raised = False
        self._is_ended_by_return = not line.is_continued

    def takes(self, line: Line, has_returns: bool) -> bool:
        """Whether `line`, of the same owner, belongs to this record. `has_returns`: the log kept vLLM's \\r."""
        if len(self.texts) >= _MOST_LINES:
            return False
        if line.format in _VLLM:
            return self._takes_record_line(line, has_returns)
        if line.format is not None:
            return False
        return self._takes_bare(line.message)

    def add(self, number: int, line: Line) -> None:
        if line.format is None and not line.message.strip() and self.line.format not in _VLLM:
            self._blanks += 1  # kept only when something of the record follows
            return
        self.texts += [""] * self._blanks
        self._blanks = 0
        self.texts.append(line.message)
        self.last_line = number
        self._is_ended_by_return = not line.is_continued
        self._see(line.message)

    def _is_cut_traceback(self, text: str) -> bool:
        """Whether `text` is a frame of a traceback whose beginning is not in the log: code at most stands above it."""
        return self.line.format is None and self.line.message[:1].isspace() and _FRAME.match(text) is not None

    def _see(self, text: str) -> None:
        if _begins_traceback(text) or text.strip() in JOINED:
            self._is_traceback, self._has_raised = True, False
        elif not self._is_traceback:
            self._is_traceback = self._is_cut_traceback(text)
        elif text and not text[0].isspace() and not _FRAME.match(text):
            self._has_raised = True
        elif self._has_raised and _FRAME.match(text):
            self._has_raised = False

    def _takes_record_line(self, line: Line, has_returns: bool) -> bool:
        mine = self.line
        if mine.format != line.format or (has_returns and self._is_ended_by_return):
            return False
        same = (mine.level, mine.time, mine.file, mine.line) == (line.level, line.time, line.file, line.line)
        return same and (has_returns or not self._begins_anew(line.message))

    def _begins_anew(self, text: str) -> bool:
        """A second record of the same place and second: its first line again, or a traceback after a finished one."""
        if _begins_traceback(text) and self._is_joined_by(text):
            return False
        return (text == self.texts[0] and bool(text.strip())) or (self._has_raised and _begins_traceback(text))

    def _is_joined_by(self, text: str) -> bool:
        """Whether a traceback that begins with `text` belongs to what was printed so far."""
        if self._is_traceback and _IN_A_GROUP.match(text):
            return True
        last = next((text.strip() for text in reversed(self.texts) if text.strip()), "")
        return last in JOINED or last.endswith(":")

    def _takes_bare(self, text: str) -> bool:
        if self.line.format in _VLLM:
            return False
        if not text.strip():
            return self._blanks < _MOST_BLANKS
        if text.strip() in JOINED or _GOES_ON.match(text):
            return self._is_traceback or self._is_lone_exception()
        if _begins_traceback(text):
            return self._is_joined_by(text) or (self._blanks == 0 and self._announces_traceback())
        return self._takes_of_traceback(text) if self._is_traceback else self._takes_of_text(text)

    def _takes_of_text(self, text: str) -> bool:
        if self._blanks:
            return False
        if self.line.format == "python_warning" and len(self.texts) < _LONGEST_WARNING:
            is_open = self.line.message.rstrip().endswith("Warning:") and not self._has_code()
            return is_open or text.startswith("  ")
        return text[0].isspace()

    def _takes_of_traceback(self, text: str) -> bool:
        if self._has_raised and self._blanks:
            return text[0].isspace()
        return True

    def _has_code(self) -> bool:
        return any(text.startswith("  ") for text in self.texts[1:])

    def _announces_traceback(self) -> bool:
        """A record of Python's logging at level ERROR, or an interpreter that says where the exception was."""
        return not self._is_traceback and (
            self.line.level in ("ERROR", "CRITICAL") or self.texts[-1].startswith(("Exception ", "Process "))
        )

    def _is_lone_exception(self) -> bool:
        return self.line.format is None and "Error" in self.texts[0]


def _begins_traceback(text: str) -> bool:
    return text.rstrip().endswith(START)
