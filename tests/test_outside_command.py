"""`--files-from DIR`: what diagnose and replay say of a file that can be restored, and of one that cannot."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from engine_probe.errors import InputError
from engine_probe.outside.whole_copies import not_used
from tests.outside_samples import WEIGHTS, models
from tests.test_outside_fixes import CUT, RESTORE
from tui.commands.diagnose import diagnose
from tui.commands.replay import replay

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Of diagnose; the whole files are in `whole/chat`."""
    _, broken = models(tmp_path)
    file = broken.parent / "deployment.yaml"
    file.write_text("models:\n  - {name: chat, model: ./chat}\n", encoding="utf-8")
    log = tmp_path / "vllm.log"
    log.write_text(CUT, encoding="utf-8")
    return [str(log), "--deployment", str(file)]


def restoring(words: list[str]) -> dict[str, Any]:
    result = CliRunner().invoke(diagnose, [*words, "--json"])
    cause = json.loads(result.stdout)["causes"][0]
    assert cause["id"] == "safetensors-file-corrupt"
    found: dict[str, Any] = next(one for one in cause["fixes"] if one["id"] == RESTORE)
    return found


def test_the_json_has_the_commands_and_the_way_back(words: list[str], tmp_path: Path) -> None:
    fix = restoring([*words, "--files-from", str(tmp_path / "whole")])
    weights = tmp_path / "served" / "chat" / WEIGHTS
    assert fix["unavailable"] is None
    assert fix["set"] == {f"files.{WEIGHTS}": str(tmp_path / "whole")}
    assert fix["commands"][1] == f"mv {weights} {weights}.r1"
    assert fix["way_back"] == [f"mv -f {weights}.r1 {weights}"]
    assert fix["diff"][0].startswith(f"-  files.{WEIGHTS}: cut (")
    assert fix["diff"][1] == f"+  files.{WEIGHTS}: from {tmp_path / 'whole'}"


def test_the_text_has_them_too(words: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(diagnose, [*words, "--files-from", str(tmp_path / "whole" / "chat")])
    said = " ".join(result.stdout.split())
    weights = tmp_path / "served" / "chat" / WEIGHTS
    assert f"does: mv {weights} {weights}.r1" in said
    assert f"way back: mv -f {weights}.r1 {weights}" in said


def test_without_it_the_reason_says_what_to_give(words: list[str]) -> None:
    assert "--files-from DIR" in restoring(words)["unavailable"]


@pytest.mark.parametrize("command", [diagnose, replay])
def test_a_folder_that_is_not_there(command: Any, words: list[str], tmp_path: Path) -> None:
    given = words if command is diagnose else ["safetensors-file-corrupt", *words[1:]]
    result = CliRunner().invoke(command, [*given, "--files-from", str(tmp_path / "nowhere")])
    assert f"--files-from {tmp_path / 'nowhere'}: there is no such folder" in str(result.exception)


@pytest.mark.parametrize("given", ["", " ", "hub:../..", "hub:acme/..", "hub:acme/chat@../x"])
def test_what_names_nothing_is_an_error(given: str, words: list[str]) -> None:
    result = CliRunner().invoke(replay, ["safetensors-file-corrupt", *words[1:], "--files-from", given])
    assert isinstance(result.exception, InputError)


@pytest.mark.parametrize("kind", ["pipe", "device", "hole", "its own folder", "a link to it"])
def test_what_is_of_no_use_is_said(kind: str, words: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "served" / "chat"
    place = tmp_path / "given" / WEIGHTS
    place.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = tmp_path.__class__("/dev/null")
    elif kind == "hole":
        with place.open("wb") as stream:
            stream.truncate(1 << 40)
    elif kind == "its own folder":
        place = folder
    else:
        place.symlink_to(folder / WEIGHTS)
    told = not_used(folder, WEIGHTS, (str(place), str(tmp_path / "whole")))
    assert len(told) == 1
    assert told[0].startswith(f"--files-from {place} was not used: ")
    result = CliRunner().invoke(diagnose, [*words, "--files-from", str(place), "--files-from", str(tmp_path / "whole")])
    assert f"--files-from {place} was not used: " in result.stderr


def test_a_link_to_itself_is_wrong_input(tmp_path: Path) -> None:
    loop = tmp_path / "deployment.yaml"
    loop.symlink_to(loop)
    for more in ((), ("--dry-run",)):
        words = ["safetensors-file-corrupt", "--deployment", str(loop), *more]
        result = CliRunner().invoke(replay, words)
        assert isinstance(result.exception, InputError)
        assert "Too many levels of symbolic links" in str(result.exception)
