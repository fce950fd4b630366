"""A case that begins from logs: nothing is loaded to see what is wrong; a fix is, where there is what to load."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine_probe.deployment import read_deployment
from engine_probe.engine import EngineError
from engine_probe.engines import engine_for
from engine_probe.errors import InputError
from engine_probe.launch import Deployment, Launch
from engine_probe.logs.sources import parse_source
from engine_probe.preflight import check_model_folder, look_at
from engine_probe.run_log import NAME as LOG_NAME
from engine_probe.run_log import RunLog
from engine_probe.supervisor import Probe
from playbooks.context import new_session
from playbooks.decisions import BeginFromLog
from playbooks.evidence import Evidence
from playbooks.evidence_host import HostState, read_host_state
from playbooks.no_probe import NoProbe
from playbooks.replay import drive
from playbooks.start import facts_before
from tui.commands.consent import holders_in_words
from tui.commands.replay_run import kept_case

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from engine_probe.engine import Engine
    from engine_probe.events import Event
    from engine_probe.facts import Fact
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.replay import ProbeLike
    from playbooks.session import Session
    from tui.running import Opening

_NOT_READ = "not known yet"
_OF_FILES = ("model.", "files.", "weights.on_disk")


@dataclass(frozen=True)
class LogCase:
    """`engine` None: `no_loads` says why nothing can be loaded."""

    opening: Opening
    deployment: Deployment
    engine: Engine | None
    no_loads: str | None
    grades: tuple[str, str]
    """Of loads, and of a fix that is verified."""
    context: Context
    given: Evidence
    holders: tuple[str, ...] = ()
    log: RunLog = field(default_factory=RunLog)
    temporary = False

    @property
    def session(self) -> Session:
        session = new_session("", self.deployment, *self.grades)
        return replace(
            session,
            log_sources=self.opening.logs,
            no_loads=self.no_loads,
            file_sources=self.opening.file_sources,
            proof=self.opening.proof or session.proof,
        )

    @property
    def begins_with(self) -> Decision:
        return BeginFromLog(self.opening.logs)

    async def drive(
        self, decisions: asyncio.Queue[Decision], on_change: Callable[[Session, Event | None], None]
    ) -> Session:
        case, why_not = kept_case()
        session = replace(
            self.session,
            case=case.name if case else "",
            case_folder=str(case.path) if case else None,
            facts=self._facts(),
            notes=(*self.context.left_out, *why_not),
        )
        self.log.open(case.path / LOG_NAME) if case else self.log.open_privately()
        async with AsyncExitStack() as stack:
            probe: ProbeLike = NoProbe()
            if self.engine is not None:
                try:
                    probe = await stack.enter_async_context(Probe(self.engine))
                except OSError as error:
                    session = replace(session, no_loads=f"{self.engine.label} cannot be started: {error}")
            return await drive(
                session, probe, decisions, on_change, context=self.context, case=case, log=self.log, given=self.given
            )

    def _facts(self) -> dict[str, Fact]:
        """Of the model's files. How the host is now says nothing of how it was, unless a person says that it does."""
        if self.deployment.path is None:
            return {}
        facts = facts_before(self.deployment, self.engine is None or self.engine.is_local)
        return {name: fact for name, fact in facts.items() if name.startswith(_OF_FILES)}


def open_logs(opening: Opening, engine_name: str | None, grades: tuple[str, str], context: Context) -> LogCase:
    """Raises InputError where the deployment or the host's state cannot be read; an engine may be missing."""
    for word in opening.logs:
        if parse_source(word).kind == "stdin":
            raise InputError("-: the console needs the terminal; pipe the log into `vllm-console diagnose`")
    given = Evidence(host_state=_host_state(opening))
    if opening.deployment is None:
        placeholder = Deployment((Launch(_NOT_READ, _NOT_READ),))
        return LogCase(opening, placeholder, None, None, grades, context, given)
    deployment = read_deployment(opening.deployment)
    try:
        engine = engine_for(engine_name, deployment)
        for launch in deployment.models:
            check_model_folder(launch, engine)
        holders = holders_in_words(look_at(deployment, engine))
    except (InputError, EngineError, OSError) as error:
        why = str(error).splitlines()[0]
        return LogCase(opening, deployment, None, why, grades, context, given)
    return LogCase(opening, deployment, engine, None, grades, context, given, holders)


def _host_state(opening: Opening) -> HostState | None:
    if opening.host_state is not None:
        return read_host_state(opening.host_state)
    return look_here() if opening.here else None


def look_here() -> HostState:
    """This host as it is now."""
    from engine_probe.hardware.watch import look_once  # noqa: PLC0415 -- most logs are of another host
    from playbooks.monitor_json import as_object  # noqa: PLC0415 -- as above

    return HostState(as_object(look_once(), ()), "this host, now")
