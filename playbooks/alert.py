"""One thing that is wrong with what a look at the host shows, and how its rules write numbers."""

from __future__ import annotations

import errno
import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine_probe.facts import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.facts import Fact
    from engine_probe.hardware.reading import ProcessReading, Server

Severity = Literal["error", "warning"]
_DAY_SECONDS = 86_400
_REFUSED = os.strerror(errno.ECONNREFUSED)


@dataclass(frozen=True)
class Alert:
    """`text` says what is wrong with its numbers, `what_to_do` is one sentence."""

    severity: Severity
    text: str
    about: str
    """"GPU 5", "GPUs 0-3", "host", or a server's name."""
    playbook: str | None
    """The id of a playbook that knows this cause; None where there is none."""
    pid: int | None
    """The process that it is about."""
    what_to_do: str


def number(fact: Fact | None) -> float | None:
    """None for what is not known, and for what is no finite number."""
    if not isinstance(fact, Known) or isinstance(fact.value, (bool, str)):
        return None
    try:
        value = float(fact.value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def word(fact: Fact) -> str | None:
    """None for what is not known, and for what is no text."""
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, str) else None


def is_loading(server: Server) -> bool:
    """Whether its log says so, or its port refuses. Who can only be seen from outside may long be serving."""
    if server.state != "loading" or not isinstance(server.stage, Known):
        return False
    is_refused = isinstance(server.kv_use_percent, Unknown) and _REFUSED in server.kv_use_percent.reason
    return server.stage.source == "parsed" or is_refused


def resident_gib(processes: Iterable[ProcessReading]) -> float | None:
    """RAM of several together; shared pages count once where that was measured. None: of none it is known."""
    sizes = [
        size
        for one in processes
        if (size := number(one.pss_gib) if number(one.pss_gib) is not None else number(one.rss_gib)) is not None
    ]
    return sum(sizes) if sizes else None


def gib(size_gib: float) -> str:
    """A size with its unit; one below 1 GiB in MiB."""
    return f"{size_gib:.1f} GiB" if size_gib >= 1 else f"{size_gib * 1024:.0f} MiB"


def span(seconds: float) -> str:
    """Such as "45 s", "12 min" or "3 h 20 min"."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def clock(moment: float, now: float) -> str:
    """Local time of day; with the date where that is more than a day ago."""
    form = "%H:%M" if abs(now - moment) < _DAY_SECONDS else "%Y-%m-%d %H:%M"
    try:
        return time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):  # no moment that a clock could show
        return "at an unknown time"


def gpu_names(gpus: Iterable[int]) -> str:
    """Such as "GPU 5" or "GPUs 0-3, 6"."""
    runs: list[list[int]] = []
    for index in sorted(set(gpus)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"GPU{'s' if len(runs) > 1 or len(runs[0]) > 1 else ''} {', '.join(parts)}" if runs else "no GPU"
