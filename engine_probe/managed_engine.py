"""The console's own engine: vLLM in a venv of its own in the cache folder, installed step by step and resumable.

On a host without an NVIDIA GPU it is vLLM's CPU build, which really loads tiny models; with one it is vLLM itself.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.engine import EngineError
from engine_probe.locations import find_locations, writable
from engine_probe.managed.install_state import InstallState, held_lock, read_state, write_state
from engine_probe.managed.plan import InstallPlan, has_nvidia_gpu, make_plan
from engine_probe.managed.steps import Installation, Step, has_venv, has_vllm, has_wheel, steps_of
from engine_probe.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.engine import Engine

_GIB = 1024**3


@dataclass(frozen=True)
class Progress:
    """Step `step` of `steps`, counted from 1. `detail` is what is going on in it, such as pip's last line."""

    step: int
    steps: int
    title: str
    seconds: float
    detail: str
    finished: bool = False


def find() -> Engine | None:
    """The finished and still working installation, or None. Quick: looks at files, starts nothing."""
    engines = find_locations().cache / "engines"
    # The one installed last counts, such as that made after a GPU driver was mended.
    for state_file in sorted(engines.glob("*/state.json"), key=_modified, reverse=True):
        state = read_state(state_file)
        installation = Installation(_any_plan(state), state_file.parent, -1, None)
        done = {"venv", "packages", "import"} <= set(state.finished) and state.begun is None
        if done and has_venv(installation) and has_vllm(installation):
            return installation.engine()
    return None


def install(progress: Callable[[Progress], None], proof: Callable[[Engine], None] | None = None) -> Engine:
    """Install what is missing and return the engine; a run that was killed goes on where it stopped.

    `proof` is called with the engine as the last step and raises EngineError when it cannot load a model.
    Raises EngineError with the last lines of the log and its path.
    """
    plan = make_plan(read_settings().managed, has_nvidia_gpu())
    folder = writable(find_locations().cache / "engines" / plan.name)

    def waiting(seconds: float) -> None:
        progress(
            Progress(0, 0, "waiting for another installation, or what a killed one left running", seconds, str(folder))
        )

    with held_lock(folder / "lock", waiting) as lock_fd:
        installation = Installation(plan, folder, lock_fd, proof)
        _run_steps(installation, progress)
        return installation.engine()


def _run_steps(installation: Installation, progress: Callable[[Progress], None]) -> None:
    steps = steps_of(installation)
    state = _sound_state(installation, steps)
    if "packages" not in state.finished:
        _check_room(installation)
    for number, step in enumerate(steps, start=1):
        if step.id in state.finished:
            continue
        began = time.monotonic()

        def beat(detail: str, step: Step = step, number: int = number, began: float = began) -> None:
            progress(Progress(number, len(steps), step.title, time.monotonic() - began, detail))

        state = state.with_begun(step.id)
        write_state(installation.folder / "state.json", state)
        beat("")
        step.run(installation, beat)
        state = state.with_finished(step.id)
        write_state(installation.folder / "state.json", state)
        progress(Progress(number, len(steps), step.title, time.monotonic() - began, "", finished=True))


def _sound_state(installation: Installation, steps: list[Step]) -> InstallState:
    """The kept state, cut at the first step whose result is gone: it and all after it are done again."""
    state = read_state(installation.folder / "state.json")
    if state.requirement != installation.plan.requirement:
        return InstallState(requirement=installation.plan.requirement)
    sound: list[str] = []
    for step in steps:
        if step.id not in state.finished or not step.holds(installation):
            break
        sound.append(step.id)
    if state.begun in {"packages", "prune"}:
        # pip was stopped while it wrote files: nobody knows which are whole. A new venv; its downloads are cached.
        sound = []
    if "wheel" in state.finished and has_wheel(installation):
        sound.append("wheel")
    return state.up_to(tuple(sound))


def _check_room(installation: Installation) -> None:
    free_gib = shutil.disk_usage(installation.folder).free / _GIB
    needed_gib = installation.plan.needs_free_gib
    if free_gib < needed_gib:
        raise EngineError(
            f"the engine needs {needed_gib:.0f} GiB and {installation.folder} has {free_gib:.1f} GiB free. "
            "Make room, or set XDG_CACHE_HOME to a folder on another disk"
        )


def _modified(path: Path) -> float:
    return path.stat().st_mtime


def _any_plan(state: InstallState) -> InstallPlan:
    """A stand-in that `find` needs no more of than the folder."""
    return InstallPlan("", state.requirement, None, True, None, None, 0.0)
