"""A file of a model is replaced by a whole one and put back: byte for byte, whatever it was, however far it came."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from engine_probe.errors import InputError
from engine_probe.outside import file_change
from engine_probe.outside.file_change import change_of_json, place, planned, put_back
from engine_probe.outside.look import state_of
from engine_probe.outside.whole_copies import whole_copy
from engine_probe.outside.work import StoppedError, Work
from tests.outside_samples import WEIGHTS, models, names, replaced, state

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.outside.file_change import FileChange


def test_a_cut_file_is_replaced_and_put_back_as_it_was(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    before, all_names = state(broken / WEIGHTS), names(broken)
    change = replaced(broken, WEIGHTS, whole)
    assert (broken / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    assert (broken / WEIGHTS).stat().st_mode == before[1]
    assert state(broken / f"{WEIGHTS}.r1") == before
    assert not list(broken.glob(".*"))
    put_back(change)
    assert state(broken / WEIGHTS) == before
    assert names(broken) == all_names
    put_back(change)
    assert state(broken / WEIGHTS) == before


def test_a_missing_file_comes_and_goes(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    (broken / "tokenizer.json").unlink()
    all_names = names(broken)
    change = replaced(broken, "tokenizer.json", whole / "tokenizer.json")
    assert (change.kept, (broken / "tokenizer.json").is_file()) == (None, True)
    put_back(change)
    assert names(broken) == all_names


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_file_is_moved_away_and_comes_back(is_killed: bool, tmp_path: Path) -> None:
    _, broken = models(tmp_path)
    before, all_names = state(broken / WEIGHTS), names(broken)
    notes: list[FileChange] = []

    def note(change: FileChange) -> None:
        notes.append(change)
        if is_killed:
            raise Killed

    with pytest.raises(Killed) if is_killed else nullcontext():
        place(planned(broken, WEIGHTS, "remove"), note, Work())
    assert (broken / WEIGHTS).exists() is is_killed
    put_back(change_of_json(notes[-1].as_json()))
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)
    with pytest.raises(InputError, match="there is nothing to move away"):
        planned(broken, "none.bin", "remove")


def test_of_a_link_into_the_cache_only_the_link_is_changed(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    blob = tmp_path / "blobs" / "abc"
    blob.parent.mkdir()
    (broken / WEIGHTS).rename(blob)
    (broken / WEIGHTS).symlink_to(os.path.relpath(blob, broken))
    of_blob, of_link = state(blob), state(broken / WEIGHTS)
    change = replaced(broken, WEIGHTS, whole)
    assert not (broken / WEIGHTS).is_symlink()
    assert state(blob) == of_blob
    assert state(broken / f"{WEIGHTS}.r1") == of_link
    put_back(change)
    assert (state(broken / WEIGHTS), state(blob)) == (of_link, of_blob)


def test_an_old_way_back_is_not_overwritten(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    (broken / f"{WEIGHTS}.r1").write_text("mine")
    assert replaced(broken, WEIGHTS, whole).kept == broken / f"{WEIGHTS}.r2"
    assert (broken / f"{WEIGHTS}.r1").read_text() == "mine"


@pytest.mark.parametrize("damage", ["cut", "pointer", "empty", "gone", "itself", "full"])
def test_a_source_that_is_not_whole_moves_nothing(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = models(tmp_path)
    source = whole / WEIGHTS
    said = {
        "cut": "is cut",
        "pointer": "is a git-lfs pointer",
        "empty": "is empty",
        "gone": "is not there",
        "itself": "is the file itself",
        "full": "there is not enough room",
    }[damage]
    if damage == "cut":
        os.truncate(source, source.stat().st_size - 1)
    elif damage == "pointer":
        source.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    elif damage == "empty":
        source.write_bytes(b"")
    elif damage == "gone":
        source.unlink()
    elif damage == "itself":
        shutil.copy(source, broken / WEIGHTS)
        source = broken / WEIGHTS
    else:
        nothing_left = shutil.disk_usage(tmp_path)._replace(free=0)
        monkeypatch.setattr(file_change.shutil, "disk_usage", lambda _: nothing_left)
    before, all_names = state(broken / WEIGHTS), names(broken)
    with pytest.raises(InputError, match=said):
        replaced(broken, WEIGHTS, source)
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)


def test_the_same_content_is_no_change(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    shutil.copy(whole / WEIGHTS, broken / WEIGHTS)
    all_names = names(broken)
    with pytest.raises(InputError, match="holds the same"):
        replaced(broken, WEIGHTS, whole)
    assert names(broken) == all_names


def test_a_copy_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    before, all_names = state(broken / WEIGHTS), names(broken)
    work = Work()
    work.stop()
    with pytest.raises(StoppedError):
        place(planned(broken, WEIGHTS, str(whole)), lambda _: None, work)
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)


class Killed(BaseException):
    """Stands for a death in which no clean-up runs."""


@pytest.mark.parametrize("at", ["before the copy", "in the copy", "before the name", "between the names", "after"])
def test_the_note_takes_back_what_was_half_done(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = models(tmp_path)
    before, all_names = state(broken / WEIGHTS), names(broken)
    notes: list[FileChange] = []

    def note(change: FileChange) -> None:
        notes.append(change)
        if (at, len(notes)) in (("before the copy", 1), ("before the name", 2)):
            raise Killed

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(file_change, "put_back", lambda _: None)
    if at == "in the copy":
        monkeypatch.setattr(file_change.os, "fsync", die)
    elif at == "between the names":
        monkeypatch.setattr(type(tmp_path), "replace", die)
    elif at == "after":
        monkeypatch.setattr(file_change, "_sync", die)
    with pytest.raises(Killed):
        place(planned(broken, WEIGHTS, str(whole)), note, Work())
    monkeypatch.undo()
    put_back(change_of_json(json.loads(json.dumps(notes[-1].as_json()))))
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)


def test_what_a_person_put_there_since_stays(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    change = replaced(broken, WEIGHTS, whole)
    (broken / WEIGHTS).write_text("mine")
    with pytest.raises(InputError, match=r"has changed since it was put there; as it was before: .*r1"):
        put_back(change)
    assert (broken / WEIGHTS).read_text() == "mine"
    assert (broken / f"{WEIGHTS}.r1").exists()


def test_how_a_file_is_in_words(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    size, half = (whole / WEIGHTS).stat().st_size, (broken / WEIGHTS).stat().st_size
    assert state_of(whole / WEIGHTS) == f"{size:,} bytes"
    assert state_of(broken / WEIGHTS) == f"cut ({half:,} of {size:,} bytes)"
    assert state_of(broken / "none.safetensors") == "not there"
    (broken / "tokenizer.json").write_text("{")
    assert state_of(broken / "tokenizer.json") == "no JSON object (1 bytes)"


def test_a_whole_copy_is_taken_from_what_was_given(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert whole_copy(broken, WEIGHTS, (str(empty), str(whole))).source == str(whole)
    assert whole_copy(broken, WEIGHTS, (str(whole.parent),)).source == str(whole.parent)
    none = whole_copy(broken, WEIGHTS, (str(empty),))
    assert none.source is None
    assert none.why_not == (
        f"no whole copy of {WEIGHTS} is known ({empty / WEIGHTS} is not there): "
        "give the folder that holds one, --files-from DIR"
    )


def test_a_folder_beside_is_the_same_model_only_by_its_numbers(tmp_path: Path) -> None:
    """Two models tuned from one base have the same config.json and the same tensors' names."""
    whole, broken = models(tmp_path)
    beside = shutil.copytree(whole, broken.with_name("chat-copy"))
    assert whole_copy(broken, WEIGHTS).source == str(beside)
    weights = bytearray((beside / WEIGHTS).read_bytes())
    middle = len(weights) // 4
    weights[middle : middle + 2000] = b"\x11" * 2000
    (beside / WEIGHTS).write_bytes(weights)
    assert whole_copy(broken, WEIGHTS).source is None


def test_another_snapshot_of_the_cache_and_last_the_hub(tmp_path: Path) -> None:
    whole, broken = models(tmp_path)
    snapshots = tmp_path / "hub" / "models--acme--chat" / "snapshots"
    snapshots.mkdir(parents=True)
    one = broken.rename(snapshots / "aaa")
    assert whole_copy(one, WEIGHTS).source == "hub:acme/chat@aaa"
    other = whole.rename(snapshots / "bbb")
    assert whole_copy(one, WEIGHTS).source == str(other)
