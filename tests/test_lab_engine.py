"""The lab on the real engine: each fault is found first, mended by one change and proved; nothing of it is left.

A chosen third (`third: true` in its file), or with `--all-faults` every fault and a random tenth of them cold. All run
on one probe: the import of vLLM is paid for once.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from playbooks.context import read_context
from playbooks.lab.choosing import Turn, turns
from playbooks.lab.faults import faults
from tui.commands.lab_run import Bench, Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine_probe.engine import Engine
    from tui.commands.lab_result import Result

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    known = faults()
    if metafunc.config.getoption("--all-faults"):
        chosen = turns(known, all_cold=False, seed=metafunc.config.getoption("--lab-seed"))
    else:
        chosen = turns([fault for fault in known if fault.spec.third], all_cold=False, seed=None)
    metafunc.parametrize("turn", chosen, ids=[f"{turn.fault.id}-{turn.grade}" for turn in chosen])


@pytest.fixture(scope="module")
def run(engine: Engine) -> Iterator[Callable[[Turn], Result]]:
    """Runs one turn after the other; between them the loop stands still."""
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(prefix="vllm-console-lab-") as folder:
        lab = Lab(Bench(engine, read_context(), Path(folder)))
        yield lambda turn: loop.run_until_complete(lab.run(turn, lambda *_: None))
        loop.run_until_complete(lab.__aexit__())
    loop.close()


def test_a_fault_is_found_mended_and_proved(turn: Turn, run: Callable[[Turn], Result]) -> None:
    result = run(turn)
    if result.skipped is not None:
        pytest.skip(result.skipped)
    assert result.why_not is None, result.object()
