"""Who holds the memory of one GPU in a state of a host: each value, or Unknown with what the state lacks for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.facts import Known, Unknown
from engine_probe.numbers import is_credible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine_probe.facts import Fact, Value

_ENGINE = re.compile(r"VLLM::|ray::\S*Worker|vllm(?!-console)|EngineCore|Worker_?[TPD]P\d", re.IGNORECASE)
"""Titles that vLLM gives its processes (utils/system_utils.py set_process_title), or its command."""


class GpuInState(NamedTuple):
    """One object of `gpus`. `servers` None: the state has no such list; `origin` names the state and the GPU."""

    gpu: Mapping[str, Any]
    servers: Sequence[Mapping[str, Any]] | None
    origin: str

    def facts(self) -> dict[str, Fact]:
        """`gpu.*` of what its processes hold."""
        return {
            "gpu.total_gib": self._known(number(self.gpu.get("total_gib")), "total_gib"),
            "gpu.free_before_launch_gib": self._known(free_gib(self.gpu), "free_gib"),
            "gpu.used_by_others_gib": self._used(),
            "gpu.neighbours_gib": self._of_neighbours(),
            **self._of_largest(),
            **self._of_orphans(),
        }

    def _known(self, value: Value | None, *keys: str) -> Fact:
        if value is None:
            return Unknown(f"{self.origin}: no {' and no '.join(keys)} is told")
        return Known(value, "measured", self.origin)

    @property
    def _processes(self) -> list[Mapping[str, Any]] | None:
        """None: nobody told which there are."""
        is_told = isinstance(self.gpu.get("processes"), list) and not self.gpu.get("processes_unavailable")
        return objects(self.gpu["processes"]) if is_told else None

    def _used(self) -> Fact:
        used, total, free = (number(self.gpu.get(key)) for key in ("used_gib", "total_gib", "free_gib"))
        if used is None and total is not None and free is not None:
            used = round(max(0.0, total - free), 2)
        if used is None and self._processes is not None:
            sizes = [number(one.get("used_gib")) for one in self._processes]
            used = None if None in sizes else round(sum(filter(None, sizes)), 2)
        return self._known(used, "used_gib", "sizes of its processes")

    def _of_neighbours(self) -> Fact:
        processes = self._processes
        if processes is None:
            return self._known(None, "processes")
        if self.servers is None and any("model" not in one for one in processes):
            return self._known(None, "servers")
        engines = {pid for server in self.servers or () for pid in pids(server)}
        mine = [one for one in processes if one.get("pid") in engines or one.get("model")]
        sizes = [number(one.get("used_gib")) for one in mine]
        if None in sizes:
            return self._known(None, "used_gib of a server's process")
        return self._known(round(sum(filter(None, sizes)), 2))

    def _of_largest(self) -> dict[str, Fact]:
        sized = [(size, one) for one in self._processes or () if (size := number(one.get("used_gib"))) is not None]
        largest = max(sized, key=lambda pair: pair[0], default=(0.0, {}))[1]
        name = largest.get("model") or largest.get("name")
        return {
            "gpu.largest_other_pid": self._known(largest.get("pid"), "pid of a process with its used_gib"),
            "gpu.largest_other_name": self._known(name, "name of a process with its used_gib"),
        }

    def _of_orphans(self) -> dict[str, Fact]:
        processes = self._processes
        if processes is None:
            return dict.fromkeys(("gpu.orphan_pid", "gpu.orphan_gib"), self._known(None, "processes"))
        judged = [(self._is_orphan(one), one) for one in processes]
        orphans = [one for is_orphan, one in judged if is_orphan]
        if orphans:
            found = max(orphans, key=lambda one: number(one.get("used_gib")) or 0.0)
            return {
                "gpu.orphan_pid": self._known(found.get("pid"), "pid of the orphan"),
                "gpu.orphan_gib": self._known(number(found.get("used_gib")), "used_gib of the orphan"),
            }
        unjudged = next((one for is_orphan, one in judged if is_orphan is None), None)
        if unjudged is not None:
            name = unjudged.get("name") or "a process"
            reason = Unknown(f"{self.origin}: nothing tells whether {name} belongs to a server (servers, is_orphan)")
            return dict.fromkeys(("gpu.orphan_pid", "gpu.orphan_gib"), reason)
        return {
            "gpu.orphan_pid": Unknown(f"{self.origin}: none of its processes is one"),
            "gpu.orphan_gib": self._known(0.0),
        }

    def _is_orphan(self, process: Mapping[str, Any]) -> bool | None:
        """As it is said of it or of its server; else an engine that is no listed server's. None: it cannot be told."""
        if isinstance(process.get("is_orphan"), bool):
            return bool(process["is_orphan"])
        pid = process.get("pid")
        of = [one for one in self.servers or () if pid is not None and pid in set(pids(one))]
        if of:
            return any(one.get("is_orphan") is True for one in of)
        if process.get("model"):
            return False
        if self.servers is None or pid is None or process.get("is_visible") is False:
            return None
        name = process.get("name")
        return isinstance(name, str) and _ENGINE.search(name) is not None


def free_gib(gpu: Mapping[str, Any]) -> float | None:
    """As told, or what the two others leave."""
    free, total, used = (number(gpu.get(key)) for key in ("free_gib", "total_gib", "used_gib"))
    if free is not None:
        return free
    return None if total is None or used is None else max(0.0, total - used)


def pids(server: Mapping[str, Any]) -> Iterator[Any]:
    """Of a server and of all its processes."""
    yield server.get("pid")
    for one in objects(server.get("processes")):
        yield one.get("pid")


def objects(value: object) -> list[Mapping[str, Any]]:
    """Those in the list, if it is one."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def number(value: object) -> float | None:
    """None: it is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and is_credible(value)
    return float(value) if is_number else None  # type: ignore[arg-type]
