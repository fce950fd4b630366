"""Our part of `logs.py`, in a process of its own: open, first lines, index, filter, search; prints seconds as JSON.

One step is done between two looks at the keys: the longest is what a key waits at most.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.logs.index import LogIndex

PATTERNS = {"text": "KV cache size", "pattern": r"Running: 1\d\d reqs", "slow pattern": r".*.*#"}
_SLOW_SECONDS = 2.0
"""A search that takes for ever is watched for so long."""


class Steps(Protocol):
    def advance(self) -> bool: ...


class Longest(dict[str, float]):
    """The longest step of each kind: as a key would wait, and in CPU time, which other processes change little."""

    def time(self, kind: str, call: Callable[[], Any]) -> Any:
        began, began_cpu = time.perf_counter(), time.thread_time()
        result = call()
        found = {"": time.perf_counter() - began, ", CPU": time.thread_time() - began_cpu}
        for unit, seconds in found.items():
            name = f"longest step{unit}: {kind}"
            self[name] = max(self.get(name, 0.0), seconds)
        return result

    def finish(self, kind: str, steps: Steps, most_seconds: float = 3600.0) -> float:
        """Seconds of all steps together."""
        began = time.perf_counter()
        while not self.time(kind, steps.advance) and time.perf_counter() - began < most_seconds:
            pass
        return time.perf_counter() - began


def main(path: Path) -> None:
    began = time.perf_counter()
    from engine_probe.logs.index import open_log  # noqa: PLC0415 -- its import is part of the time

    log = open_log(path)
    log.tail(50)
    result = {"first paint": time.perf_counter() - began}
    longest = Longest()
    longest.finish("index", log)
    result["indexed"] = time.perf_counter() - began
    used = os.times()
    result["indexed: CPU with helpers"] = used.user + used.system + used.children_user + used.children_system
    result |= filters(log, longest) | searches(log, longest)
    jumps(log, longest)
    print(json.dumps({"lines": log.line_count, **result, **longest}))


def filters(log: LogIndex, longest: Longest) -> dict[str, float]:
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
        result[f"filter: {name}"] = longest.finish("filter", filtering)
        longest.time("selection", filtering.selection)
    return result


def searches(log: LogIndex, longest: Longest) -> dict[str, float]:
    from engine_probe.logs.index_search import compile_pattern  # noqa: PLC0415
    from engine_probe.logs.index_wanted import Wanted  # noqa: PLC0415

    shown = log.filter(Wanted(levels=frozenset({"INFO"}), layers=frozenset({"frontend"})))
    result = {}
    for name, text in PATTERNS.items():
        search = log.search(compile_pattern(text))
        if name == "slow pattern":
            longest.finish(f"search: {name}", search, _SLOW_SECONDS)
        else:
            result[f"search: {name}"] = longest.finish("search", search)
        longest.time("matches among wanted", lambda: search.selection() & shown)  # noqa: B023
    return result


def jumps(log: LogIndex, longest: Longest) -> None:
    last = log.line_count - 1
    first_error = log.next_error(0) or 0
    for line in (0, first_error, last):
        longest.time("next error", partial(log.next_error, line))
        longest.time("last error", partial(log.last_error, line))
    longest.time("stage changes", log.stage_changes)
    longest.time("models", log.models)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
