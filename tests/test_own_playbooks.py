"""A person's own playbooks: written, checked, and used by every command that looks for causes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from engine_probe.errors import InputError
from playbooks.context import read_context
from playbooks.lab.faults import build_fault, fault_named
from playbooks.load import find, load_library, own_folder
from tui.commands.playbooks import playbooks
from tui.commands.replay import replay

KV = "kv-cache-too-small-for-max-model-len"


def new_own(*words: str) -> Path:
    """What `playbooks new` wrote."""
    result = CliRunner().invoke(playbooks, ["new", *words])
    assert result.exception is None, result.output
    return Path(result.output.splitlines()[0])


def test_an_own_playbook_takes_part_in_every_diagnosis() -> None:
    path = new_own("my-cause", "--family", "memory")
    assert path == own_folder() / "memory" / "my-cause.yaml"
    assert find(read_context().library, "my-cause").path == path


def test_replay_takes_an_own_playbook(tmp_path: Path) -> None:
    new_own("my-cause", "--family", "memory")
    path = build_fault(fault_named(load_library(), KV), tmp_path / "lab")
    words = ["my-cause", "--deployment", str(path), "--engine", str(tmp_path / "nowhere")]
    error = CliRunner().invoke(replay, words).exception
    assert isinstance(error, InputError)
    assert "no engine at" in str(error)  # the playbook was found: the next thing is amiss
