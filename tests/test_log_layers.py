"""Layers of log lines in 14 releases: sampled logging calls, each printed as its release prints it."""

from __future__ import annotations

from collections import Counter

import pytest
from vllm_lines import RELEASES, printed, rows

from engine_probe.logs.layers import (
    layer_of_file,
    layer_of_frames,
    layer_of_logger,
    layer_of_path,
    layer_of_process,
    layer_of_record,
)
from engine_probe.logs.lines import read_line
from engine_probe.logs.versions import is_in, key_of, read_releases_for

CALLS = [
    (release, module, int(line), level, layer, text) for release, module, line, level, layer, text in rows("calls.tsv")
]


def layer_read(release: str, module: str, line: int, level: str, text: str, version: str | None) -> str:
    read = read_line(printed(release, module.rsplit("/", 1)[-1], line, level, text))
    return layer_of_record(read, read.message, (), version, None, None)


def test_release_file_and_line_decide() -> None:
    found: Counter[str] = Counter()
    for release, module, line, level, layer, text in CALLS:
        got = layer_read(release, module, line, level, text, release)
        found["shared" if layer == "unknown" else "unknown" if got == "unknown" else str(got == layer)] += 1
        assert layer != "unknown" or got == "unknown", f"{module} is shared, not {got}"
    told = found["True"] + found["False"] + found["unknown"]
    assert {release for release, *_ in CALLS} == set(RELEASES)
    assert told > 1_200
    assert found["True"] / told >= 0.995
    assert found["False"] / told <= 0.001


def test_without_the_release_the_message_helps() -> None:
    own = [one for one in CALLS if one[4] != "unknown"]
    got = [layer_read(*one[:4], one[5], None) == one[4] for one in own]
    wrong = [one for one in own if layer_read(*one[:4], one[5], None) not in (one[4], "unknown")]
    assert sum(got) / len(own) >= 0.97
    assert wrong == []


def test_the_path_of_a_debug_line_decides() -> None:
    assert layer_of_file("v1/engine/core.py", 866, "", "0.11.2") == "engine"
    assert layer_of_file("model_executor/.../quantization/fp8.py", 90, "", None) == "model_runner"


def test_a_name_that_several_layers_share() -> None:
    """utils.py logs from five layers: the line decides in a release that was read, else the message, else nothing."""
    assert layer_of_file("utils.py", 223, "cut", "0.16.0") == "frontend"
    assert layer_of_file("utils.py", 1, "non-default args: {}", "0.16.0") == "frontend"
    assert layer_of_file("utils.py", 1, "never printed", "0.16.0") == "unknown"
    assert layer_of_file("no_such_file.py", 1, "x", "0.16.0") == "unknown"


@pytest.mark.parametrize(
    ("process", "layer"),
    [
        ("APIServer", "frontend"),
        ("ApiServer_2", "frontend"),
        ("DPSupervisor", "frontend"),
        ("EngineCore_DP1", "engine"),
        ("DPCoordinator", "engine"),
        ("Worker_DP0_TP1_EP1", "worker"),
        ("VllmWorkerProcess", "worker"),
        ("VllmWorker rank=1", "worker"),
        ("RayWorkerWrapper", "worker"),
        ("MainProcess", "unknown"),
    ],
)
def test_layer_of_a_process(process: str, layer: str) -> None:
    assert layer_of_process(process) == layer


def test_a_shared_module_is_decided_by_the_process() -> None:
    line = read_line(printed("0.16.0", "cuda.py", 367, "INFO", "hello", kind="worker"))
    assert layer_of_record(line, line.message, (), "0.16.0", None, line.process) == "worker"
    assert layer_of_record(line, line.message, (), "0.16.0", None, None) == "unknown"


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("vllm.v1.engine.core", "engine"),
        ("vllm.v1.engine.core_client", "frontend"),
        ("vllm.v1.core.kv_cache_utils", "engine"),
        ("vllm.entrypoints.openai.api_server", "frontend"),
        ("vllm.engine.arg_utils", "frontend"),
        ("vllm.config.model", "frontend"),
        ("vllm.config", "frontend"),
        ("vllm.v1.worker.gpu_model_runner", "model_runner"),
        ("vllm.v1.worker.cpu_model_runner", "model_runner"),
        ("vllm.v1.worker.cpu_worker", "worker"),
        ("vllm.v1.executor.multiproc_executor", "worker"),
        ("vllm.distributed.parallel_state", "worker"),
        ("vllm.model_executor.model_loader.weight_utils", "model_runner"),
        ("vllm.utils.system_utils", "unknown"),
        ("vllm", "unknown"),
        ("uvicorn.error", "frontend"),
        ("transformers.modeling", "outside"),
    ],
)
def test_layer_of_a_logger(name: str, layer: str) -> None:
    assert layer_of_logger(name) == layer


def test_layer_of_a_path_that_no_release_had() -> None:
    assert layer_of_path("v1/core/sched/brand_new.py") == "engine"
    assert layer_of_path("brand_new.py") == "unknown"


def test_layer_of_a_traceback_is_that_of_its_innermost_frame_of_vllm() -> None:
    def frames(*files: str) -> list[dict[str, object]]:
        return [{"file": file} for file in files]

    base = "/opt/vllm/lib/python3.11/site-packages/"
    assert layer_of_frames(frames(base + "vllm/entrypoints/a.py", base + "vllm/v1/core/b.py")) == "engine"
    assert layer_of_frames(frames(base + "vllm/v1/worker/gpu_worker.py", base + "torch/cuda.py")) == "worker"
    assert layer_of_frames(frames(base + "vllm/v1/engine/core.py", base + "vllm/utils/x.py")) == "engine"
    assert layer_of_frames(frames(base + "torch/cuda.py")) == "outside"
    assert layer_of_frames([]) == "unknown"


def test_releases_between_those_that_were_read() -> None:
    assert key_of("v0.11.0rc1+cu129") == (0, 11, 0)
    assert key_of("dev") is None
    assert is_in("0.11.0", "0.10.2..0.13.0")
    assert is_in("0.6.6.post1", "0.6.6..0.7.3")
    assert not is_in("0.9.0", "0.9.2..0.10.2,0.13.0")
    assert read_releases_for("0.11.0") == ("0.11.2",)
    assert read_releases_for("0.12.0") == ("0.11.2", "0.13.0")
    assert read_releases_for("0.40.0") == ("0.33.0",)
    assert read_releases_for("dev") == tuple(RELEASES)
