"""What one line says of itself, packed into bytes: the seam between the semantic functions and the index.

`classify` is slow (tens of µs) and exact; the scanner calls it once for each kind of line that it meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine_probe.logs.index_keys import LONGEST_READ, last_drawn
from engine_probe.logs.index_keys import without_colours as without_colours  # noqa: PLC0414 -- re-exported
from engine_probe.stage_names import STAGES

LEVELS = ("", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LAYERS = ("unknown", "frontend", "engine", "worker", "model_runner", "outside")
STAGE_NAMES = ("", *STAGES)
"""Index 0: no stage has begun yet, or the line begins none."""

LEVEL_BITS, LAYER_SHIFT = 0x07, 3
CONTINUES = 0x40
"""A bare line: it belongs to the record before it, and level and layer are that record's."""
MARKS = 0x80
"""The line itself tells the stage that it is in."""
STAGE_BITS, OF_ONE = 0x0F, 0x10
"""`OF_ONE` is added to a stage that a line tells of its own process only."""


class LineClass(NamedTuple):
    """`level` and `process` None: the line does not say. `stage`: the one that it begins."""

    level: str | None
    layer: str
    process: str | None
    pid: int | None
    stage: str | None
    is_bare: bool
    """Of no known shape: it belongs to the record before it, where that is the same process's."""
    is_of_one: bool = False
    """Every rank prints such a line for itself: its stage is that of its own process only."""


Classify = Callable[[str, "str | None"], LineClass]
"""(text of a line, vLLM's version where it is known) → its class."""


def text_of(line: bytes) -> str:
    """The text to classify a raw line by."""
    return last_drawn(without_colours(line))[:LONGEST_READ].decode("utf-8", "replace")
