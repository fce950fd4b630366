"""What `vllm-console plan` says beside its numbers: notes, what is free, what there is none of, bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests import memory_configs as configs
from tests.memory_folders import write_config
from tui.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Plan = Callable[..., tuple[int, str, str]]

SHORT = "args: {max-model-len: 8192}"


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Of launches as the file has them, with options; the models are llama-8b, llama-70b and qwen."""
    for name, config in (("llama-8b", configs.LLAMA_8B), ("llama-70b", configs.LLAMA_70B), ("qwen", configs.QWEN_05B)):
        write_config(tmp_path / name, config)

    def run(launches: str, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "deployment.yaml"
        path.write_text(f"models:\n{launches}\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(["plan", str(path), *options])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


def object_of(found: tuple[int, str, str]) -> dict[str, Any]:
    read = json.loads(found[1])
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize("share", ["0.15", "0.22"])
def test_nothing_that_a_plan_says_looks_like_a_secret(plan: Plan, share: str) -> None:
    small = (
        f"  - {{name: a, model: llama-8b, gpus: [0], args: {{max-model-len: 8192, gpu-memory-utilization: {share}}}}}"
    )
    _, out, _ = plan(small, "--gpus", "1xH100-80GB", "--vllm", "0.19.0")
    assert "cpu-offload-gb" in out
    assert "***" not in out


@pytest.mark.parametrize("cache", ["gpu-memory-utilization: 0.92", "kv-cache-memory-bytes: 30G"])
def test_ranks_on_a_cpu_are_proposed_a_cache_that_all_of_them_have_room_for(plan: Plan, cache: str) -> None:
    args = f"{{max-model-len: 8192, tensor-parallel-size: 2, {cache}}}"
    found = object_of(
        plan(f"  - {{name: a, model: llama-8b, args: {args}}}", "--gpus", "cpu-64GB", "--vllm", "0.32.0", "--json")
    )
    (model,) = found["models"]
    assert (model["fits"], model["why_not"]["id"]) == (False, "kv-cache-bytes-exceed-memory")
    assert len(found["proposal"]["changes"]) == 1
    assert found["proposal"]["margins_gib"]["a"] >= 0
