"""A person's own playbooks: written, checked, and used by every command that looks for causes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from engine_probe.errors import InputError
from playbooks.context import read_context
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.library import find, own_folder
from tui.commands.playbooks import playbooks
from tui.commands.replay import replay

KV = "kv-cache-too-small-for-max-model-len"


def new_own(*words: str) -> Path:
    """What `playbooks new` wrote."""
    result = CliRunner().invoke(playbooks, ["new", *words])
    assert result.exception is None, result.output
    return Path(result.stdout.strip())


def test_an_own_playbook_takes_part_in_every_diagnosis() -> None:
    path = new_own("my-cause", "--family", "memory")
    assert path == own_folder() / "memory" / "my-cause.yaml"
    assert find(read_context().library, "my-cause").path == path


def test_replay_takes_an_own_playbook(tmp_path: Path) -> None:
    new_own("my-cause", "--family", "memory")
    path = build_fault(fault_named(KV), tmp_path / "lab")
    words = ["my-cause", "--deployment", str(path), "--engine", str(tmp_path / "nowhere")]
    error = CliRunner().invoke(replay, words).exception
    assert isinstance(error, InputError)
    assert "no engine at" in str(error)  # the playbook was found: the next thing is amiss


@pytest.mark.parametrize(
    "words", [["memory/my-cause"], ["memory/my-cause", "--family", "memory"], ["my-cause", "--family", "memory"]]
)
def test_the_family_may_stand_before_the_name(words: list[str]) -> None:
    assert new_own(*words) == own_folder() / "memory" / "my-cause.yaml"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["memory/my-cause", "--family", "lora"], "give one of the two"),
        (["memry/my-cause"], 'did you mean "memory"'),
        (["a/memory/my-cause"], "no family 'a/memory'"),
        (["memory/"], "is no id"),
    ],
)
def test_a_name_that_cannot_be_leaves_nothing_behind(words: list[str], said: str) -> None:
    error = CliRunner().invoke(playbooks, ["new", *words]).exception
    assert isinstance(error, InputError)
    assert said in str(error)
    assert not own_folder().exists()


def test_check_names_every_text_of_the_draft_that_is_left() -> None:
    path = new_own("memory/my-cause")
    error = CliRunner().invoke(playbooks, ["check", str(path)]).exception
    assert isinstance(error, InputError)
    told = [one for one in (error, *error.more) if "still the draft's text" in one.message]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert {lines[one.line - 1].strip().removeprefix("- ").partition(":")[0] for one in told if one.line} == {
        "title", "summary", "log", "line", "claim", "why", "you_lose"
    }  # fmt: skip


def test_a_draft_that_was_filled_in_is_fine() -> None:
    path = new_own("memory/my-cause")
    text = path.read_text(encoding="utf-8")
    for mine, old in (
        ("The limit is too low", "One line that says what is wrong"),
        ("It stops.", "What happens, for a tired person, in three lines."),
        ("the limit of", "this line says what is wrong"),
        ("all is well", "everything is fine"),
        ("It was set.", "A sentence that can be false."),
        ("It is higher.", "Why this mends it."),
        ("Memory.", "What it costs."),
    ):
        assert old in text
        text = text.replace(old, mine)
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(playbooks, ["check"])
    assert result.exception is None, result.exception
    assert f"{path}: fine" in result.output
