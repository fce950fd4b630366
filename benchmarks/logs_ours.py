"""Our part of `logs.py`, in a process of its own: open, first lines, index, filter, search; prints seconds as JSON.

The longest step is what a key would have to wait at most, were one step done between two looks at the keys.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.logs.index import LogIndex

PATTERNS = {"text": "KV cache size", "pattern": r"Running: 1\d\d reqs", "slow pattern": r"(?:.*,){2}#"}
_SLOW_SECONDS = 2.0
"""A search that takes for ever is watched for so long."""


class Steps(Protocol):
    def advance(self) -> bool: ...


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def stepped(steps: Steps, most_seconds: float = 3600.0) -> tuple[float, float]:
    """Seconds altogether, and of the longest step."""
    began, longest, is_done = time.perf_counter(), 0.0, False
    while not is_done and time.perf_counter() - began < most_seconds:
        start = time.perf_counter()
        is_done = steps.advance()
        longest = max(longest, time.perf_counter() - start)
    return time.perf_counter() - began, longest


def main(path: Path) -> None:
    began = time.perf_counter()
    from engine_probe.logs.index import open_log  # noqa: PLC0415 -- its import is part of the time

    log = open_log(path)
    log.tail(50)
    result = {"first paint": time.perf_counter() - began}
    _, result["longest step: index"] = stepped(log)
    result["indexed"] = time.perf_counter() - began
    used = os.times()
    result["indexed: CPU with helpers"] = used.user + used.system + used.children_user + used.children_system
    print(json.dumps({"lines": log.line_count, **result, **filters(log), **searches(log), **jumps(log)}))


def filters(log: LogIndex) -> dict[str, float]:
    from engine_probe.logs.index_time import Bound, Span  # noqa: PLC0415
    from engine_probe.logs.index_wanted import Wanted  # noqa: PLC0415

    errors = frozenset({"ERROR", "CRITICAL"})
    middle = log.lines(log.line_count // 2, log.line_count // 2 + 1)[0].text
    stamp = re.search(r"\d\d-\d\d \d\d:\d\d:\d\d", middle)
    every = frozenset({"INFO", "ERROR"}), frozenset({"frontend", "engine"}), frozenset({"serving"})
    wanted = {
        "level": Wanted(levels=errors),
        "layer, stage": Wanted(layers=frozenset({"engine"}), stages=frozenset({"memory_planning", "serving"})),
        "all columns": Wanted(*every, processes=frozenset({"API", "Engine"})),
        "time": Wanted(span=Span(since=Bound(stamp[0].encode())) if stamp else Span()),
    }
    result = {}
    for name, one in wanted.items():
        filtering = log.filtering(one)
        result[f"filter: {name}"], result[f"longest step: filter: {name}"] = stepped(filtering)
        result[f"longest step: selection: {name}"] = timed(filtering.selection)
    return result


def searches(log: LogIndex) -> dict[str, float]:
    from engine_probe.logs.index_search import compile_pattern  # noqa: PLC0415
    from engine_probe.logs.index_wanted import Wanted  # noqa: PLC0415

    shown = log.filter(Wanted(levels=frozenset({"INFO"}), layers=frozenset({"frontend"})))
    result = {}
    for name, text in PATTERNS.items():
        search = log.search(compile_pattern(text))
        seconds, result[f"longest step: search: {name}"] = stepped(search, _SLOW_SECONDS if "slow" in name else 3600.0)
        if "slow" not in name:
            result[f"search: {name}"] = seconds
        result[f"longest step: matches: {name}"] = timed(lambda: search.selection() & shown)  # noqa: B023
    return result


def jumps(log: LogIndex) -> dict[str, float]:
    last = log.line_count - 1
    first_error = log.next_error(0) or 0
    return {
        "longest step: next error": max(timed(partial(log.next_error, line)) for line in (0, last)),
        "longest step: last error": max(timed(partial(log.last_error, line)) for line in (last, first_error)),
        "longest step: stage changes": timed(log.stage_changes),
        "longest step: models": timed(log.models),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
