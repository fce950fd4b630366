"""Process ids that a log prints: torch's list of who holds the GPU, and a list of engines put below a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.computed_host import listed_others

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Fact
    from engine_probe.logs.records import Record
    from playbooks.conditions import Lookup

_LISTED = re.compile(
    r"(?:^|[\s|])(?P<pid>\d{2,7})\s+(?:(?:\d+|C|G|C\+G|\S+:\S+|\S+)\s+){0,3}VLLM::(?:EngineCore|Worker)"
)
"""As `ps` and nvidia-smi list them. A log's own lines name a process without a number before it."""


def engines_listed(records: Iterable[Record]) -> frozenset[int]:
    """Pids of vLLM's processes in a list of processes that stands in the log."""
    lines = (line for record in records if "VLLM::" in record.message for line in record.message.split("\n"))
    return frozenset(int(found["pid"]) for line in lines if (found := _LISTED.search(line)))


def facts_of_processes(lookup: Lookup, engines: frozenset[int], origin: str) -> Mapping[str, Fact]:
    """Of torch's message: the largest other process, and an engine that holds memory and is listed on its own.

    `lookup` knows what the message captured. An engine of this load would be in torch's list as `this process`, or
    under the number that it has in the container: one that a list of the host has too was there before.
    """
    answer = lookup("processes")
    if not isinstance(answer, Known):
        return {}
    found: dict[str, Fact] = {}
    others = listed_others(lookup, engines)
    if others:
        pid, _ = max(others.items(), key=lambda pair: pair[1])
        found["gpu.largest_other_pid"] = Known(pid, "parsed", origin)
    orphans = {pid: gib for pid, gib in others.items() if pid in engines}
    if orphans:
        pid, gib = max(orphans.items(), key=lambda pair: pair[1])
        found |= {"gpu.orphan_pid": Known(pid, "parsed", origin), "gpu.orphan_gib": Known(gib, "parsed", origin)}
    return found
