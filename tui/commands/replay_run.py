"""Runs one session for a command: a case folder, a probe on the engine, the driver."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from engine_probe.engine import Engine, EngineError
from engine_probe.engine_check import check_engine
from engine_probe.errors import InputError
from engine_probe.locations import find_locations, writable
from engine_probe.preflight import check_model_folder
from engine_probe.run_log import NAME as LOG_NAME
from engine_probe.run_log import RunLog
from engine_probe.supervisor import Probe
from playbooks.case import new_case
from playbooks.context import new_session
from playbooks.fingerprints import fingerprints, keep_fingerprints
from playbooks.lessons import Lessons
from playbooks.outside_fixes import engine_facts
from playbooks.replay import drive
from playbooks.start import facts_before
from playbooks.writing_lock import take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from engine_probe.launch import Deployment
    from playbooks.case import CaseFolder
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.replay import OnChange, OnStep, Policy, ProbeLike
    from playbooks.resuming import Resumable
    from playbooks.session import Session
    from playbooks.writing_lock import WritingLock


async def run_session(  # noqa: PLR0913 -- what two front ends know
    deployment: Deployment,
    engine: Engine,
    grade: str,
    decisions: asyncio.Queue[Decision] | Policy,
    on_change: OnChange,
    context: Context,
    *,
    owns: Path | None = None,
    log: RunLog | None = None,
    notes: tuple[str, ...] = (),
    probe: ProbeLike | None = None,
    verify_grade: str | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: Resumable | None = None,
    on_step: OnStep | None = None,
    may_write: bool = True,
) -> Session:
    """Drive one session to its end. Raises EngineError when vLLM itself cannot be run.

    `owns`: a folder made for this session alone, which goes with its probe. `log` is opened here; its owner closes it.
    `notes`: what the session is to say from its beginning. `probe`: None is one of its own.
    `verify_grade`: how a fix is loaded, None as the rest. `settings`: fields that the first session gets.
    `resume`: a case that was cut off, which goes on in its own folder. `on_step`: as for `drive`.
    `may_write`: no other session may write this deployment meanwhile; where one may already, that is an InputError.
    """
    for launch in deployment.models:
        check_model_folder(launch, engine)
    async with AsyncExitStack() as stack:
        lock = _lock(deployment, stack) if may_write else None
        case, session = _resumed(resume, notes) or _new_session(deployment, engine, notes)
        if lock is not None:
            lock.tell(case.name if case is not None else None)
        is_made = owns is not None or probe is not None  # a model for one session, as the lab's: nobody misses it
        session = replace(session, grade=grade, verify_grade=verify_grade or grade, unnoted_changes=is_made)
        session = replace(session, **(settings or {}))
        if log is None:
            log = RunLog()
            stack.callback(log.close)
        log.open(case.path / LOG_NAME) if case else log.open_privately()
        learns = engine.is_local and owns is None and probe is None  # a model made for one session comes never again
        if probe is None:
            probe = await stack.enter_async_context(_own_probe(engine, owns))
        lessons = Lessons(on_change)
        session = await drive(
            session, probe, decisions, lessons.see, context=context, case=case, log=log, on_step=on_step
        )
        if learns:
            await asyncio.to_thread(lessons.learn)
    return await asyncio.to_thread(_engine_at_fault, session, engine)


def _lock(deployment: Deployment, stack: AsyncExitStack) -> WritingLock | None:
    if deployment.path is None:
        return None
    lock = take(find_locations().state, deployment.path)
    stack.callback(lock.release)
    return lock


def _resumed(resume: Resumable | None, notes: tuple[str, ...]) -> tuple[CaseFolder | None, Session] | None:
    if resume is None or resume.session is None:
        return None
    told = dict.fromkeys((*resume.session.notes, *notes, resume.words))  # each once, however often it was cut off
    return resume.case, replace(resume.session, notes=tuple(told))


def _new_session(deployment: Deployment, engine: Engine, notes: tuple[str, ...]) -> tuple[CaseFolder | None, Session]:
    case, why_not = kept_case()
    facts = facts_before(deployment, engine.is_local) | engine_facts(engine)
    session = new_session(case.name if case else "", deployment, "warm", "warm", facts)
    if case is not None:
        with suppress(OSError):  # on a full disk it cannot go on later, and the driver says what else is not kept
            keep_fingerprints(case.path, fingerprints(deployment, engine))
    return case, replace(session, case_folder=str(case.path) if case else None, notes=(*notes, *why_not))


@asynccontextmanager
async def _own_probe(engine: Engine, owns: Path | None) -> AsyncIterator[Probe]:
    async with AsyncExitStack() as stack:
        try:
            probe = await stack.enter_async_context(Probe(engine, owns=owns))
        except OSError as error:
            raise EngineError(f"{engine.label} cannot be started: {error.strerror or error}") from error
        yield probe


def kept_case() -> tuple[CaseFolder | None, tuple[str, ...]]:
    """A case's folder, or why there is none: a disk that is full or read-only is no reason not to look for faults."""
    state = find_locations().state
    try:
        return new_case(writable(state), datetime.now().astimezone().date()), ()
    except InputError as error:
        return None, (f"{error}. The case goes on, and nothing is kept.",)
    except OSError as error:
        return None, (f"{state} cannot be written: {error.strerror or error}. The case goes on, and nothing is kept.",)


def _engine_at_fault(session: Session, engine: Engine) -> Session:
    """A load that said nothing a playbook knows may have failed because vLLM cannot be imported: another verdict."""
    if session.verdict not in ("unexplained", "cannot run"):
        return session
    troubles = check_engine(engine).troubles
    notes = tuple(f"{one.text}\n  {one.fix}" for one in troubles)
    return replace(session, verdict="cannot run", notes=(*session.notes, *notes)) if troubles else session
