"""`vllm-console plan` of a compose file, a script and what runs here, and what it learns from a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Known
from engine_probe.hardware import watch
from engine_probe.hardware.gpus import read_gpus
from engine_probe.hardware.host import read_host
from engine_probe.hardware.reading import NOT_SAID, MemorySplit, Reading, Server
from engine_probe.memory.estimates import Estimate
from tests import memory_configs as configs
from tests.fake_gpus import FakeGpu
from tests.memory_folders import write_config
from tui.cli import main
from tui.plan_inputs import running_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fake_gpus import FakeDriver

HARDWARE = ("--gpus", "8xA100-80GB", "--vllm", "0.19.0")
WORDS = "--max-model-len 8192 --gpu-memory-utilization 0.9"
LOG = """\
(APIServer pid=10) INFO 03-02 10:11:12 [api_server.py:1772] vLLM API server version 0.19.0
(EngineCore_DP0 pid=20) INFO 03-02 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.19.0) with config: model='{model}', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1
(EngineCore_DP0 pid=20) INFO 03-02 10:11:40 [gpu_model_runner.py:3600] Model loading took 15.35 GiB memory and 9.1 seconds
(EngineCore_DP0 pid=20) INFO 03-02 10:11:45 [gpu_worker.py:375] Available KV cache memory: 54.11 GiB
(EngineCore_DP0 pid=20) INFO 03-02 10:11:46 [kv_cache_utils.py:1087] GPU KV cache size: 443,264 tokens
(APIServer pid=10) INFO:     Application startup complete.
"""  # noqa: E501


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_config(tmp_path / "llama-8b", configs.LLAMA_8B)
    return tmp_path / "llama-8b"


@pytest.fixture
def files(model: Path) -> dict[str, Path]:
    """The same launch in three kinds of files."""
    folder = model.parent
    texts = {
        "deployment.yaml": "models:\n  - {name: llama-8b, model: llama-8b, gpus: [0], "
        "args: {max-model-len: 8192, gpu-memory-utilization: 0.9}}\n",
        "compose.yaml": "services:\n  chat:\n    image: vllm/vllm-openai:v0.19.0\n"
        f"    command: --model {model} {WORDS}\n    volumes: ['{folder}:{folder}']\n",
        "start.sh": f"#!/bin/sh\nCUDA_VISIBLE_DEVICES=0 vllm serve {model} {WORDS}\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: folder / name for name in texts}


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, words)])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def planned(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    _, out, _ = run(capsys, *words, *HARDWARE, "--json")
    found: dict[str, Any] = json.loads(out)["models"][0]
    return found


def test_a_compose_file_and_a_script_plan_as_a_deployment_does(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pools = {name: planned(capsys, path)["kv_pool_gib"] for name, path in files.items()}
    assert len(set(pools.values())) == 1, pools
    assert pools["start.sh"] > 50


def test_what_was_not_understood_is_said(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    script = files["start.sh"]
    script.write_text(script.read_text(encoding="utf-8") + "for i in 1 2; do vllm serve m$i; done\n", encoding="utf-8")
    code, out, _ = run(capsys, script, *HARDWARE)
    assert code == 0
    assert "note: " in out
    assert "3" in out.split("note: ", 1)[1]


def test_only_a_deployment_file_is_changed(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    script = files["start.sh"]
    too_long = script.read_text(encoding="utf-8").replace(
        "--gpu-memory-utilization 0.9", "--gpu-memory-utilization 0.1"
    )
    script.write_text(too_long, encoding="utf-8")
    code, _, err = run(capsys, script, *HARDWARE, "--apply", "--yes")
    assert (code, script.read_text(encoding="utf-8")) == (2, too_long)
    assert "--write FILE" in err
    made = script.with_name("made.yaml")
    assert run(capsys, script, *HARDWARE, "--write", made)[0] == 0
    assert run(capsys, made, *HARDWARE)[0] == 0


def test_what_a_start_printed_is_used_by_later_plans(
    files: dict[str, Path], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = model.parent / "engine.log"
    log.write_text(LOG.format(model=model), encoding="utf-8")
    before = planned(capsys, files["deployment.yaml"])
    code, out, _ = run(capsys, files["deployment.yaml"], "--learn", log, "--gpus", "A100-80GB")
    assert (code, out) == (0, f"1 start of llama-8b learnt from {log}\n")
    after = planned(capsys, files["deployment.yaml"])
    assert before["weights_gib"] != after["weights_gib"] == 15.35
    assert "learnt" in after["sources"]["weights_gib"]
    assert run(capsys, files["deployment.yaml"], "--learn", log, "--gpus", "A100-80GB")[0] == 1


def test_the_servers_that_run_here(
    model: Path, fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_driver.show(FakeGpu(used_gib=70.0), FakeGpu())
    release, stage, held = (Known(value, "parsed", "a log") for value in ("0.19.0", "serving", 69.0))
    server = Server(
        name="llama-8b",
        model=str(model),
        pid=4711,
        pids=(4711,),
        state="serving",
        started=1.0,
        stage=stage,
        argv=("vllm", "serve", str(model), *WORDS.split()),
        version=release,
        gpus=(0,),
        memory=(MemorySplit(0, held, NOT_SAID, NOT_SAID, NOT_SAID),),
    )
    reading = Reading(2.0, "node7", read_gpus(), read_host(tmp_path), (server,))
    monkeypatch.setattr(watch, "look_once", lambda: reading)
    inputs = running_inputs()
    (launch,) = inputs.deployment.models
    assert (launch.model, launch.args["max-model-len"], launch.gpus) == (str(model), 8192, (0,))
    assert (inputs.version, inputs.deployment.path) == ("0.19.0", None)
    others = [card.others_gib for card in inputs.cards]
    assert [round(one.value, 1) for one in others if isinstance(one, Estimate)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--from-running"),
        (("FILE", "--from-running"), "one of them is wanted"),
        (("--from-running", "--gpus", "8xA100-80GB"), "this host's GPUs"),
        (("--from-running", "--learn", "x.log"), "--learn belongs to a file"),
        (("--from-running", "--screen"), "--from-running prints"),
        (("FILE", "--model", "llama-8b"), "--model belongs to --learn"),
        (("FILE", "--learn", "x.log", "--model", "lama-8b"), "llama-8b"),
        (("FILE", "--learn", "no/such.log", "--gpus", "A100-80GB"), "no/such.log"),
    ],
)
def test_what_does_not_go_together_is_refused(
    files: dict[str, Path], words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(files["deployment.yaml"]) if word == "FILE" else word for word in words]
    code, out, err = run(capsys, *named)
    assert (code, out) == (2, "")
    assert said in err
