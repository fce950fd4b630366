"""Runs faults of the lab one after the other, all on one probe: each is built, diagnosed, fixed, proved and removed."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.deployment import read_deployment
from engine_probe.engine import EngineError
from engine_probe.errors import InputError
from engine_probe.hardware.descendants import Descendant, descendants, is_of_the_probe
from engine_probe.launch import Launch
from engine_probe.load_conditions import LoadConditions
from engine_probe.preflight import look_at
from engine_probe.shared_probe import SharedProbe
from engine_probe.supervisor import Limits, Probe
from playbooks.lab.building import build_fault, whole_sources
from playbooks.lab.needs import why_not
from playbooks.lab.surroundings import Scene
from playbooks.lab.tiny_model import write_tiny_llama
from playbooks.lab.unmade import CannotMake
from playbooks.session import Proof
from playbooks.unattended import Unattended
from tui.commands.consent import confirm_load
from tui.commands.lab_result import Result
from tui.commands.replay_run import run_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from engine_probe.engine import Engine
    from playbooks.context import Context
    from playbooks.lab.choosing import Turn
    from playbooks.lab.faults import Fault
    from playbooks.replay import OnChange
    from playbooks.session import Session

_PROOF = Proof(concurrent=4, burst_seconds=1.0)
"""Enough to see that the load test works; a person's own fix gets a longer one."""


@dataclass(frozen=True)
class Bench:
    """What all turns share. `yes`: load even where another process holds a target GPU."""

    engine: Engine
    context: Context
    folder: Path
    yes: bool = False
    keep: bool = False


@dataclass(frozen=True)
class Prepared:
    """A fault that lies in its folder, and what its loads live under."""

    fault: Fault
    folder: Path
    path: Path
    conditions: LoadConditions
    engine: Engine | None


async def run_turns(
    turns: Sequence[Turn], bench: Bench, on_begin: Callable[[Turn], OnChange], on_end: Callable[[Result], None]
) -> list[Result]:
    """Every turn in order; `on_begin` gives what hears of its session. Raises EngineError when there is no engine."""
    results = []
    async with AsyncExitStack() as stack:
        shared: SharedProbe | None = None
        for turn in turns:
            if shared is None or shared.is_lost:
                await stack.aclose()
                shared = await stack.enter_async_context(_probe(bench.engine, bench.folder))
                if any(one.grade == "warm" for one in turns):
                    await _warm_up(shared.probe, bench.folder)
            began = time.monotonic()
            result = await _run_turn(turn, bench, shared, on_begin, began)
            results.append(result)
            on_end(result)
    return results


@asynccontextmanager
async def _probe(engine: Engine, owns: Path | None) -> AsyncIterator[SharedProbe]:
    async with AsyncExitStack() as stack:
        try:
            probe = await stack.enter_async_context(Probe(engine, owns=owns))
        except OSError as error:
            raise EngineError(f"{engine.label} cannot be started: {error.strerror or error}") from error
        yield await stack.enter_async_context(SharedProbe(probe))


async def _warm_up(probe: Probe, folder: Path) -> None:
    """Under no fault's environment: the first load would give its own to the process that all are forked from."""
    model = await asyncio.to_thread(write_tiny_llama, folder / "warm" / "tiny")
    await probe.warm((Launch("warm", str(model)),))


async def _run_turn(
    turn: Turn, bench: Bench, shared: SharedProbe, on_begin: Callable[[Turn], OnChange], began: float
) -> Result:
    def result(session: Session | None = None, **more: object) -> Result:
        return Result(turn, time.monotonic() - began, session, **more)  # type: ignore[arg-type]

    reason = why_not(turn.fault, bench.engine)
    if reason is not None:
        return result(skipped=reason)
    with ExitStack() as stack:
        try:
            prepared = _prepare(turn.fault, bench, stack)
        except CannotMake as error:
            return result(skipped=str(error))
        try:
            session, left_behind = await _run_session(turn, prepared, bench, shared, on_begin(turn))
        except (InputError, EngineError, OSError) as error:
            return result(error=str(error))
        return result(session, left_behind=left_behind)


def _prepare(fault: Fault, bench: Bench, stack: ExitStack) -> Prepared:
    """Make the surroundings, then the models in them. Raises CannotMake."""
    folder = bench.folder / fault.id
    folder.mkdir()
    if not bench.keep:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    words: dict[str, str] = {}
    conditions, engine = LoadConditions(), None
    for one in fault.surroundings:
        around = stack.enter_context(one.run(Scene(folder, bench.engine)))
        words |= around.words
        conditions |= around.conditions
        engine = around.engine or engine
    return Prepared(fault, folder, build_fault(fault, folder, words), conditions, engine)


async def _run_session(
    turn: Turn, prepared: Prepared, bench: Bench, shared: SharedProbe, on_change: OnChange
) -> tuple[Session, tuple[str, ...]]:
    """On the shared probe, or on one of its own where the fault has another engine."""
    async with AsyncExitStack() as stack:
        if prepared.engine is not None:
            shared = await stack.enter_async_context(_probe(prepared.engine, None))
        deployment = read_deployment(prepared.path)
        engine = shared.probe.engine
        confirm_load(look_at(deployment, engine), yes=bench.yes)
        hang = turn.fault.spec.hang_seconds
        before = _living(shared.probe)
        async with shared.lease(prepared.conditions, None if hang is None else Limits(hang_s=hang)) as lease:
            session = await run_session(
                deployment,
                engine,
                turn.grade,
                Unattended(fix=turn.fault.spec.fix),
                on_change,
                bench.context,
                probe=lease,
                settings={"file_sources": whole_sources(turn.fault, prepared.folder), "proof": _PROOF},
            )
        left = [f"process {one.pid} ({one.command})" for one in _living(shared.probe) - before]
        return session, (*lease.left_behind, *sorted(left))


def _living(probe: Probe) -> frozenset[Descendant]:
    """What the probe has started for loads."""
    found = descendants(probe.pid) if probe.pid is not None and probe.engine.is_local else frozenset()
    return frozenset(one for one in found if not is_of_the_probe(one))
