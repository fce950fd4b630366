"""`vllm-console plan`: what is proposed as text and JSON, applied as one revision, written as a new file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.deployment import read_deployment
from tests.plan_proposal_samples import write_models
from tui.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HARDWARE = ("--gpus", "8xA100-80GB", "--vllm", "0.19.0")
TWO = """\
# Both on all GPUs.
models:
  - name: qwen          # answers
    model: ./qwen-72b
    args:
      tensor-parallel-size: 8   # all of them
  - name: llama
    model: ./llama-70b
    args: {tensor_parallel_size: 8, gpu_memory_utilization: 0.9}
    env: {HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz0123}
"""
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_models(tmp_path)
    path = tmp_path / "deployment.yaml"
    path.write_text(TWO, encoding="utf-8")
    return path


def plan(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, words)])
    return int(ended.value.code or 0)


def run(*words: object) -> int:
    return plan(*words, *HARDWARE)


def run_json(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = run(*words, "--json")
    return code, json.loads(capsys.readouterr().out)


def test_json_has_changes_reasons_and_the_deployment(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run_json(capsys, file)
    assert code == 1
    proposal = found["proposal"]
    assert [(one["launch"], list(one["set"])) for one in proposal["changes"]] == [
        ("qwen", ["args.gpu-memory-utilization"]),
        ("llama", ["args.gpu-memory-utilization"]),
    ]
    assert all(one["why"] and one["costs"] for one in proposal["changes"])
    assert [one["expect"] for one in proposal["changes"]] == [["load.is_serving is true"]] * 2
    first = proposal["deployment"]["models"][0]
    assert first["name"] == "qwen"
    assert first["args"]["gpu-memory-utilization"] == proposal["changes"][0]["set"]["args.gpu-memory-utilization"]
    assert proposal["is_safe"] is True
    assert found["no_proposal"] is None
    assert {"launch", "kind", "what", "set", "fits", "all_fit", "costs"} <= set(found["alternatives"][0])
    assert TOKEN not in json.dumps(found)


def test_text_has_the_difference_and_what_it_costs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file) == 1
    text = capsys.readouterr().out
    assert "proposal: with 2 changes all models fit" in text
    assert "-  args.gpu-memory-utilization: 0.9" in text
    assert "why: " in text
    assert "costs: KV cache:" in text
    assert "what else would help (not applied)" in text
    assert file.read_text(encoding="utf-8") == TWO, "nothing is changed by looking"


def test_apply_makes_one_revision_and_keeps_comments(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run_json(capsys, file, "--apply", "--yes")
    assert code == 0
    kept = file.with_name("deployment.yaml.r1")
    assert found["applied"] == {"file": str(file), "kept": str(kept)}
    assert kept.read_text(encoding="utf-8") == TWO
    text = file.read_text(encoding="utf-8")
    assert "# Both on all GPUs." in text
    assert "# answers" in text
    assert "# all of them" in text
    assert "gpu_memory_utilization: 0.9}" not in text
    assert run_json(capsys, file)[1]["fits"] is True
    code, again = run_json(capsys, file, "--apply", "--yes")
    assert code == 0
    assert again["applied"] is None
    assert not file.with_name("deployment.yaml.r2").exists()
    assert file.read_text(encoding="utf-8") == text, "twice is once"


def test_apply_asks_and_where_nobody_can_answer_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run_json(capsys, file, "--apply")
    assert code == 1
    assert found["applied"] is None
    assert file.read_text(encoding="utf-8") == TWO
    assert not list(file.parent.glob("*.r*"))


def test_a_no_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("click.confirm", confirm)
    assert run(file, "--apply") == 1
    assert asked == ["Apply it?"]
    assert "as it is now it stays as" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == TWO


def test_write_makes_a_new_file_beside_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = file.with_name("mended.yaml")
    code, found = run_json(capsys, file, "--write", target)
    assert code == 0
    assert found["written"] == str(target)
    text = target.read_text(encoding="utf-8")
    assert "# answers" in text
    assert "./qwen-72b" in text
    assert file.read_text(encoding="utf-8") == TWO
    assert run_json(capsys, target)[1]["fits"] is True


def test_written_elsewhere_the_models_are_still_those(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = file.parent / "elsewhere"
    folder.mkdir()
    code, _ = run_json(capsys, file, "--write", folder / "mended.yaml")
    assert code == 0
    models = read_deployment(folder / "mended.yaml").models
    assert [one.model for one in models] == [one.model for one in read_deployment(file).models]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--write", "deployment.yaml"), "is there already"),
        (("--apply", "--write", "x.yaml"), "one of them is wanted"),
        (("--keep", "qwen"), "tokens are wanted"),
        (("--keep", "nobody=8192"), "no launch 'nobody'"),
        (("--keep", "0"), "tokens are wanted"),
    ],
)
def test_bad_input_is_one_error(
    file: Path,
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(file.parent)
    assert run(file, *words) == 2
    assert said in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == TWO


def test_what_must_be_kept_is_kept(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("models:\n  - {name: a, model: ./llama-8b-long, gpus: [0]}\n", encoding="utf-8")
    words = (file, "--gpus", "1xL4-24GB", "--vllm", "0.19.0", "--json")
    assert plan(*words) == 1
    assert json.loads(capsys.readouterr().out)["proposal"]["changes"][0]["set"]["args.max-model-len"] < 100_000
    assert plan(*words, "--keep", "100000") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["proposal"] is None
    assert "100,000" in found["no_proposal"]


def test_a_list_in_one_line_cannot_be_put_in_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "models: [{name: a, model: ./small, gpus: [0], args: {gpu-memory-utilization: 0.2}}, "
        "{name: b, model: ./small, gpus: [0], args: {kv-cache-memory-bytes: 4294967296}}]\n"
    )
    file.write_text(text, encoding="utf-8")
    words = ("--gpus", "1xA100-80GB", "--vllm", "0.19.0", "--apply", "--yes")
    assert plan(file, *words) == 2
    assert "order stays" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == text
