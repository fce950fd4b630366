"""Where a session's log is kept: in its case's folder, or, where there is none, for as long as somebody looks at it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.engine import local_engine
from engine_probe.run_log import RunLog
from playbooks.context import read_context
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.unattended import Unattended
from tests.recorded_probe import RecordedProbe, recorded_loads
from tui.commands.replay_run import run_session

if TYPE_CHECKING:
    from playbooks.session import Session

KV = "kv-cache-too-small-for-max-model-len"


class PlayedBack(RecordedProbe):
    """In the place of a probe that is started on an engine."""

    def __init__(self, *_engine: object, **_named: object) -> None:
        super().__init__(*recorded_loads())

    async def __aenter__(self) -> PlayedBack:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture
def play_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.commands.replay_run.Probe", PlayedBack)


async def run(folder: Path, log: RunLog | None = None) -> Session:
    context = read_context()
    deployment = read_deployment(build_fault(fault_named(KV), folder))
    engine = local_engine(sys.executable, "the test")
    return await run_session(deployment, engine, "warm", Unattended(), lambda *_: None, context, log=log)


@pytest.mark.usefixtures("play_back")
async def test_the_log_lies_in_the_case_s_folder(tmp_path: Path) -> None:
    session = await run(tmp_path)
    assert session.case_folder is not None
    lines = (Path(session.case_folder) / "engine.log").read_text("utf-8").splitlines()
    assert sum("load of tiny over, cleaned up" in line for line in lines) == 2


@pytest.mark.usefixtures("play_back")
async def test_the_owner_of_a_log_closes_it(tmp_path: Path) -> None:
    log = RunLog()
    session = await run(tmp_path, log)
    assert session.case_folder is not None
    assert log.path == Path(session.case_folder) / "engine.log"
    log.close()
    assert log.path.exists()


@pytest.mark.usefixtures("play_back")
async def test_where_no_folder_can_be_made_the_case_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tui.commands.replay_run.new_case", full)
    log = RunLog()
    session = await run(tmp_path, log)
    assert session.verdict == "not verified"
    assert any("the change is not made" in note for note in session.notes)
    assert session.case_folder is None
    assert sum("No space left on device" in note for note in session.notes) == 1
    assert log.path is not None
    assert "load of tiny over, cleaned up" in log.path.read_text("utf-8")
    log.close()
    assert not log.path.exists()
