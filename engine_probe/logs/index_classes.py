"""What one line says of itself, packed into bytes: the seam between the semantic functions and the index.

`classify` is slow (tens of µs) and exact; the scanner calls it once for each kind of line that it meets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from engine_probe.stage_names import STAGES
from engine_probe.logs.layers import layer_of_record
from engine_probe.logs.lines import read_line
from engine_probe.logs.stages import read_wordings

LEVELS = ("", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LAYERS = ("unknown", "frontend", "engine", "worker", "model_runner", "outside")
STAGE_NAMES = ("", *STAGES)
"""Index 0: no stage has begun yet, or the line begins none."""

LEVEL_BITS, LAYER_SHIFT = 0x07, 3
CONTINUES = 0x40
"""A bare line: it belongs to the record before it, and level and layer are that record's."""

_ANSI = re.compile(
    rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[()][A-Za-z0-9]|\x1b[=>78cDEHM]"
)
# Those of vLLM's formatter, most frequent first; replacing fixed words is ten times as fast as a pattern.
_OWN_COLOURS = tuple(
    b"\x1b[" + code + b"m" for code in (b"0;0", b"0", b"90", b"1;36", b"0;36", b"32", b"33", b"31", b"35", b"37")
)
_TRACEBACK = "Traceback (most recent call last):"
_SERVER_FORMATS = ("uvicorn", "uvicorn_access")
_LONGEST_READ = 8192
"""Bytes of a line that are looked at: whatever tells a line's kind stands near its start."""


class LineClass(NamedTuple):
    """`level` and `process` None: the line does not say. `stage`: the one that it begins."""

    level: str | None
    layer: str
    process: str | None
    pid: int | None
    stage: str | None
    is_bare: bool
    """Of no known shape: it belongs to the record before it, where that is the same process's."""


Classify = Callable[[str, "str | None"], LineClass]
"""(text of a line, vLLM's version where it is known) → its class."""


def default_classify() -> Classify:
    """The classifier of the package's own tables."""
    wordings = read_wordings()

    def classify(text: str, version: str | None) -> LineClass:
        line = read_line(text)
        marker = wordings.marker_of(line.message)
        process = line.process or (None if line.rank is None else f"rank={line.rank}")
        if process is None and line.format in _SERVER_FORMATS:  # from 0.31.0 on, only records name their process
            process = "APIServer"
        level = line.level if line.level in LEVELS else None
        if line.format is None and line.message.startswith(_TRACEBACK):  # printed when nothing caught the exception
            level = "ERROR"
        stage = None if marker is None else marker.enters
        is_bare = line.format is None and level is None and stage is None
        told = None if marker is None else marker.layer
        layer = layer_of_record(line, line.message, (), version, told, line.process)
        return LineClass(level, layer, process, line.pid, stage, is_bare)

    return classify


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


def text_of(line: bytes) -> str:
    """The text to classify a raw line by."""
    return last_drawn(without_colours(line))[:_LONGEST_READ].decode("utf-8", "replace")
