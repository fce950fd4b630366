"""A console that is killed while it verifies: the next one puts the file back, byte for byte, or says why it cannot."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from engine_probe.deployment import read_deployment
from playbooks.case import new_case
from playbooks.context import new_session, read_context
from playbooks.replay import drive
from playbooks.unattended import Unattended
from playbooks.unverified import take_back
from tests.stand_in.ruled_probe import RuledProbe
from tests.test_fix_steps import ALIKE, DEPLOYMENT, one_card
from tui.commands.replay import replay

if TYPE_CHECKING:
    from engine_probe.launch import Launch

ROOT = Path(__file__).resolve().parent.parent
# Kills itself with the file as it is after so many written steps.
KILLED = """
import asyncio, os, signal, sys
from datetime import date
from pathlib import Path
from engine_probe.deployment import read_deployment
from playbooks.case import new_case
from playbooks.context import new_session, read_context
from playbooks.replay import drive
from playbooks.unattended import Unattended
from tests.stand_in.ruled_probe import RuledProbe
from tests.test_fix_steps import ALIKE, one_card

file, state, steps = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

class Killing(RuledProbe):
    async def load(self, launch, grade):
        if len(list(file.parent.glob("*.r*"))) == steps:
            os.kill(os.getpid(), signal.SIGKILL)
        await super().load(launch, grade)

session = new_session("c", read_deployment(file), "cold", "cold")
case = new_case(state, date(2026, 11, 29))
driving = drive(session, Killing(one_card), Unattended(fix=ALIKE), lambda *_: None, context=read_context(), case=case)
asyncio.run(driving)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "here" / "deployment.yaml"
    path.parent.mkdir()
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


def kill_after(steps: int, file: Path, state: Path) -> None:
    words = [sys.executable, "-c", KILLED, str(file), str(state), str(steps)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize("steps", [1, 2])
def test_what_a_killed_console_left_is_taken_back(steps: int, file: Path, tmp_path: Path) -> None:
    kill_after(steps, file, tmp_path)
    assert file.read_text("utf-8") != DEPLOYMENT
    (said,) = take_back(tmp_path, file)
    assert (
        said == f"case 2026-11-29-0001 was cut off while it verified a change of {file}: the file is as it was before"
    )
    assert file.read_text("utf-8") == DEPLOYMENT
    assert [one.name for one in file.parent.iterdir()] == ["deployment.yaml"]
    assert take_back(tmp_path, file) == ()


def test_a_file_that_a_person_changed_since_stays(file: Path, tmp_path: Path) -> None:
    kill_after(1, file, tmp_path)
    mine = file.read_text("utf-8") + "# mine\n"
    file.write_text(mine, encoding="utf-8")
    (said,) = take_back(tmp_path, file)
    assert "and it stays" in said
    assert "has changed on disk" in said
    assert file.read_text("utf-8") == mine
    assert file.with_name("deployment.yaml.r1").read_text("utf-8") == DEPLOYMENT
    assert take_back(tmp_path, file) == ()


def test_another_file_is_left_alone(file: Path, tmp_path: Path) -> None:
    kill_after(1, file, tmp_path)
    other = file.with_name("other.yaml")
    other.write_text(DEPLOYMENT, encoding="utf-8")
    assert take_back(tmp_path, other) == ()
    assert file.read_text("utf-8") != DEPLOYMENT


def test_replay_takes_it_back_before_it_reads_the_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kill_after(2, file, tmp_path / "vllm-console")
    words = ["co-located-models-budgets-exceed-gpu", "--deployment", str(file), "--engine", str(tmp_path / "none")]
    result = CliRunner().invoke(replay, words)
    assert "the file is as it was before" in result.stderr
    assert file.read_text("utf-8") == DEPLOYMENT


async def test_only_while_it_is_verified_it_can_be_taken_back(file: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    class Looking(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            seen.append(take_back(tmp_path, file))
            await super().load(launch, grade)

    session = new_session("c", read_deployment(file), "cold", "cold")
    case = new_case(tmp_path, date(2026, 11, 29))
    driving = drive(
        session, Looking(one_card), Unattended(fix=ALIKE), lambda *_: None, context=read_context(), case=case
    )
    session = await asyncio.wait_for(driving, 30)
    assert session.verdict == "verified"
    assert seen == [()] * 4  # this very console verifies it
    assert not (case.path / "unverified.json").exists()


NO_NOTES = [
    "",
    "[]",
    "{}",
    "no json",
    "[" * 100_000,
    json.dumps({"file": 1, "pid": "x"}),
    json.dumps({"file": None, "outside": None}),
    json.dumps({"file": None, "outside": [None]}),
    json.dumps({"file": None, "outside": [{"kind": "file", "target": 3}]}),
    json.dumps({"file": None, "outside": [{"kind": "package", "prefix": [1]}]}),
    json.dumps({"file": None, "kept": "x"}),
    json.dumps({"file": "/a/b", "kept": ["/c/d"], "digest_before": "x", "digests": []}),
]


@pytest.mark.parametrize("content", NO_NOTES)
def test_a_note_that_says_nothing_is_passed_over_and_named_once(content: str, file: Path, tmp_path: Path) -> None:
    case = new_case(tmp_path, date(2026, 11, 29))
    (case.path / "unverified.json").write_text(content, encoding="utf-8")
    (said,) = take_back(tmp_path, file)
    assert f"see {case.path / 'unverified.json.unreadable'}" in said
    assert take_back(tmp_path, file) == ()


def test_a_note_names_no_temporary_file_but_that_of_its_target(file: Path, tmp_path: Path) -> None:
    victim = file.with_name("precious")
    victim.write_text("mine", encoding="utf-8")
    case = new_case(tmp_path, date(2026, 11, 29))
    entry = {
        "kind": "file", "target": str(file), "source": "x", "temporary": str(victim), "kept": None, "placed": None,
        "was": None,
    }  # fmt: skip
    content = {"file": None, "outside": [entry]}
    (case.path / "unverified.json").write_text(json.dumps(content), encoding="utf-8")
    (said,) = take_back(tmp_path, file)
    assert "is no temporary file of" in said
    assert victim.read_text("utf-8") == "mine"


def test_nothing_is_claimed_of_a_file_that_is_not_there(file: Path, tmp_path: Path) -> None:
    gone = file.with_name("gone.safetensors")
    case = new_case(tmp_path, date(2026, 11, 29))
    entry = {
        "kind": "file", "target": str(gone), "source": "x", "kept": None, "placed": None, "was": None,
        "temporary": str(gone.with_name(".gone.safetensors.0123456789ab.vllm-console")),
    }  # fmt: skip
    (case.path / "unverified.json").write_text(json.dumps({"file": None, "outside": [entry]}), encoding="utf-8")
    (said,) = take_back(tmp_path, file)
    assert said.endswith("there is no such file now")
