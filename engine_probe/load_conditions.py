"""What a load's processes live under that no argument or variable says: a cgroup, limits, a disk of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Tmpfs(NamedTuple):
    """A file system in memory that only the load sees."""

    at: str
    size_bytes: int
    read_only: bool = False


@dataclass(frozen=True)
class LoadConditions:
    """Taken on by the load's first process before it begins (engine_probe/child/conditions.py); all inherit them."""

    cgroups: tuple[str, ...] = ()
    """Files `cgroup.procs` that the process writes its id into."""
    rlimits: Mapping[str, int] = field(default_factory=dict)
    """By name without `RLIMIT_`, soft limits."""
    tmpfs: tuple[Tmpfs, ...] = ()
    port_stays: bool = False
    """A taken port is not replaced: vLLM is to say so itself."""

    def __or__(self, other: LoadConditions) -> LoadConditions:
        return LoadConditions(
            self.cgroups + other.cgroups,
            {**self.rlimits, **other.rlimits},
            self.tmpfs + other.tmpfs,
            self.port_stays or other.port_stays,
        )

    def order(self) -> dict[str, Any]:
        """As the child takes it."""
        return {
            "cgroups": list(self.cgroups),
            "rlimits": dict(self.rlimits),
            "tmpfs": [list(one) for one in self.tmpfs],
            "port_stays": self.port_stays,
        }
