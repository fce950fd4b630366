"""The engine behind the console: found, and cases driven on it. Imported when the first is wanted: it is not small."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.deployment import read_deployment
from engine_probe.engine import Engine, EngineError
from engine_probe.engines import choose_engine, engine_for
from engine_probe.errors import InputError, in_words
from engine_probe.locations import find_locations
from engine_probe.preflight import look_at
from engine_probe.run_log import RunLog
from playbooks.context import Context, new_session, read_context
from playbooks.cut_off import cut_off
from playbooks.decisions import Begin
from playbooks.fingerprints import fingerprints
from playbooks.lab.building import build_fault, whole_sources
from playbooks.lab.faults import fault_named
from playbooks.lab.unmade import CannotMake
from playbooks.resuming import resumable_case, unfinished
from playbooks.session import Proof
from playbooks.unverified import take_back
from playbooks.writing_lock import take
from tui.commands.consent import holders_in_words
from tui.commands.replay_run import run_session
from tui.log_case import open_logs
from tui.running import LAB_CASE, CannotOpenError, EngineView
from tui.screens.leaving import short_path

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from engine_probe.events import Event
    from engine_probe.launch import Deployment
    from playbooks.decisions import Decision
    from playbooks.replay import ProbeLike
    from playbooks.resuming import Resumable
    from playbooks.session import Session
    from tui.running import CaseRun, Opening


_LAB_PROOF = Proof(concurrent=4, burst_seconds=1.0)
"""As in the lab: enough to see that the load test works."""


@dataclass(frozen=True)
class EngineCase:
    """A case on a real engine. `folder` is the lab's own and goes with the case; None for a person's own files."""

    deployment: Deployment
    engine: Engine
    grades: tuple[str, str]
    """Of loads, and of a fix that is verified."""
    context: Context
    folder: tempfile.TemporaryDirectory[str] | None = None
    holders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was found of an earlier case that was cut off."""
    file_sources: tuple[str, ...] = ()
    """Folders that hold whole files of its models."""
    proof: Proof = field(default_factory=Proof)
    probe: ProbeLike | None = None
    """None: one of its own."""
    resume: Resumable | None = None
    """A case that was cut off, and goes on."""
    log: RunLog = field(default_factory=RunLog)

    @property
    def session(self) -> Session:
        if self.resume is not None and self.resume.session is not None:
            return self.resume.session
        return new_session("", self.deployment, *self.grades)

    @property
    def begins_with(self) -> Decision | None:
        goes_on = self.resume is not None and self.resume.session is not None
        return None if goes_on else Begin()

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
                self.grades[0],
                decisions,
                on_change,
                self.context,
                owns=self._own_folder,
                log=self.log,
                notes=(*self.context.left_out, *self.notes),
                verify_grade=self.grades[1],
                settings={"file_sources": self.file_sources, "proof": self.proof},
                resume=self.resume,
                probe=self.probe,
            )
        finally:
            if self.folder is not None:
                self.folder.cleanup()


def open_case(opening: Opening, engine: str | None, grades: tuple[str, str]) -> CaseRun:
    """What a person chose. Raises CannotOpenError with the whole message."""
    try:
        context = read_context()
        if opening.logs:
            return open_logs(opening, engine, grades, context)
        if opening.resume is not None:
            return _resumed(opening, engine, grades, context)
        if opening.deployment is None:
            return _lab_case(opening.fault or LAB_CASE, engine, context)
        state = find_locations().state
        take(state, opening.deployment).release()  # said here already, where it is another session's
        left = unfinished(state, opening.deployment)
        notes = take_back(state, opening.deployment)
        notes += (f"case {left.case.name} on it was cut off: wizard --resume goes on with it",) if left else ()
        deployment = read_deployment(opening.deployment)
        more = {"notes": notes, "file_sources": opening.file_sources, "proof": opening.proof or Proof()}
        return _case(deployment, engine, grades, context, **more)
    except (InputError, EngineError, CannotMake, OSError) as error:
        raise CannotOpenError(in_words(error)) from error


def _case(
    deployment: Deployment, engine: str | None, grades: tuple[str, str], context: Context, **more: Any
) -> EngineCase:
    chosen = engine_for(engine, deployment)
    holders = holders_in_words(look_at(deployment, chosen))
    return EngineCase(deployment, chosen, grades, context, holders=holders, **more)


def _resumed(opening: Opening, engine: str | None, grades: tuple[str, str], context: Context) -> EngineCase:
    """The case that was cut off; where it cannot go on, its deployment from the beginning, and why is noted."""
    state = find_locations().state
    found = cut_off(state, opening.resume or "")
    take(state, found.file).release()
    notes = take_back(state, found.file)
    deployment = read_deployment(found.file)
    prints = fingerprints(deployment, engine_for(engine, deployment))
    resume = resumable_case(found.case, deployment, prints, context)
    if resume is None:
        notes = (*notes, f"case {found.case.name} had finished no step: all begins anew")
    elif resume.session is None:
        notes, resume = (*notes, resume.words), None
    more = {"notes": notes, "resume": resume, "file_sources": opening.file_sources, "proof": opening.proof or Proof()}
    return _case(deployment, engine, grades, context, **more)


def _lab_case(name: str, engine: str | None, context: Context) -> EngineCase:
    """Warm: it is there to try things out. Its folder goes with it."""
    fault = fault_named(name)
    if fault.surroundings:
        raise InputError(f"fault {name} needs surroundings of its own: vllm-console lab {name} makes them")
    folder = tempfile.TemporaryDirectory(prefix="vllm-console-lab-")
    try:
        path = build_fault(fault, Path(folder.name))
        sources = whole_sources(fault, Path(folder.name))
        return _case(
            read_deployment(path),
            engine,
            ("warm", "warm"),
            context,
            folder=folder,
            file_sources=sources,
            proof=_LAB_PROOF,
        )
    except BaseException:
        folder.cleanup()
        raise


def find_engine(name: str | None) -> EngineView:
    """Where the engine is; its version is told when it runs, because asking means importing vLLM."""
    try:
        engine = choose_engine(name)
    except (InputError, EngineError) as error:
        return EngineView(missing=str(error))
    by = engine.found_by
    return EngineView(where=f"{short_path(engine.label)}, from {'a ' if by.startswith('running ') else ''}{by}")
