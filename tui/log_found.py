"""Where the search of a log is, as it is said beside it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """Where a search is: `at` counts from 1, 0 while none of the matches is the marked line."""

    text: str
    count: int = 0
    at: int = 0
    is_complete: bool = False
