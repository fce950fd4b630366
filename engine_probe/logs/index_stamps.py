"""The earliest and the latest time in a block, by a few looks."""

from __future__ import annotations

import re

# 03-02 10:11:12, also inside 2026-03-02T10:11:12 and `"asctime": "2026-03-02 10:11:12,345"`.
STAMP = re.compile(rb"([0-9][0-9]-[0-9][0-9])[ T]([0-9][0-9]:[0-9][0-9]:[0-9][0-9])")
_LAST_STAMP = re.compile(rb".*" + STAMP.pattern, re.DOTALL)
_STEP_BYTES = 16384

Ends = tuple[bytes, bytes, bytes, bytes]
"""Day and clock of the earliest time of a block that was looked at, and of the latest."""


def ends_of(content: bytes) -> Ends | None:
    """Looks at a few places only; None where a block holds no time."""
    looks = [STAMP.search(content, place, place + _STEP_BYTES) for place in range(0, len(content), _STEP_BYTES)]
    looks.append(_LAST_STAMP.match(content, max(0, len(content) - _STEP_BYTES)))
    stamps = [(found[1], found[2]) for found in looks if found is not None]
    return (*min(stamps), *max(stamps)) if stamps else None
