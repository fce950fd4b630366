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
from tui.commands.consent import ConsentError, confirm_load
from tui.commands.lab_result import Result
from tui.commands.replay_run import run_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
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


class Lab:
    """Runs turns on one probe, with one process that all warm loads are forked from. Use as an async context manager.

    A probe that is lost is replaced by another. Raises EngineError where the engine cannot even be started.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._stack = AsyncExitStack()
        self._shared: SharedProbe | None = None
        self._is_warm = False

    async def __aenter__(self) -> Lab:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def run(self, turn: Turn, on_change: OnChange) -> Result:
        """One fault from its making to its proof; nothing of it is left."""
        reason = why_not(turn.fault, self._bench.engine)
        if reason is not None:
            return Result(turn, 0.0, skipped=reason)
        if self._shared is None or self._shared.is_lost:
            await self._stack.aclose()
            owns = None if self._bench.keep else self._bench.folder
            self._shared = await self._stack.enter_async_context(_probe(self._bench.engine, owns))
            self._is_warm = False
        if turn.grade == "warm" and not self._is_warm:
            self._is_warm = True
            await _warm_up(self._shared.probe, self._bench.folder)
        return await _run_turn(turn, self._bench, self._shared, on_change, time.monotonic())


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


async def _run_turn(turn: Turn, bench: Bench, shared: SharedProbe, on_change: OnChange, began: float) -> Result:
    def result(session: Session | None = None, **more: object) -> Result:
        folder = bench.folder / turn.fault.id if bench.keep else None
        return Result(turn, time.monotonic() - began, session, folder=folder, **more)  # type: ignore[arg-type]

    with ExitStack() as stack:
        try:
            prepared = _prepare(turn.fault, bench, stack)
            session, left_behind = await _run_session(turn, prepared, bench, shared, on_change)
        except CannotMake as error:
            return result(skipped=str(error))
        except ConsentError:
            raise
        except (InputError, EngineError, OSError) as error:
            if isinstance(error, EngineError) and not shared.probe.has_answered:
                raise  # nothing can be shown on an engine that does not run
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
