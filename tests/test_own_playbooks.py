"""A person's own playbooks: written, checked, and used by every command that looks for causes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine_probe.errors import InputError
from playbooks.context import read_context
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.library import find, own_folder
from tui.cli import main
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
    result = CliRunner().invoke(playbooks, ["check", str(path)])
    assert result.exception is None, result.exception
    assert f"{path}: fine" in result.output


WRONG = {
    "bytes": b"title: bytes\n\xff\xfe",
    "key": b"title: key\nsurprise: 1\n",
    "empty": b"",
}


@pytest.fixture
def wrong_ones() -> dict[str, Path]:
    """Own playbooks that cannot be read, beside one that can."""
    right = new_own("my-cause", "--family", "memory")
    slow = right.with_name("slow.yaml")
    text = right.read_text(encoding="utf-8").replace("my-cause", "slow")
    slow.write_text(re.sub(r"(?m)^(\s*(?:- )?log: ).*$", r"\1'(a+)+$'", text, count=1), encoding="utf-8")
    paths = {"slow": slow}
    for name, content in WRONG.items():
        paths[name] = right.with_name(f"{name}.yaml")
        paths[name].write_bytes(content)
    (right.parent.parent / "lora").mkdir()
    paths["twice"] = right.parent.parent / "lora" / "my-cause.yaml"
    paths["twice"].write_bytes(right.read_bytes())
    fifo = right.with_name("fifo.yaml")
    os.mkfifo(fifo)
    return {**paths, "fifo": fifo}


def test_a_wrong_own_playbook_is_left_out_and_the_others_are_there(wrong_ones: dict[str, Path]) -> None:
    context = read_context()
    assert find(context.library, "my-cause")
    assert find(context.library, KV)
    told = "\n".join(context.left_out)
    of_two = 1  # either of two with one id may be the one that is taken
    assert len(context.left_out) == len(wrong_ones), told
    assert sum(str(path) in told for path in wrong_ones.values()) >= len(wrong_ones) - of_two


@pytest.mark.parametrize("words", [["playbooks", "list"], ["playbooks", "show", KV], ["diagnose", "{log}"]])
def test_a_command_goes_on_and_says_which_playbook_is_left_out(
    words: list[str], wrong_ones: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("INFO 11-29 10:00:00 [api_server.py:1] vLLM API server version 0.13.0\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main([word.format(log=log) for word in words])
    assert ended.value.code in (0, 3)
    told = capsys.readouterr().err
    assert f"left out: {wrong_ones['bytes']}:2: is not UTF-8 text" in told
    assert f'{wrong_ones["key"]}:2: unknown key "surprise"' in told


def test_check_stays_strict(wrong_ones: dict[str, Path]) -> None:
    names = ("bytes", "key", "empty", "fifo", "slow")
    error = CliRunner().invoke(playbooks, ["check", *(str(wrong_ones[name]) for name in names)]).exception
    assert isinstance(error, InputError)
    assert all(str(wrong_ones[name]) in str(error) for name in names)
