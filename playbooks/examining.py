"""Does the experiments that examine the place where the engine runs, in a thread, and ends them when they are stopped.

What runs on the engine's side goes through its own Python, wherever that is; what only this host can tell is
inconclusive for an engine elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.examine.asking import STOPPED, Examination, launch_given, run_script
from playbooks import experiments
from playbooks.effects import Examined

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.engine import Engine
    from engine_probe.events import Event
    from engine_probe.examine.gpu_growth import GpuGrowth
    from engine_probe.launch import Deployment, Launch
    from playbooks.effects import Examine, Load

_LIMIT_S = 120.0
"""Imports of torch and transformers on a cold network mount take most of it; large files are read in part."""
_SCRIPT = "script:"
_ELSEWHERE = "the engine runs elsewhere, and this can only be seen on its own host"


def examine(effect: Examine, engine: Engine | None, stop: threading.Event) -> Examined:
    """Blocks until it is over. What cannot be done is the reason in the result."""
    how = experiments.named(effect.name).how
    if engine is None:
        found = Examination(why_not="there is no engine to ask")
    elif how.startswith(_SCRIPT):
        found = _by_script(effect, engine, how.removeprefix(_SCRIPT), stop)
    elif how == "packages":
        found = _packages(engine, stop)
    else:
        found = _files(effect, engine, stop)
    return Examined(effect.name, found.facts, found.why_not)


def _by_script(effect: Examine, engine: Engine, script: str, stop: threading.Event) -> Examination:
    model = effect.launch.model
    if engine.is_local:
        with contextlib.suppress(InputError):  # the script says that there is no such folder
            model = str(folder_of(effect.launch, effect.deployment))
    return run_script(engine, script, launch_given(effect.launch, model), _LIMIT_S, stop)


def folder_of(launch: Launch, deployment: Deployment) -> Path:
    """The model's folder on this host; relative paths are the deployment file's. Raises InputError."""
    from engine_probe.memory.model_folder import model_folder  # noqa: PLC0415 - few experiments look at files

    base = deployment.path.parent if deployment.path is not None else Path()
    beside = base / Path(launch.model).expanduser()
    return model_folder(replace(launch, model=str(beside)) if beside.exists() else launch).absolute()


def _packages(engine: Engine, stop: threading.Event) -> Examination:
    from engine_probe.engine_packages import read_packages  # noqa: PLC0415 - only one experiment asks for them
    from playbooks.evidence import package_facts  # noqa: PLC0415

    try:
        packages = read_packages(engine, _LIMIT_S, stop)
    except (OSError, ValueError) as error:
        return Examination(why_not=STOPPED if stop.is_set() else str(error))
    why_not = "vLLM's requirements could not be read there" if packages.unmet is None else None
    return Examination(package_facts(packages), why_not)


def _files(effect: Examine, engine: Engine, stop: threading.Event) -> Examination:
    from engine_probe.model_files.whole import read_whole  # noqa: PLC0415 - only one experiment reads files
    from playbooks.evidence_folder import folder_facts, whole_facts  # noqa: PLC0415

    if not engine.is_local:
        return Examination(why_not=_ELSEWHERE)
    try:
        folder = folder_of(effect.launch, effect.deployment)
        if not folder.is_dir():
            return Examination(why_not=f"{folder} is one file, and only folders are audited")
        facts = folder_facts(folder)
        read = read_whole(folder, _LIMIT_S, stop)
    except InputError as error:
        return Examination(why_not=str(error))
    except OSError as error:
        return Examination(why_not=f"the model's folder cannot be read: {error.strerror or error}")
    return Examination({**facts, **whole_facts(folder, read, facts)}, read.why_not)


class Examiner:
    """What a driver holds: one examination at a time beside the session, and the GPUs watched during a load.

    `came` gets each result, in the loop's own thread.
    """

    def __init__(self, engine: Engine | None, came: Callable[[Examined], None]) -> None:
        self._engine = engine
        self._came = came
        self._stop = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._watched: str | None = None
        self._growth: GpuGrowth | None = None

    def begin(self, effect: Examine) -> None:
        self._stop = threading.Event()
        self._task = asyncio.create_task(self._run(effect, self._stop))

    async def _run(self, effect: Examine, stop: threading.Event) -> None:
        self._came(await asyncio.to_thread(examine, effect, self._engine, stop))

    def stop(self) -> None:
        """Its processes end, and its result says so."""
        self._stop.set()

    async def close(self) -> None:
        """Nothing of it goes on afterwards."""
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._growth is not None:
            await asyncio.to_thread(self._growth.end)

    def load_begins(self, effect: Load) -> None:
        """Watch the GPUs from now on, where the experiment wants that."""
        if not effect.watches_gpus:
            return
        self._watched = effect.launch.name
        if self._engine is not None and self._engine.is_local:
            from engine_probe.examine.gpu_growth import GpuGrowth  # noqa: PLC0415 - one experiment needs it

            self._growth = GpuGrowth(effect.launch.gpus)
            self._growth.start()

    async def load_ended(self, event: Event) -> Examined | None:
        """What was seen on the GPUs, when the watched load has ended."""
        if event.model != self._watched or self._watched is None:
            return None
        self._watched, growth, self._growth = None, self._growth, None
        name = next(one.name for one in experiments.every() if one.watches_gpus)
        if growth is None:
            return Examined(name, {}, _ELSEWHERE)
        found = await asyncio.to_thread(growth.end)
        return Examined(name, found.facts, found.why_not)
