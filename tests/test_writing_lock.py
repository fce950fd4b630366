"""Two sessions on one deployment or one model's folder: the second one is told who is there, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.errors import InputError
from engine_probe.outside.file_change import change_of_json, place, planned, put_back
from engine_probe.outside.work import Work
from engine_probe.revisions import write_revision
from playbooks.writing_lock import take
from tests.outside_samples import WEIGHTS, models, state

ROOT = Path(__file__).resolve().parent.parent
DEPLOYMENT = "models:\n  - {name: chat, model: ./chat, args: {max-model-len: 64}}\n"
HOLDING = """
import sys, time
from pathlib import Path
from playbooks.writing_lock import take
lock = take(Path(sys.argv[1]), Path(sys.argv[2]), "2026-11-29-0007")
print("held", flush=True)
sys.stdin.read()
"""


def test_the_second_one_is_told_who_has_it_and_a_dead_one_has_nothing(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    words = [sys.executable, "-c", HOLDING, str(tmp_path / "state"), str(file)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError) as caught:
            take(tmp_path / "state", file)
        assert f"process {holder.pid}, case 2026-11-29-0007" in str(caught.value)
        take(tmp_path / "state", tmp_path / "other.yaml").release()
        holder.send_signal(signal.SIGKILL)
    lock = take(tmp_path / "state", file)
    with pytest.raises(InputError):
        take(tmp_path / "state", tmp_path / "." / "deployment.yaml")
    lock.release()
    take(tmp_path / "state", file).release()


def test_replay_of_a_file_that_is_worked_on_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT, encoding="utf-8")
    lock = take(tmp_path / "vllm-console", file, "2026-11-29-0007")
    words = [sys.executable, "-m", "tui.cli", "replay", "safetensors-file-corrupt", "--deployment", str(file)]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    lock.release()
    assert result.returncode == 2, result.stderr
    assert f"process {os.getpid()}, case 2026-11-29-0007" in " ".join(result.stderr.split())


def test_two_changes_of_one_file_lose_none_of_its_contents(tmp_path: Path) -> None:
    """Also where no lock could be had: both were planned before one of them was made."""
    whole, broken = models(tmp_path)
    before = state(broken / WEIGHTS)
    one, two = (planned(broken, WEIGHTS, str(whole)) for _ in range(2))
    assert one.temporary != two.temporary
    made = place(one, lambda _: None, Work())
    with pytest.raises(InputError):
        place(two, lambda _: None, Work())
    put_back(change_of_json(json.loads(json.dumps(made.as_json()))))
    assert state(broken / WEIGHTS) == before


def test_what_another_one_kept_is_not_touched(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    notes = []
    change = planned(broken, WEIGHTS, str(whole))
    assert change.kept is not None
    kept = change.kept

    def note(now: object) -> None:
        notes.append(now)
        if len(notes) == 2:
            kept.write_text("another's")

    before = state(broken / WEIGHTS)
    with pytest.raises(InputError, match="has come there meanwhile"):
        place(change, note, Work())
    assert kept.read_text() == "another's"
    assert state(broken / WEIGHTS) == before


def test_a_revision_takes_no_name_that_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT, encoding="utf-8")

    def other_first(_: object) -> None:
        file.with_name("deployment.yaml.r1").write_text("another's")

    with pytest.raises(InputError):
        write_revision(file, read_deployment(file), "chat", "args.max-model-len", 32, announce=other_first)
    assert file.with_name("deployment.yaml.r1").read_text() == "another's"
    assert file.read_text("utf-8") == DEPLOYMENT
