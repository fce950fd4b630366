"""Runs one session for a command: a case folder, a probe on the engine, the driver."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from engine_probe.engine import Engine, EngineError
from engine_probe.engine_check import check_engine
from engine_probe.locations import find_locations, writable
from engine_probe.preflight import check_model_folder
from engine_probe.supervisor import Probe
from playbooks.case import new_case
from playbooks.context import new_session
from playbooks.replay import drive
from playbooks.start import facts_before

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.launch import Deployment
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.replay import OnChange, Policy
    from playbooks.session import Session


async def run_session(
    deployment: Deployment,
    engine: Engine,
    grade: str,
    decisions: asyncio.Queue[Decision] | Policy,
    on_change: OnChange,
    context: Context,
    *,
    owns: Path | None = None,
) -> Session:
    """Drive one session on a probe of its own to its end. Raises EngineError when vLLM itself cannot be run.

    `owns`: a folder made for this session alone, which goes with its probe.
    """
    for launch in deployment.models:
        check_model_folder(launch, engine)
    case = new_case(writable(find_locations().state), datetime.now().astimezone().date())
    session = new_session(case.name, deployment, grade, grade, facts_before(deployment, engine.is_local))
    session = replace(session, case_folder=str(case.path))
    async with AsyncExitStack() as stack:
        try:
            probe = await stack.enter_async_context(Probe(engine, owns=owns))
        except OSError as error:
            raise EngineError(f"{engine.label} cannot be started: {error.strerror or error}") from error
        session = await drive(session, probe, decisions, on_change, context=context, case=case)
    return await asyncio.to_thread(_engine_at_fault, session, engine)


def _engine_at_fault(session: Session, engine: Engine) -> Session:
    """A load that said nothing a playbook knows may have failed because vLLM cannot be imported: another verdict."""
    if session.verdict not in ("unexplained", "cannot run"):
        return session
    troubles = check_engine(engine).troubles
    notes = tuple(f"{one.text}\n  {one.fix}" for one in troubles)
    return replace(session, verdict="cannot run", notes=(*session.notes, *notes)) if troubles else session
