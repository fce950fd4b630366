"""The engine behind the console: found, and cases driven on it. Imported when the first is wanted: it is not small."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.deployment import read_deployment
from engine_probe.engine import Engine, EngineError
from engine_probe.engines import choose_engine, engine_for
from engine_probe.errors import InputError
from engine_probe.locations import find_locations
from engine_probe.preflight import look_at
from engine_probe.run_log import RunLog
from playbooks.context import Context, new_session, read_context
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.unverified import take_back
from tui.commands.consent import holders_in_words
from tui.commands.replay_run import run_session
from tui.running import LAB_CASE, CannotOpenError, EngineView
from tui.screens.leaving import short_path

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from engine_probe.events import Event
    from engine_probe.launch import Deployment
    from playbooks.decisions import Decision
    from playbooks.session import Session


@dataclass(frozen=True)
class EngineCase:
    """A case on a real engine. `folder` is the lab's own and goes with the case; None for a person's own files."""

    deployment: Deployment
    engine: Engine
    grade: str
    context: Context
    folder: tempfile.TemporaryDirectory[str] | None = None
    holders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was found of an earlier case that was cut off."""
    log: RunLog = field(default_factory=RunLog)

    @property
    def session(self) -> Session:
        return new_session("", self.deployment, self.grade, self.grade)

    @property
    def temporary(self) -> bool:
        return self.folder is not None

    @property
    def _own_folder(self) -> Path | None:
        return Path(self.folder.name) if self.folder is not None else None

    async def drive(
        self, decisions: asyncio.Queue[Decision], on_change: Callable[[Session, Event | None], None]
    ) -> Session:
        try:
            return await run_session(
                self.deployment,
                self.engine,
                self.grade,
                decisions,
                on_change,
                self.context,
                owns=self._own_folder,
                log=self.log,
                notes=self.notes,
            )
        finally:
            if self.folder is not None:
                self.folder.cleanup()


def open_case(path: Path | None, engine: str | None, grade: str) -> EngineCase:
    """The deployment at `path`, or the lab's case. Raises CannotOpenError with the whole message."""
    folder = None if path is not None else tempfile.TemporaryDirectory(prefix="vllm-console-lab-")
    try:
        context = read_context()
        if folder is not None:
            path = build_fault(fault_named(LAB_CASE), Path(folder.name))
        assert path is not None
        notes = () if folder is not None else take_back(find_locations().state, path)
        deployment = read_deployment(path)
        chosen = engine_for(engine, deployment)
        holders = holders_in_words(look_at(deployment, chosen))
        return EngineCase(deployment, chosen, grade, context, folder, holders, notes)
    except (InputError, EngineError, OSError) as error:
        if folder is not None:
            folder.cleanup()
        raise CannotOpenError(str(error)) from error


def find_engine(name: str | None) -> EngineView:
    """Where the engine is; its version is told when it runs, because asking means importing vLLM."""
    try:
        engine = choose_engine(name)
    except (InputError, EngineError) as error:
        return EngineView(missing=str(error))
    by = engine.found_by
    return EngineView(where=f"{short_path(engine.label)}, from {'a ' if by.startswith('running ') else ''}{by}")
