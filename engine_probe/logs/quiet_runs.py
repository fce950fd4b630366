"""Leaves out what a server prints over and over while it serves, so that a middling log is read at once.

Requests, their answers and the counts of both come in runs of many lines. Only what stands inside such a run is left
out: its first and its last line tell from when to when it was, and keep apart what stands around it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAG = rb"\([A-Za-z_][\w .=-]{0,80}? pid=\d{1,10}\) "
# vLLM's loggers.py, metrics.py, logger.py and async_llm.py; uvicorn's access lines of requests that went well.
_RECORD = (
    rb" \d\d-\d\d \d\d:\d\d:\d\d \[?[\w.]+:\d{1,7}\] ?"
    rb"(?:(?:Engine \d{1,4}: )?Avg prompt throughput: |(?:Received|Added|Finished) request )"
)
_ACCESS = rb':     [^\s"]+ - "[A-Z]{1,10} [^\s"]+ HTTP/[\d.]{1,4}" 2\d\d '
_QUIET = rb"INFO(?:" + _RECORD + rb"|" + _ACCESS + rb")"


def other_lines(content: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """The stretches of lines that are not inside a run of quiet ones: the number of the first, from 1, and all."""
    at, number = 0, 1
    is_plain = b"\r" not in content and b"\x1b" not in content
    for run in _runs(is_plain).finditer(b"\n" + content):  # so a place in it is that behind the sign before
        start, end = run.start("rest"), content.rfind(b"\n", 0, run.end() - 1) + 1  # the last line stays
        yield number, content[at:start].removesuffix(b"\n").split(b"\n")
        number += content.count(b"\n", at, end)
        at = end
    if at < len(content):
        yield number, content[at:].removesuffix(b"\n").split(b"\n")


@lru_cache(maxsize=2)
def _runs(is_plain: bool) -> re.Pattern[bytes]:
    """Three quiet lines or more of one process, which may print some of them without its tag.

    It begins before a line and ends before a line end: looking for line ends is faster than for line starts. A line
    that draws over itself or moves the cursor is not quiet; without any such, lines are passed faster.
    """
    quiet = _QUIET + (rb".*" if is_plain else rb"[^\r\x1b\n]*")
    rest = rb"(?P<rest>(?:\n(?:(?P=tag))?" + quiet + rb"){2,})(?=\n)"
    return re.compile(rb"\n(?P<tag>" + _TAG + rb"|)" + quiet + rest)
