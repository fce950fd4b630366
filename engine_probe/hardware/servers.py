"""The vLLM engines of this host, found by their processes, in whatever stage they are.

One `ServerWatch` is read again and again, by one thread: what it found out about a process it does not ask twice.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.hardware.metrics_ask import Address, address_of
from engine_probe.hardware.processes import Process, Processes
from engine_probe.hardware.processes_read import namespace_pid, read_environ
from engine_probe.hardware.processes_told import Teller, invisible
from engine_probe.hardware.server_followed import Followed
from engine_probe.hardware.server_launch import started_with
from engine_probe.hardware.server_outputs import Output, Outputs
from engine_probe.hardware.server_port import PortOwners
from engine_probe.hardware.server_told import Surroundings, server_of
from engine_probe.hardware.server_tree import Family, Tree
from engine_probe.hardware.server_where import container_of, has_own_network, hidden_holdings, holdings, mark_ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.hardware.gpus import GpuState
    from engine_probe.hardware.reading import ProcessReading, Server
    from engine_probe.hardware.server_where import Holding

_LOG_SECONDS = 0.004
_FIRST_LOG_SECONDS = 0.25
"""The first reading is to tell the stages, too."""
_LOOK_AGAIN_SECONDS = 30.0


class ServerWatch:
    """`root` is another tree with `proc` in tests. `read` never raises for what processes, files or servers do."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")
        self._proc = f"{self._root}/proc"
        self._processes = Processes(self._proc)
        self._tree = Tree(self._proc)
        self._outputs = Outputs(self._proc)
        self._teller = Teller(self._proc)
        self._owners = PortOwners(self._proc)
        self._followed: dict[tuple[int, int], Followed] = {}
        self._server_of: dict[tuple[int, int], Followed] = {}
        self._names: dict[tuple[int, int], int] = {}
        self._watched: set[int] = set()
        self._is_first = True
        self._looked_at = 0.0
        self._gone_seconds = 0.0

    @property
    def seconds(self) -> float:
        """CPU time of the threads beside the one that reads."""
        return self._gone_seconds + sum(one.seconds for one in self._followed.values())

    def read(self, gpus: GpuState, now: float) -> tuple[tuple[Server, ...], tuple[ProcessReading, ...]]:
        """`now` in seconds since the epoch."""
        held = holdings(gpus)
        self._processes.look(now, self._watched | held.keys())
        families = self._tree.families(self._processes)
        for family in families:
            self._follow(family)
        self._forget(families)
        self._look_again(now)
        self._outputs.feed(
            [one.output for one in self._followed.values()], _FIRST_LOG_SECONDS if self._is_first else _LOG_SECONDS
        )
        self._ask(families)
        servers = tuple(self._server(one, gpus, held, now) for one in families)
        self._is_first = False
        return servers, self._tell(families, gpus, held, now)

    def with_ending(self, gpus: GpuState) -> GpuState:
        """The same, of which processes that were here a moment ago are known to be ending. After `read`."""
        return mark_ended(gpus, self._processes.ended)

    def wait(self, seconds: float) -> None:
        """Until all servers that were asked have answered, for at most so long."""
        until = time.monotonic() + seconds
        for one in self._followed.values():
            one.wait(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        for one in self._followed.values():
            one.close()
        self._outputs.close()

    def _follow(self, family: Family) -> None:
        root = family.root
        followed = self._followed.get(root.key)
        if followed is None:
            followed = self._followed[root.key] = self._begin(family)
        members = [self._processes.known[pid] for pid in family.members]
        for one in members:
            self._server_of[one.key] = followed
            if one.key not in self._names:
                self._names[one.key] = namespace_pid(self._proc, one.stat.pid)
        followed.output.pids = frozenset(self._names[one.key] for one in members)

    def _begin(self, family: Family) -> Followed:
        root = family.root
        pid = root.stat.pid
        before = self._server_of.get(root.key)
        container = container_of(self._proc, pid)
        output = Output(pid, started=root.started)
        output.container_log = container.log(self._root) if container is not None else None
        if before is not None:
            output.load = replace(before.output.load)
        self._outputs.open(output)
        followed = Followed(root.key, self._proc, output, container=container.name if container is not None else None)
        if before is not None:
            followed.adopt(before, may_answer=family.has("api_server"))
        elif family.kind == "server" and root.words:
            followed.env = read_environ(self._proc, pid)
            followed.started = started_with(root.words, followed.env)
            followed.has_own_network = has_own_network(self._proc, pid)
            followed.address = address_of(followed.started)
        return followed

    def _forget(self, families: list[Family]) -> None:
        keys = {family.root.key for family in families}
        for key in self._followed.keys() - keys:
            gone = self._followed.pop(key)
            self._gone_seconds += gone.seconds
            gone.close()
        living = {one.key for one in self._processes.known.values()}
        self._server_of = {key: one for key, one in self._server_of.items() if key in living}
        self._names = {key: name for key, name in self._names.items() if key in living}

    def _look_again(self, now: float) -> None:
        """Where there was no log there may be one: who starts a server may change where it prints before it does."""
        if now - self._looked_at < _LOOK_AGAIN_SECONDS:
            return
        self._looked_at = now
        for one in self._followed.values():
            if not one.output.files:
                self._outputs.open(one.output)

    def _ask(self, families: list[Family]) -> None:
        """Of several servers that claim one port only that which listens on it has it."""
        claims: dict[tuple[str, int], list[Family]] = {}
        for family in sorted(families, key=lambda one: one.root.stat.start_ticks):
            one = self._followed[family.root.key]
            may_answer = family.kind == "server" or (family.kind == "orphan" and family.has("api_server"))
            if not may_answer or not isinstance(one.address, Address):
                continue
            if one.has_own_network:  # its port may be published under this number here, or another's may be
                one.ask()
            else:
                claims.setdefault((one.address.host, one.address.port), []).append(family)
        for (_, port), claiming in claims.items():
            owner = self._owners.of(port, claiming)
            for family in claiming:
                one = self._followed[family.root.key]
                one.port_owner = None if family is owner.family else owner
                if family is owner.family:
                    one.ask()

    def _server(self, family: Family, gpus: GpuState, held: Mapping[int, tuple[Holding, ...]], now: float) -> Server:
        names = {pid: self._names[self._processes.known[pid].key] for pid in family.members}
        title = self._teller.title(family.root)
        return server_of(family, self._followed[family.root.key], Surroundings(gpus, held, names, title), now)

    def _tell(
        self, families: list[Family], gpus: GpuState, held: Mapping[int, tuple[Holding, ...]], now: float
    ) -> tuple[ProcessReading, ...]:
        known = self._processes.known
        members = {pid: (family, *family.members[pid]) for family in families for pid in family.members}
        self._watched = set(members)
        others = [pid for pid in held if pid not in members and pid in known]
        shown: list[Process] = [known[pid] for pid in (*members, *others)]
        self._teller.closely.look(shown, now)
        self._teller.forget_all_but({one.key for one in shown})
        rows = [
            self._teller.tell(known[pid], role, rank, family.root.stat.pid, held.get(pid, ()))
            for pid, (family, role, rank) in members.items()
        ]
        rows += [self._teller.tell(known[pid], "other", None, None, held[pid]) for pid in others]
        ended = self._processes.ended
        hidden = hidden_holdings(gpus, known).items()
        return (*rows, *(invisible(pid, parts, has_ended=pid in ended) for pid, parts in hidden))
