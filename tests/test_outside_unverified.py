"""A console killed while it changes a model's files or proves that: the next one puts them back, or says why."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from playbooks.unverified import take_back
from tests.outside_samples import WEIGHTS, models, names, state
from tui.commands.replay import replay

ROOT = Path(__file__).resolve().parent.parent
DEPLOYMENT = "models:\n  - {name: chat, model: ./chat, args: {max-model-len: 64}}\n"
# Kills itself at the named moment: in the copy, between the copy and the name, or while the fix is verified.
KILLED = """
import asyncio, os, signal, sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from engine_probe.deployment import read_deployment
from engine_probe.outside import file_change
from playbooks.case import new_case
from playbooks.context import new_session, read_context
from playbooks.replay import drive
from playbooks.unattended import Unattended
from tests.stand_in.ruled_probe import RuledProbe
from tests.test_outside_fixes import CUT, RESTORE

file, state, whole, at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Killing(RuledProbe):
    async def load(self, launch, grade):
        if self.asked and at == "verifying":
            die()
        await super().load(launch, grade)

if at == "copying":
    file_change.os.fsync = lambda *_: die() if "vllm-console" in str(list(file.parent.glob("chat/.*"))) else None
if at == "named":
    file_change._sync = die
session = replace(new_session("c", read_deployment(file), "cold", "cold"), file_sources=(whole,))
case = new_case(state, date(2026, 11, 29))
probe = Killing(lambda *_: CUT)
asyncio.run(drive(session, probe, Unattended(fix=RESTORE), lambda *_: None, context=read_context(), case=case))
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The deployment's file, the model's folder, the whole files."""
    whole, broken = models(tmp_path)
    file = broken.parent / "deployment.yaml"
    file.write_text(DEPLOYMENT, encoding="utf-8")
    return file, broken, whole


def kill_at(moment: str, places: tuple[Path, Path, Path], state_folder: Path) -> None:
    file, _, whole = places
    words = [sys.executable, "-c", KILLED, str(file), str(state_folder), str(whole), moment]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize("moment", ["copying", "named", "verifying"])
def test_the_file_is_put_back_at_the_next_start(moment: str, places: tuple[Path, Path, Path], tmp_path: Path) -> None:
    file, broken, _ = places
    before, all_names = state(broken / WEIGHTS), names(broken)
    kill_at(moment, places, tmp_path)
    assert names(broken) != all_names
    (said,) = take_back(tmp_path, file)
    assert said == (
        f"case 2026-11-29-0001 was cut off while it changed or verified {broken / WEIGHTS}: "
        "the file is as it was before"
    )
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)
    assert take_back(tmp_path, file) == ()


def test_replay_says_and_does_it_first(
    places: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, broken, _ = places
    before = state(broken / WEIGHTS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kill_at("verifying", places, tmp_path / "vllm-console")
    words = ["safetensors-file-corrupt", "--deployment", str(file), "--engine", str(tmp_path / "none")]
    result = CliRunner().invoke(replay, words)
    assert "the file is as it was before" in result.stderr
    assert state(broken / WEIGHTS) == before


def test_what_a_person_put_there_since_stays(places: tuple[Path, Path, Path], tmp_path: Path) -> None:
    file, broken, _ = places
    kill_at("verifying", places, tmp_path)
    (broken / WEIGHTS).write_text("mine")
    (said,) = take_back(tmp_path, file)
    assert "and it stays" in said
    assert f"as it was before: {broken / WEIGHTS}.r1" in said
    assert (broken / WEIGHTS).read_text() == "mine"
    assert take_back(tmp_path, file) == ()


def test_a_note_that_cannot_be_read_is_said(places: tuple[Path, Path, Path], tmp_path: Path) -> None:
    file, _, _ = places
    note = tmp_path / "cases" / "2026-11-29-0001" / "unverified.json"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"file": str(file), "outside": [{"kind": "file"}]}))
    (said,) = take_back(tmp_path, file)
    assert "its note cannot be read" in said
    assert not note.exists()


def test_an_engine_that_is_gone_is_tried_again(places: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """The packages of another host are put back once it can be reached."""
    file, _, _ = places
    note = tmp_path / "cases" / "2026-11-29-0001" / "unverified.json"
    note.parent.mkdir(parents=True)
    entry = {
        "kind": "package", "prefix": [str(tmp_path / "none")], "label": "gone", "joined_by_shell": False, "env": {},
        "name": "numpy", "value": "1.0", "names": ["numpy"], "versions": {}, "archive": None, "half_removed": [],
        "is_begun": True,
    }  # fmt: skip
    note.write_text(json.dumps({"file": str(file), "outside": [entry]}))
    for _ in range(2):
        (said,) = take_back(tmp_path, file)
        assert "numpy of gone, and it stays" in said
        assert note.exists()
