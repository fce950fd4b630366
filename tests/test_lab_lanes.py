"""Cold faults run beside the warm ones where nothing is shared that both would want, and end together."""

from __future__ import annotations

import asyncio
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from engine_probe.engine import EngineError, local_engine
from playbooks.context import read_context
from playbooks.lab.choosing import Turn
from playbooks.lab.faults import fault_named
from tui.commands import lab_lanes
from tui.commands.lab_lanes import lanes_of, run_lanes
from tui.commands.lab_result import Result
from tui.commands.lab_run import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.replay import OnChange

WARM, COLD, ODD = (
    Turn(fault_named("kv-cache-size-zero"), "warm"),
    Turn(fault_named("kv-cache-size-zero"), "cold"),
    Turn(fault_named("block-size-unsupported"), "warm"),
)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two cores and no GPU, until a test says otherwise."""
    found = SimpleNamespace(cores={0, 1}, gpus=())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: found.cores)
    monkeypatch.setattr(lab_lanes, "read_gpus", lambda: SimpleNamespace(gpus=found.gpus))
    return found


def test_a_lane_is_a_grade(host: SimpleNamespace) -> None:
    assert lanes_of((WARM, COLD, ODD)) == ((WARM, ODD), (COLD,))
    assert lanes_of((WARM, ODD)) == ((WARM, ODD),)
    host.gpus = ("one",)
    assert lanes_of((WARM, COLD, ODD)) == ((WARM, COLD, ODD),)
    host.gpus, host.cores = (), {0}
    assert lanes_of((WARM, COLD, ODD)) == ((WARM, COLD, ODD),)


class Fake:
    """Stands where the lab would: says what it was asked, in which folder, and that it was left."""

    left: list[Path]
    cold_ends: asyncio.Event

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    async def __aenter__(self) -> Fake:
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.bench.folder.is_dir()
        Fake.left.append(self.bench.folder)

    async def run(self, turn: Turn, _on_change: OnChange) -> Result:
        if turn is COLD:
            await Fake.cold_ends.wait()
        if turn is ODD:
            raise EngineError("no engine")
        return Result(turn, 1.0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.setattr(lab_lanes, "Lab", Fake)
    Fake.left, Fake.cold_ends = [], asyncio.Event()
    return Bench(local_engine(sys.executable, "the test"), read_context(), tmp_path)


async def test_each_lane_has_its_folder_and_results_come_as_they_end(bench: Bench) -> None:
    ended: list[Turn] = []

    def end(result: Result) -> None:
        ended.append(result.turn)
        Fake.cold_ends.set()

    results = await run_lanes(((COLD,), (WARM,)), bench, lambda _turn: lambda *_: None, end)
    assert [one.turn for one in results] == ended == [WARM, COLD]
    assert len(set(Fake.left)) == 2
    assert not any(folder.exists() for folder in Fake.left)


async def test_a_lane_that_cannot_go_on_ends_the_other(bench: Bench) -> None:
    with pytest.raises(EngineError, match="no engine"):
        await run_lanes(((COLD,), (ODD,)), bench, lambda _turn: lambda *_: None, lambda _result: None)
    assert len(Fake.left) == 2


async def test_what_is_kept_stays(bench: Bench, tmp_path: Path) -> None:
    keeps = Bench(bench.engine, bench.context, tmp_path, keep=True)
    await run_lanes(((WARM,),), keeps, lambda _turn: lambda *_: None, lambda _result: None)
    assert [folder.parent for folder in Fake.left] == [tmp_path]
    assert all(folder.is_dir() for folder in Fake.left)
