"""Several faults in one or two lanes: where no GPU is shared, cold loads run beside the warm ones, on another core.

A cold load is the import of vLLM in three processes, one after the other, so a second core stands idle meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.hardware.gpus import read_gpus
from tui.commands.lab_run import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from playbooks.lab.choosing import Turn
    from playbooks.replay import OnChange
    from tui.commands.lab_result import Result
    from tui.commands.lab_run import Bench

Lane = tuple["Turn", ...]


def lanes_of(turns: Sequence[Turn]) -> tuple[Lane, ...]:
    """The turns in the order in which each lane takes them."""
    if len(os.sched_getaffinity(0)) < 2 or read_gpus().gpus:
        return (tuple(turns),)
    by_grade = (tuple(turn for turn in turns if turn.grade == grade) for grade in ("warm", "cold"))
    return tuple(lane for lane in by_grade if lane)


async def run_lanes(
    lanes: Sequence[Lane], bench: Bench, begin: Callable[[Turn], OnChange], end: Callable[[Result], None]
) -> list[Result]:
    """Every turn, in the order in which they end; `begin` gives what hears of a session. Raises EngineError."""
    results: list[Result] = []

    def ended(result: Result) -> None:
        results.append(result)
        end(result)

    with ExitStack() as stack:
        benches = [replace(bench, folder=_folder(bench, stack)) for _ in lanes]
        tasks = [asyncio.create_task(_run(lane, own, begin, ended)) for lane, own in zip(lanes, benches, strict=True)]
        try:
            await asyncio.gather(*tasks)
        finally:  # one that failed, or Ctrl-C: the others end too, and what they started with them
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return results


def _folder(bench: Bench, stack: ExitStack) -> Path:
    """Of one lane: its probe takes it away, also when the console is killed."""
    if bench.keep:
        return Path(tempfile.mkdtemp(prefix="lane-", dir=bench.folder))
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vllm-console-lab-")))


async def _run(lane: Lane, bench: Bench, begin: Callable[[Turn], OnChange], ended: Callable[[Result], None]) -> None:
    async with Lab(bench) as lab:
        for turn in lane:
            ended(await lab.run(turn, begin(turn)))
