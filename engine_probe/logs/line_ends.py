"""Logs whose lines end in a carriage return alone, as old tools and some terminals leave them."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_STEP_BYTES = 64 << 10
_MOST_BYTES = 256 << 20
_FEWEST_LINES = 2
# What a bar that is drawn over itself never is: a record's beginning, or a frame of a traceback.
_LINE = re.compile(
    rb"\r(?:\([^)\r]{1,80}\) )?"
    rb'(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d |  File "|Traceback \(|[A-Za-z_.]{1,60}Error: )'
)


def with_line_ends(file: int) -> int:
    """`file`, or in its place, where it has lines without any line feed, a nameless one that has them."""
    content = _with_bare_returns(file)
    if content is None:
        return file
    import tempfile  # noqa: PLC0415 - other logs need none

    with tempfile.TemporaryFile(prefix="vllm-console-") as copy:
        copy.write(content.replace(b"\r", b"\n"))
        copy.flush()
        os.close(file)
        return os.dup(copy.fileno())


def has_bare_returns(path: Path) -> bool:
    """Also False where it cannot be read: whoever opens it says so."""
    try:
        with path.open("rb") as stream:
            return _with_bare_returns(stream.fileno()) is not None
    except OSError:
        return False


def _with_bare_returns(file: int) -> bytes | None:
    """All of it where it has lines; else it may be a bar, which is drawn over itself."""
    content = _without_line_feed(file)
    has_lines = content is not None and len(list(islice(_LINE.finditer(content), _FEWEST_LINES))) == _FEWEST_LINES
    return content if has_lines else None


def _without_line_feed(file: int) -> bytes | None:
    """All of it; None where there is a line feed, no carriage return in its first part, or too much of it."""
    content = bytearray()
    while part := os.pread(file, _STEP_BYTES, len(content)):
        content += part
        if b"\n" in part or b"\r" not in content or len(content) > _MOST_BYTES:
            return None
    return bytes(content)
