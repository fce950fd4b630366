"""Stages and numbers from vLLM's own words, and the layers of modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine_probe.events import StageEntered, StageLeft
from engine_probe.logs.layers import layer_of_frames, layer_of_logger
from engine_probe.logs.lines import read_line
from engine_probe.logs.stages import StageTracker, Wordings, read_wordings
from engine_probe.strict_yaml import InputError

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def wordings() -> Wordings:
    return read_wordings()


def track(wordings: Wordings, name: str) -> tuple[list[str], dict[str, object]]:
    tracker = StageTracker(wordings, "m")
    entered: list[str] = []
    facts: dict[str, object] = {}
    for number, line in enumerate((DATA / name).read_text(encoding="utf-8").splitlines()):
        entered += [one.stage for one in tracker.feed(line, float(number)) if isinstance(one, StageEntered)]
        facts |= wordings.facts_in(read_line(line).message)
    return entered, facts


START = ["config", "engine_build", "worker_start", "distributed_init", "weight_load", "memory_planning"]


def test_a_start_that_succeeds(wordings: Wordings) -> None:
    entered, facts = track(wordings, "vllm-0.32.0-cpu-ready.log")
    assert entered == [*START, "warmup"]
    assert facts["kv.tokens"] == 1536
    assert facts["engine.max_model_len"] == 1408
    assert facts["kv.max_concurrency"] == 1.09
    assert facts["init.engine_s"] == 0.39
    assert facts["weights.load_s"] == 0.06
    assert facts["engine.vllm_version"] == "0.32.0"


def test_a_start_that_fails_stays_in_its_stage(wordings: Wordings) -> None:
    entered, facts = track(wordings, "vllm-0.32.0-cpu-kv-too-small.log")
    assert entered == START
    assert facts["kv.available_gib"] == 0.09
    assert "kv.tokens" not in facts


def test_a_stage_entered_again_goes_on_counting(wordings: Wordings) -> None:
    tracker = StageTracker(wordings, "m")
    tracker.enter("memory_planning", 0.0)
    tracker.feed("Dynamo bytecode transform time: 5.93 s", 2.0)  # compilation inside the profile run
    again = tracker.feed("Available KV cache memory: 2.87 GiB", 5.0)
    assert again == [
        StageLeft("m", 5.0, stage="warmup", seconds=3.0),
        StageEntered("m", 5.0, stage="memory_planning"),
    ]
    assert tracker.finish(6.0, completed=False) == [
        StageLeft("m", 6.0, stage="memory_planning", seconds=3.0, completed=False)
    ]
    assert tracker.finish(7.0, completed=True) == []


def test_the_first_message_begins_the_configuration(wordings: Wordings) -> None:
    tracker = StageTracker(wordings, "m")
    assert tracker.feed("anything", 1.0) == [StageEntered("m", 1.0, stage="config")]
    assert tracker.feed("anything else", 2.0) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("-|note|-|a|-|(|-|-\n\tx", "does not compile"),
        ("-|note|-|a|-|abc|-|-\n\tx", "does not match its sample"),
        ("-|note|-|a|-|abc|-|-", "has no sample"),
        ("-|note|-|a|-|abc|-|-\n-|note|-|a|-|abd|-|-\n\tabd", "has no sample"),
        ("nowhere|note|-|a|-|abc|-|-\n\tabc", "no such stage"),
        ("config|sometimes|-|a|-|abc|-|-\n\tabc", "no such role"),
        ("-|note|-|a|-|abc|kv.tokens=tokens|-\n\tabc", "has no group tokens"),
        ("-|note|-|a|-|(?P<n>\\d+)|kv.tokens=n|-\n\t7", "yields"),
        ("-|note|-|a|-|abc|-", "has 7 columns"),
        ("\tabc", "without a wording"),
    ],
)
def test_a_wrong_wording_is_told_with_its_line(tmp_path: Path, rows: str, said: str) -> None:
    path = tmp_path / "stages.tsv"
    path.write_text("# a comment\n" + rows.replace("|", "\t") + "\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_wordings(path)
    assert said in str(error.value)
    assert re.search(r"stages\.tsv:[23]", str(error.value))


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("vllm.v1.engine.core", "engine"),
        ("vllm.v1.core.kv_cache_utils", "engine"),
        ("vllm.entrypoints.openai.api_server", "frontend"),
        ("vllm.engine.arg_utils", "frontend"),
        ("vllm.config.model", "frontend"),
        ("vllm.v1.worker.gpu_model_runner", "model_runner"),
        ("vllm.v1.worker.cpu_model_runner", "model_runner"),
        ("vllm.v1.worker.cpu_worker", "worker"),
        ("vllm.v1.executor.multiproc_executor", "worker"),
        ("vllm.distributed.parallel_state", "worker"),
        ("vllm.model_executor.model_loader.weight_utils", "model_runner"),
        ("vllm.utils.system_utils", "unknown"),
        ("transformers.modeling", "outside"),
    ],
)
def test_layer_of_a_logger(name: str, layer: str) -> None:
    assert layer_of_logger(name) == layer


def test_layer_of_a_traceback_is_that_of_its_innermost_frame_of_vllm() -> None:
    def frames(*files: str) -> list[dict[str, object]]:
        return [{"file": file} for file in files]

    base = "/opt/vllm/lib/python3.11/site-packages/"
    assert layer_of_frames(frames(base + "vllm/entrypoints/a.py", base + "vllm/v1/core/b.py")) == "engine"
    assert layer_of_frames(frames(base + "vllm/v1/worker/gpu_worker.py", base + "torch/cuda.py")) == "worker"
    assert layer_of_frames(frames(base + "vllm/v1/engine/core.py", base + "vllm/utils/x.py")) == "engine"
    assert layer_of_frames(frames(base + "torch/cuda.py")) == "outside"
    assert layer_of_frames([]) == "unknown"
