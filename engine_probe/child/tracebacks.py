"""Finds exceptions in printed text: the fallback where an exception never passed a logger."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROCESS = re.compile(r"^\((?P<process>[A-Za-z_][\w .=-]*? pid=\d+)[^)]*\) ?")
_LOGGER = re.compile(
    r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./-]+:\d+\]|[\w./-]+:\d+\]) ?"
)
_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_JOINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_VALIDATION = re.compile(r"^\d+ validation errors? for ")
_FIELD = re.compile(r"^[A-Za-z_][\w.\[\],'-]*$")
"""pydantic names the field on a line of its own, not indented, and what is wrong with it indented below."""
_MAX_MESSAGE = 8000
_MAX_FRAMES = 30

Chain = list[dict[str, Any]]
"""As log_tap.exception_chain gives it: {type, message, frames}, the innermost cause first."""


@dataclass
class _Process:
    """Where the text of one process stands."""

    frames: list[dict[str, Any]] | None = None
    """Of the traceback that is being printed; None outside one."""
    chain: Chain = field(default_factory=list)
    is_joined: bool = False
    """The next traceback belongs to the same chain."""
    may_continue: bool = False
    """The line before was the last of an exception's message so far."""


class TracebackReader:
    """Feed it lines; `chains` holds every finished chain, in order. Lines of several processes may mix."""

    def __init__(self) -> None:
        self.chains: list[Chain] = []
        self._processes: dict[str, _Process] = {}

    def feed(self, line: str) -> None:
        line = _ANSI.sub("", line).rstrip("\r\n")
        match = _PROCESS.match(line)
        name = match.group("process") if match else ""
        line = _LOGGER.sub("", line[match.end() :] if match else line)
        process = self._processes.get(name)
        if process is None:
            if line.strip() != _START:
                return
            process = self._processes[name] = _Process()
        self._feed_of(process, line)

    def _feed_of(self, process: _Process, line: str) -> None:
        content = line.strip()
        if content in _JOINED:
            process.is_joined, process.may_continue = True, False
        elif content == _START:
            process.frames = []
        elif process.frames is not None:
            self._inside(process, process.frames, line)
        elif content and process.may_continue and _continues(process.chain[-1]["message"], line):
            last = process.chain[-1]
            last["message"] = f"{last['message']}\n{content}"[:_MAX_MESSAGE]
        elif content:
            process.is_joined = process.may_continue = False

    def _inside(self, process: _Process, frames: list[dict[str, Any]], line: str) -> None:
        frame = _FRAME.match(line)
        if frame:
            frames.append({"file": frame["file"], "line": int(frame["line"]), "function": frame["function"]})
        elif line and not line.startswith(" "):
            process.frames = None
            error = _ERROR.match(line)
            if error:
                self._finish(process, error, frames)

    def _finish(self, process: _Process, error: re.Match[str], frames: list[dict[str, Any]]) -> None:
        if not process.is_joined:
            process.chain = []
            self.chains.append(process.chain)
        message = (error["message"] or "")[:_MAX_MESSAGE]
        process.chain.append({"type": error["type"], "message": message, "frames": frames[-_MAX_FRAMES:]})
        process.is_joined, process.may_continue = False, True


def _continues(message: str, line: str) -> bool:
    """Many print the rest of a message indented on the next lines."""
    return line.startswith("  ") or bool(_VALIDATION.match(message) and _FIELD.match(line))
