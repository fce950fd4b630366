"""Every fault of the lab is well formed, is really broken beside a whole copy, and names what there is."""

from __future__ import annotations

import filecmp
import json
import random
from typing import TYPE_CHECKING

import pytest

from engine_probe.errors import InputError
from engine_probe.model_files.audit import audit
from playbooks.lab import faults as lab_faults
from playbooks.lab.breakers import BREAKERS
from playbooks.lab.building import build_fault, whole_sources
from playbooks.lab.choosing import can_be_cold, turns
from playbooks.lab.faults import Fault, fault_files, fault_named, faults, faults_of, read_fault
from playbooks.lab.safetensors_file import read_tensors
from playbooks.library import library_folder, load_library, playbook_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAUSES = frozenset(path.stem for path in playbook_files(library_folder())) | {"healthy"}
ALL = faults()
WORDS = {"port": "18123", "disk": "/nowhere"}
"""What surroundings would give."""

PLAIN = """\
fault: NAME
cause: weights-not-finite-or-so
title: A title
why: A reason
models:
  - name: tiny
    args: {max-model-len: 256}
"""


def names(found: tuple[Fault, ...]) -> list[str]:
    return [fault.id for fault in found]


def differs(one: Path, other: Path) -> bool:
    """Whether two folders hold other files or other bytes."""
    mine = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    theirs = {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    return mine != theirs or any(not filecmp.cmp(one / path, other / path, shallow=False) for path in mine)


@pytest.mark.parametrize("fault", ALL, ids=names(ALL))
def test_a_fault_is_broken_and_its_whole_copy_is_not(fault: Fault, tmp_path: Path) -> None:
    path = build_fault(fault, tmp_path / "lab", WORDS)
    assert path.read_text(encoding="utf-8").startswith(f"# A fault made on purpose: {fault.id}\n# ")
    for made in [one for model in fault.models for one in (model, *model.adapters)]:
        whole = tmp_path / "lab" / "whole" / made.name
        assert str(whole) in whole_sources(fault, tmp_path / "lab")
        assert differs(tmp_path / "lab" / made.name, whole) == bool(made.breaks)


def test_a_name_is_used_once_and_the_folder_is_a_family() -> None:
    assert len(set(names(ALL))) == len(ALL)
    assert {fault.family for fault in ALL} <= set(lab_faults.families())


def test_faults_of_a_cause_are_found_without_reading_the_others() -> None:
    cause = "kv-cache-too-small-for-max-model-len"
    assert names(faults_of(cause)) == [fault.id for fault in ALL if fault.cause == cause]
    assert cause in names(faults_of(cause))
    assert faults_of("no-such-cause") == ()


def test_an_unknown_family_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        faults("memry")
    assert error.value.nearest == "memory"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file of the lab's, with one text in place of another."""

    def written(old: str = "", new: str = "", *, base: str = PLAIN) -> Path:
        folder = tmp_path / "format"
        folder.mkdir(exist_ok=True)
        text = base.replace("NAME", "one").replace("weights-not-finite-or-so", "safetensors-file-corrupt")
        assert old in text
        (folder / "one.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
        return folder / "one.yaml"

    return written


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "nearest"),
    [
        ("fault: one", "fault: two", 1, "must equal the file's name 'one'", None),
        ("safetensors-file-corrupt", "safetensors-file-corupt", 2, "no playbook", "safetensors-file-corrupt"),
        ("title:", "titel:", 3, "unknown key", "title"),
        ("why: A", "needs: [gpus]\nwhy: A", 4, "no need 'gpus'", "gpu"),
        ("    args:", "    maker: tiny-lama\n    args:", 7, "no maker of models 'tiny-lama'", "tiny-llama"),
        ("    args:", "    shape: {hiden_size: 3}\n    args:", 7, "no parameter 'hiden_size'", "hidden_size"),
        ("    args:", "    shape: {seed: x}\n    args:", 7, "tiny-llama.seed: expected", None),
        ("    args:", "    break: [{cutt: {file: a}}]\n    args:", 7, "no way to break 'cutt'", "cut"),
        ("    args:", "    break: [{cut: {}}]\n    args:", 7, "cut wants the parameter 'file'", None),
        ("    args:", "    break: [{cut: {file: a}, empty: {file: a}}]\n    args:", 7, "one name", None),
        ("    args:", "    lora: {a: {rang: 3}}\n    args:", 7, "no parameter 'rang'", "rank"),
        ("    args:", "    lora: {a: {break: 3}}\n    args:", 7, "a list of ways", None),
        ("    args:", "    same_files_as: other\n    args:", 7, "no model 'other' before", None),
        ("why: A", "surroundings: [{lissten: {}}]\nwhy: A", 4, "no surrounding 'lissten'", "listen"),
        ("  - name: tiny", "  - name: tiny\n  - name: tiny", 7, "taken already", None),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    write: Callable[..., Path], old: str, new: str, line: int, message: str, nearest: str | None
) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_fault(write(old, new), CAUSES)
    assert (error.value.line, error.value.nearest) == (line, nearest)


def test_two_models_may_serve_the_same_files(write: Callable[..., Path], tmp_path: Path) -> None:
    fault = read_fault(write("    args:", "  - name: twin\n    same_files_as: tiny\n    args:"), CAUSES)
    text = build_fault(fault, tmp_path / "lab").read_text(encoding="utf-8")
    assert text.count("model: ./tiny ") == 2
    assert [model.name for model in fault.models] == ["tiny"]


def test_values_are_filled_and_braces_of_json_stay(write: Callable[..., Path], tmp_path: Path) -> None:
    values = "{hf-overrides: '{\"a\": 1}', chat-template: '{folder}/t', port: '{port}'}"
    fault = read_fault(write("{max-model-len: 256}", values), CAUSES)
    text = build_fault(fault, tmp_path / "lab", {"port": "77"}).read_text(encoding="utf-8")
    assert '{"a": 1}' in text
    assert f"{tmp_path / 'lab'}/t" in text
    assert '"77"' in text


@pytest.fixture
def model(write: Callable[..., Path], tmp_path: Path) -> Path:
    small = "{hidden_size: 16, intermediate_size: 32, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8}"
    fault = read_fault(write("    args:", f"    shape: {small}\n    args:"), CAUSES)
    build_fault(fault, tmp_path / "lab")
    return tmp_path / "lab" / "tiny"


def broken(folder: Path, way: str, /, **parameters: object) -> None:
    function = BREAKERS._functions[way]
    function(folder, **parameters)


def test_ways_to_break_a_file(model: Path) -> None:
    weights = model / "model.safetensors"
    size = weights.stat().st_size
    broken(model, "cut", file=weights.name, keep_share=0.25)
    assert weights.stat().st_size == size // 4
    broken(model, "lfs-pointer", file=weights.name)
    assert weights.read_bytes().startswith(b"version https://git-lfs.github.com/spec/v1\n")
    broken(model, "web-page", file=weights.name)
    assert weights.read_bytes().startswith(b"<!DOCTYPE html>")
    broken(model, "empty", file=weights.name)
    assert weights.read_bytes() == b""
    broken(model, "rename", file=weights.name, to="other.bin")
    broken(model, "remove", files=["other.bin"])
    broken(model, "write", file="sub/new.txt", text="x")
    assert not weights.exists()
    assert (model / "sub" / "new.txt").read_text(encoding="utf-8") == "x"
    broken(model, "edit-json", set={"rope.factor": 2}, remove=["hidden_size"])
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    assert config["rope"] == {"factor": 2}
    assert "hidden_size" not in config


def test_ways_to_break_tensors(model: Path) -> None:
    file = model / "model.safetensors"
    before = read_tensors(file)
    broken(model, "drop-tensors", names=["lm_head.*"])
    broken(model, "rename-tensors", find=r"^model\.", to="transformer.")
    broken(model, "add-tensor", name="more", shape=[2, 3])
    broken(model, "reshape-tensors", names=["transformer.norm.weight"], shape=[4])
    broken(model, "nan-tensors", names=["*.up_proj.weight"])
    broken(model, "float32-tensors", names=["*.down_proj.weight"])
    after = read_tensors(file)
    assert set(after) == {name.replace("model.", "transformer.", 1) for name in before} - {"lm_head.weight"} | {"more"}
    assert after["transformer.norm.weight"].shape == (4,)
    assert {after["transformer.layers.0.mlp.up_proj.weight"].data[i : i + 2] for i in (0, 2)} == {b"\xc0\x7f"}
    wide, narrow = (
        found[f"{top}.layers.0.mlp.down_proj.weight"] for found, top in ((after, "transformer"), (before, "model"))
    )
    assert (wide.dtype, wide.data[2:4]) == ("F32", narrow.data[:2])
    broken(model, "retype-tensors", names=["more"], dtype="I8")
    assert (read_tensors(file)["more"].dtype, len(read_tensors(file)["more"].data)) == ("I8", 6)


def test_a_tenth_runs_cold_by_the_seed_and_import_faults_always() -> None:
    planned = turns(ALL, all_cold=False, seed=5)
    warm_ones = [turn.fault for turn in planned if not turn.fault.spec.cold]
    chosen = [turn.fault.id for turn in planned if turn.grade == "cold" and not turn.fault.spec.cold]
    assert len(chosen) == -(-len(warm_ones) // 10)
    assert [turn.grade for turn in turns(ALL, all_cold=False, seed=5)] == [turn.grade for turn in planned]
    others = {tuple(turn.grade for turn in turns(ALL, all_cold=False, seed=seed)) for seed in range(5)}
    assert len(others) > 1
    assert {turn.grade for turn in turns(ALL, all_cold=True, seed=None) if can_be_cold(turn.fault)} == {"cold"}
    by_choice = {turn.fault.id for turn in turns(ALL, all_cold=False, seed=None) if turn.grade == "cold"}
    assert by_choice == {fault.id for fault in ALL if fault.spec.cold}


def test_room_counted_from_the_warm_process_is_never_given_to_cold_loads() -> None:
    limited = {fault.id for fault in ALL if not can_be_cold(fault)}
    assert "two-pools-one-limit" in limited
    for seed in range(50):
        assert not limited & {turn.fault.id for turn in turns(ALL, all_cold=False, seed=seed) if turn.grade == "cold"}


def test_a_fault_is_found_by_name_alone() -> None:
    path = random.Random(3).choice(fault_files())
    assert fault_named(path.stem).path == path


def test_the_audit_calls_the_whole_model_whole(model: Path) -> None:
    assert audit(model.parent / "whole" / "tiny").troubles == ()


def test_what_the_lab_covers() -> None:
    library = {one.id: one.spec for one in load_library()}
    ill = [fault for fault in ALL if not fault.is_healthy]
    assert len(ill) >= 60
    assert len({fault.cause for fault in ill}) >= 45
    assert {fault.family for fault in ill} == set(lab_faults.families())
    symptoms = {fault.spec.symptom or library[fault.cause].symptom for fault in ill}
    assert symptoms == {"does-not-start", "crashes-while-running", "answers-are-wrong"}
    assert len([fault for fault in ALL if len(fault.spec.models) > 1]) >= 8
    assert len([fault for fault in ALL if fault.is_healthy]) >= 8


def test_a_third_runs_with_every_test() -> None:
    chosen = [fault for fault in ALL if fault.spec.third]
    assert len(chosen) * 3 >= len(ALL)
    assert {fault.family for fault in chosen} == set(lab_faults.families())
    assert any(fault.is_healthy for fault in chosen)
    assert any(len(fault.spec.models) > 1 for fault in chosen)
