"""Groups processes to vLLM engines: from the outermost process that is one down, and what is left of dead ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from engine_probe.hardware.processes_read import read_bytes
from engine_probe.hardware.server_titles import is_python, is_spawned, is_tracker

if TYPE_CHECKING:
    from engine_probe.hardware.processes import Process, Processes
    from engine_probe.hardware.reading import Role

Kind = Literal["server", "script", "orphan", "ray"]
_LARGEST_MAPS = 8 << 20


@dataclass
class Family:
    """One engine. `script`: a program that has vLLM in it, without a server; `ray`: workers of a server elsewhere."""

    kind: Kind
    root: Process
    members: dict[int, tuple[Role, int | None]] = field(default_factory=dict)
    """Role and rank of each process by its pid, the root's among them."""

    def has(self, role: Role) -> bool:
        return any(one == role for one, _ in self.members.values())


class Tree:
    """Remembers what it took a closer look to find out."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._has_torch: dict[tuple[int, int], bool | None] = {}

    def families(self, processes: Processes) -> list[Family]:
        """All engines of now, by the pid of their root."""
        found: dict[int, Kind] = {}
        for pid, one in processes.known.items():
            if one.part is not None and one.part.role != "helper":
                root, kind = self._root_of(one, processes)
                found.setdefault(root.stat.pid, kind)
            elif one.part is not None:
                found.setdefault(*_helpers_root(pid, one, processes))
        children = processes.children()
        families = [_family(kind, processes.known[pid], processes, children) for pid, kind in sorted(found.items())]
        self._has_torch = {key: has for key, has in self._has_torch.items() if key[0] in processes.known}
        return [one for one in _joined(families) if one.kind != "orphan" or _is_living(one, processes)]

    def _root_of(self, one: Process, processes: Processes) -> tuple[Process, Kind]:
        parents = processes.parents(one.stat.pid)
        parts = [parent for parent in parents if parent.part is not None]
        root = parts[-1] if parts else one
        assert root.part is not None
        if root.part.role == "api_server":
            is_child = "::" in (root.words or (root.stat.name,))[0]  # one of several API servers has no command
            return self._above(root, processes) if is_child else (root, "server")
        return (root, "ray") if root.part.role == "ray" else self._above(root, processes)

    def _above(self, root: Process, processes: Processes) -> tuple[Process, Kind]:
        """The script that an engine without an API server belongs to, or nobody: then it is an orphan.

        Python's multiprocessing makes every EngineCore and worker, so the parent of one that has its own is Python,
        with torch in it. Anything else has adopted it: init, or whatever reaps the orphans of a container or a probe.
        """
        parent = processes.known.get(root.stat.ppid)
        if parent is None or not is_python(parent.words, parent.stat.name):
            return root, "orphan"
        if parent.key not in self._has_torch:
            self._has_torch[parent.key] = _has_torch(self._proc, parent.stat.pid)
        if self._has_torch[parent.key] is False:
            del self._has_torch[parent.key]  # it may import it yet, unless an orphan came to it
            return root, "orphan"
        return parent, "script"


def _is_living(family: Family, processes: Processes) -> bool:
    """What has ended and only waits for its parent to take note holds nothing."""
    return any(processes.known[pid].stat.is_living for pid in family.members)


def _helpers_root(pid: int, one: Process, processes: Processes) -> tuple[int, Kind]:
    """A coordinator belongs to its server; alone it is an orphan."""
    parts = [parent for parent in processes.parents(pid) if parent.part is not None]
    return (parts[-1].stat.pid, "server") if parts else (one.stat.pid, "orphan")


def _has_torch(proc: str, pid: int) -> bool | None:
    maps = read_bytes(f"{proc}/{pid}/maps", _LARGEST_MAPS)
    return None if maps is None else b"libtorch" in maps


def _family(kind: Kind, root: Process, processes: Processes, children: dict[int, list[int]]) -> Family:
    family = Family(kind, root)
    todo: list[tuple[int, Role | None]] = [(root.stat.pid, None)]
    while todo:
        pid, above = todo.pop()
        if pid in family.members:
            continue
        one = processes.known[pid]
        role, rank = _role_of(one, root, above)
        family.members[pid] = (role, rank)
        todo += [(child, role) for child in children.get(pid, ()) if child != pid]
    return family


def _role_of(one: Process, root: Process, above: Role | None) -> tuple[Role, int | None]:
    """By its title, else by where it stands: up to 0.10 the core of an engine and its workers had no titles."""
    is_copy = above is not None and one.words == root.words  # a fork has its parent's words
    if one.part is not None and not is_copy:
        return one.part.role, one.part.rank
    if above is None:
        return "other", None
    is_worker_like = is_copy or is_spawned(one.words)
    if not is_worker_like or is_tracker(one.words):
        return "helper", None
    if above in ("api_server", "other"):
        return "engine_core", None
    return ("worker", None) if above == "engine_core" else ("helper", None)


def _joined(families: list[Family]) -> list[Family]:
    """Ray's workers with the only server that could have them, and the orphans of one dead server as one."""
    inside = {pid for family in families for pid in family.members if pid != family.root.stat.pid}
    families = [one for one in families if one.root.stat.pid not in inside]
    takers = [one for one in families if one.kind == "server" and _asks_for_ray(one.root.words)]
    kept: list[Family] = []
    orphans: dict[tuple[int, int], Family] = {}
    for family in families:
        group = (family.root.stat.group, family.root.stat.session)
        before = orphans.get(group) if family.kind == "orphan" else None
        if family.kind == "ray" and len(takers) == 1:
            takers[0].members |= family.members
        elif before is not None and _may_be_of_one_server(before, family):
            before.members |= family.members
        else:
            kept.append(family)
            if family.kind == "orphan":
                orphans[group] = family
    return _rays_as_one(kept)


def _asks_for_ray(words: tuple[str, ...]) -> bool:
    return any(word == "ray" or word.endswith("=ray") for word in words)


def _may_be_of_one_server(one: Family, other: Family) -> bool:
    """A server has no two processes of one title."""
    return one.root.words != other.root.words and bool(one.root.words)


def _rays_as_one(families: list[Family]) -> list[Family]:
    rays = [one for one in families if one.kind == "ray"]
    for other in rays[1:]:
        rays[0].members |= other.members
    return [one for one in families if one.kind != "ray" or one is rays[0]]
