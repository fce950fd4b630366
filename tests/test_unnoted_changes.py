"""A disk that takes no note of a change: the change is not made, and that is said before and after, also as JSON."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, NoReturn

import pytest
from click.testing import CliRunner
from recorded_probe import RecordedProbe, recorded_loads

from engine_probe.run_log import RunLog
from playbooks import unverified
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from tui.commands import replay_run
from tui.commands.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

KV = "kv-cache-too-small-for-max-model-len"


class Entered(RecordedProbe):
    def __init__(self, *_given: object, **_options: object) -> None:
        super().__init__(*recorded_loads())

    async def __aenter__(self) -> Entered:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["the note", "the case"])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_it_is_not_made_and_that_is_said(
    where: str, form: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = build_fault(fault_named(KV), tmp_path / "lab")
    before = file.read_bytes()
    monkeypatch.setattr(replay_run, "Probe", Entered)
    if where == "the note":
        monkeypatch.setattr(unverified, "_write", full)
    else:
        monkeypatch.setattr(replay_run, "new_case", full)
    words = (KV, "--deployment", str(file), "--engine", sys.executable, "--yes", *form)
    result = CliRunner().invoke(replay, words, standalone_mode=False)
    assert result.return_value == 1, result.output
    said = " ".join((result.stderr if form else result.stdout).split())
    assert "the change is not made, because a console that is killed would leave it unproved" in said
    assert file.read_bytes() == before
    assert not file.with_name(f"{file.name}.r1").exists()
    if where == "the case":
        assert "nothing is kept" in said
    if form:
        assert json.loads(result.stdout.splitlines()[-1])["verdict"] == "not verified"


def test_private_logs_of_consoles_that_were_killed_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive = tmp_path / "vllm-console-dead-engine.log", tmp_path / "vllm-console-alive-engine.log"
    dead.touch()
    with alive.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        one, two = RunLog(), RunLog()
        one.open_privately()
        two.open_privately()
        assert one.path is not None
        assert one.path.exists()
        assert alive.exists()
        assert not dead.exists()
        one.close()
        two.close()
