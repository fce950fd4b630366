"""One server over time: what it was started with, what its log and its /metrics have told, and so its stage."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.beside import Beside
from engine_probe.hardware.metrics import ServerMetrics
from engine_probe.hardware.metrics_ask import Address, Answer, ask
from engine_probe.hardware.ports import listens
from engine_probe.hardware.server_log_start import moment_of

if TYPE_CHECKING:
    from engine_probe.hardware.reading import State
    from engine_probe.hardware.server_launch import Started
    from engine_probe.hardware.server_outputs import Output
    from engine_probe.hardware.server_port import Owner
    from engine_probe.hardware.server_tree import Family

_OK = 200
_LONG_SECONDS = 2.0
_EVERY_SECONDS = 0.9
_FRESH_SECONDS = 3.0
"""A server that was started so shortly before it was first seen has come to its stage since then."""
_LOADED_GIB = 1.0
"""More than a CUDA context and its libraries: then weights are there."""


@dataclass
class Followed:
    """`started` None: no command line tells it, as for an orphan that was never seen with its server."""

    key: tuple[int, int]
    proc: str
    output: Output
    started: Started | None = None
    env: dict[str, str] | None = None
    container: str | None = None
    address: Address | Unknown = field(default_factory=lambda: Unknown("it is no server"))
    has_own_network: bool = False
    """127.0.0.1 is another machine to it: what answers there must prove by its model's name that it is this server."""
    port_owner: Owner | None = None
    """Another server that has its port."""
    is_adopted: bool = False
    """What is known is of the server that this is left of."""
    stage: Fact = field(default_factory=lambda: Unknown("it was not looked at yet"))
    stage_since: float | None = None
    stage_seen_late: bool = False
    state: State | None = None
    state_since: float | None = None
    """None: it was in that state when it was first seen."""
    _asked_at: float = -_EVERY_SECONDS
    _asker: Beside[Answer] | None = None
    _has_served: bool = False
    _has_held: bool = False

    def adopt(self, before: Followed, *, may_answer: bool) -> None:
        """This is what is left of `before`. Where one of several API servers is left, it goes on to answer."""
        self.is_adopted = True
        self.started, self.env = before.started, before.env
        self.stage, self.stage_since = before.stage, before.stage_since
        self.state, self.stage_seen_late = before.state, before.stage_seen_late
        if may_answer:
            self.address, self.has_own_network = before.address, before.has_own_network

    def ask(self) -> None:
        """Have /metrics asked for, beside the reading: each time is a line in the server's access log."""
        if isinstance(self.address, Address) and time.monotonic() - self._asked_at >= _EVERY_SECONDS:
            self._asked_at = time.monotonic()
            address = self.address
            if self._asker is None:
                self._asker = Beside(lambda: ask(address), "metrics")
            self._asker.ask()

    def wait(self, seconds: float) -> None:
        if self._asker is not None:
            self._asker.wait(seconds)

    @property
    def seconds(self) -> float:
        """CPU time that asking has cost so far."""
        return self._asker.seconds if self._asker is not None else 0.0

    def close(self) -> None:
        if self._asker is not None:
            self._asker.close()

    def metrics(self) -> ServerMetrics | Unknown:
        """The last answer, if it is of this server and not old."""
        if isinstance(self.address, Unknown):
            return self.address
        if self.port_owner is not None:
            return Unknown(f"port {self.address.port} is that of {self.port_owner.words}")
        if self._asker is None or self._asker.result is None:
            return Unknown("it was not asked yet")
        if self._asker.waiting_seconds > _LONG_SECONDS:
            return Unknown(f"{self.address.origin} did not answer for {self._asker.waiting_seconds:.0f} s")
        found = self._asker.result.metrics
        why_not = self._why_not_this(found)
        return Unknown(why_not) if why_not else found

    def _why_not_this(self, found: ServerMetrics | Unknown) -> str | None:
        """Why what answered is another server than this one; None: nothing speaks against it."""
        origin = self.address.origin if isinstance(self.address, Address) else "its port"
        name = self.started.name if self.started is not None else ""
        models = frozenset() if isinstance(found, Unknown) else found.models
        if name and name in models:
            return None
        if self.has_own_network:
            where = self.container or "another namespace"
            return f"it runs in a network of its own ({where}), and nothing on {origin} is known to be it"
        if models and name:
            return f"{origin} is answered by another server, of {', '.join(sorted(models))}"
        return None

    def _answers(self, family: Family) -> bool:
        """Whether it is this server that answers on its port: then loading is over.

        Its model's name proves it; where that is not said (--disable-log-stats), whose socket it is.
        """
        if self._asker is None or self._asker.result is None or self.port_owner is not None:
            return False
        found, status = self._asker.result.metrics, self._asker.result.status
        if status is None or self._why_not_this(found) is not None or not isinstance(self.address, Address):
            return False
        if isinstance(found, ServerMetrics) and found.models:
            return True
        servers = [pid for pid, (role, _) in family.members.items() if role == "api_server"]
        seen = [listens(self.proc, pid, self.address.port) for pid in servers]
        return True in seen or (None in seen and status == _OK)

    def settle(self, family: Family, gpu_gib: float, now: float) -> State:
        """The state of now; also brings `stage` up to date."""
        self._has_served = self._has_served or self._answers(family)
        self._has_held |= gpu_gib > _LOADED_GIB
        stage = self._stage_of(family)
        if isinstance(stage, Known) and (isinstance(self.stage, Unknown) or self.stage.value != stage.value):
            self._enter(stage, family.root.started, now)
        self.stage = stage
        state = self._state_of(family)
        if self.state is not None and self.state != state:
            self.state_since = now
        self.state = state
        return state

    def _enter(self, stage: Known, started: float | None, now: float) -> None:
        """A console that is opened later counts from the same moment, where the log tells which."""
        load = self.output.load
        told = moment_of(load.stage_time, started, now) if stage is load.stage else None
        self.stage_since = now if told is None else told
        is_first = isinstance(self.stage, Unknown)
        self.stage_seen_late = told is None and is_first and (started is None or now - started > _FRESH_SECONDS)

    def _state_of(self, family: Family) -> State:
        if family.kind == "orphan":
            return "orphan"
        if not family.root.stat.is_living or self.output.load.is_ending:
            return "ending"
        if self.output.load.failure.told() is not None:
            return "failed"
        if family.kind in ("script", "ray"):
            return "unknown"
        return "serving" if isinstance(self.stage, Known) and self.stage.value == "serving" else "loading"

    def _stage_of(self, family: Family) -> Fact:
        told = self.output.load.stage
        if family.kind == "ray":
            return Unknown("its workers are Ray's, and the server that they belong to is not on this host")
        if family.kind == "orphan":
            return told or (self.stage if self.is_adopted else Unknown("the server that it belonged to is gone"))
        if self.output.load.is_up and told is not None:
            return told
        if self._has_served:
            return Known("serving", "computed", "it answers on its port")
        return told or self._computed(family)

    def _computed(self, family: Family) -> Known:
        if self._has_held:
            return Known("weight_load", "computed", "it holds memory on a GPU and does not answer yet")
        if family.has("worker") or family.has("ray"):
            return Known("worker_start", "computed", "its workers are there and hold no memory yet")
        if family.has("engine_core"):
            return Known("engine_build", "computed", "its EngineCore is there and has no workers yet")
        return Known("config", "computed", "there is only the API server")
