"""What the console needs from outside, as small types: a case that runs, a host that is watched, an engine.

The app is given one `Backend`; tests give it one of their own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.events import Event
    from engine_probe.hardware.reading import Reading
    from engine_probe.run_log import RunLog
    from playbooks.alert import Alert
    from playbooks.decisions import Decision
    from playbooks.session import Proof, Session


LAB_CASE = "kv-cache-too-small-for-max-model-len"


class CannotOpenError(Exception):
    """A deployment or an engine that cannot be used; the text says what, where and what is allowed."""


@dataclass(frozen=True)
class Opening:
    """Which case to open: of a deployment, from logs, both, or one gone on with; the lab's where nothing is named."""

    deployment: Path | None = None
    logs: tuple[str, ...] = ()
    """As `vllm-console diagnose` takes them."""
    file_sources: tuple[str, ...] = ()
    """Folders that may hold whole files of its models."""
    fault: str | None = None
    """Of the lab."""
    resume: str | None = None
    """A case's name; empty for the newest that was cut off."""
    host_state: Path | None = None
    here: bool = False
    """The logs are of this host: how it is now is looked at."""
    proof: Proof | None = None
    """How a fix is proved; None: as usual."""


class CaseRun(Protocol):
    """One case: its first session, and the way to drive it to its end."""

    @property
    def session(self) -> Session: ...

    @property
    def log(self) -> RunLog:
        """All that its loads print. `drive` opens it; whoever shows the case closes it."""
        ...

    @property
    def holders(self) -> tuple[str, ...]:
        """Other people's processes on the GPUs of the first load, in words: with one, a person has to say yes."""
        ...

    @property
    def begins_with(self) -> Decision | None:
        """What a person has decided by opening it; None where it goes on by itself."""
        ...

    @property
    def temporary(self) -> bool:
        """Whether the deployment's files are made for this case and go with it."""
        ...

    async def drive(
        self, decisions: asyncio.Queue[Decision], on_change: Callable[[Session, Event | None], None]
    ) -> Session:
        """Ends when the case has; what it started is gone by then, also when it is cancelled."""
        ...


@dataclass(frozen=True)
class EngineView:
    """The engine in words. `missing` says why there is none, None when there is one."""

    version: str | None = None
    where: str = ""
    missing: str | None = None


class Watch(Protocol):
    """Looks at this host again and again, in one thread."""

    def sample(self) -> None:
        """GPU memory alone, so that no peak is missed between two readings."""

    def read(self) -> Reading: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Backend:
    """`open_case` raises CannotOpenError. All but `clock` run in a thread."""

    open_case: Callable[[Opening], CaseRun]
    watch: Callable[[], Watch]
    find_alerts: Callable[[Reading, Reading | None], tuple[Alert, ...]]
    """What is wrong with a reading; the other one is older."""
    find_engine: Callable[[], EngineView]
    clock: Callable[[], float]
    exports: Path
    """Where copies go when no clipboard is sure."""
    cpu_seconds: Callable[[], float] = time.process_time
    """What this console has cost so far."""

    @property
    def state(self) -> Path:
        """Where cases are kept."""
        return self.exports.parent


@dataclass
class Inbox:
    """Between the driver and the screen: newer replaces older, the driver never waits."""

    session: Session | None = None
    last_events: dict[str, Event] = field(default_factory=dict)
    """The newest event of each kind that is no line of the log."""

    def put(self, session: Session, event: Event | None) -> bool:
        """True when the inbox was empty: then, and only then, the screen has to be told."""
        was_empty = self.session is None
        self.session = session
        if event is not None and event.event not in ("text", "log_record"):
            self.last_events[event.event] = event
        return was_empty

    def take(self) -> Inbox:
        """Everything that came, leaving the inbox empty."""
        taken = Inbox(self.session, self.last_events)
        self.session, self.last_events = None, {}
        return taken
