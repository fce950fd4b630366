"""What a launch says and no plan can count is an error at its line, with the nearest value or folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment_places import nearest_folder
from engine_probe.errors import InputError
from tests import memory_configs as configs
from tests.memory_folders import write_config
from tui.plan_inputs import read_inputs

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "models:\n  - name: first\n    model: llama-8b\n  - name: second\n"


@pytest.mark.parametrize(
    ("rest", "line", "nearest"),
    [
        ("    model: llama-8b\n    args:\n      gpu-memory-utilization: 90\n", 7, "0.9"),
        ("    model: llama-8b\n    args:\n      gpu_memory_utilization: 1.5\n", 7, "0.015"),
        ("    model: llama-8b\n    args:\n      max-num-seqs: 4\n      -tp: 0\n", 8, None),
        ("    model: llama-8b\n    args: {max-model-len: 0.5}\n", 6, None),
        ('    model: llama-8b\n    env:\n      VLLM_CPU_KVCACHE_SPACE: "4G"\n', 7, None),
        ("    model: llama-8\n", 5, "llama-8b"),
        ("    model: ./lama-8b\n", 5, "llama-8b"),
        ("    args: {max-model-len: 8192}\n    model: nothing/like/it\n", 6, None),
    ],
)
def test_a_value_of_no_use_is_an_error_where_it_is_written(
    tmp_path: Path, rest: str, line: int, nearest: str | None
) -> None:
    write_config(tmp_path / "llama-8b", configs.LLAMA_8B)
    path = tmp_path / "deployment.yaml"
    path.write_text(HEAD + rest, encoding="utf-8")
    with pytest.raises(InputError) as found:
        read_inputs(path, "1xH100", "0.19.0")
    assert (found.value.file, found.value.line) == (str(path), line)
    assert found.value.snippet
    assert (found.value.nearest or "").endswith(nearest or "")
    assert (found.value.nearest is None) is (nearest is None)


def test_of_another_kind_of_file_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text("vllm serve ./absent --gpu-memory-utilization 0.5\n", encoding="utf-8")
    with pytest.raises(InputError) as found:
        read_inputs(path, "1xH100", "0.19.0")
    assert found.value.file == str(path)


def test_the_first_part_of_a_path_that_is_not_there_is_put_right(tmp_path: Path) -> None:
    (tmp_path / "models" / "llama-8b").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("no folder", encoding="utf-8")
    assert nearest_folder("modles/llama-8b", tmp_path) == "models/llama-8b"
    assert nearest_folder("models/lama-8b", tmp_path) == "models/llama-8b"
    assert nearest_folder(str(tmp_path / "models" / "lama-8b"), tmp_path) == str(tmp_path / "models" / "llama-8b")
    assert nearest_folder("notes.txd", tmp_path) is None
    assert nearest_folder("notes.txt/x", tmp_path) is None
