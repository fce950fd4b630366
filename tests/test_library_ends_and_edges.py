"""Servers that die, words of libraries that mean one cause only beside others, frames around a log."""

# ruff: noqa: E501 - a line of a log is as long as it is

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.library import load_library

if TYPE_CHECKING:
    from engine_probe.logs.covers import Wrappers
    from playbooks.diagnosis import Diagnosis
    from playbooks.library import Loaded

ROOT = "/opt/venv/lib/python3.12/site-packages"
ENGINE = "INFO 05-01 10:00:00 [core.py:70] Initializing a V1 LLM engine (v0.9.2) with config: model='acme/m-7b', dtype=torch.bfloat16\n"
UP = 'INFO:     Application startup complete.\nINFO:     10.0.0.4:51244 - "POST /v1/completions HTTP/1.1" 200 OK\n'


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


def raised(text: str, *places: str) -> str:
    """`vllm/v1/engine/core.py:step`, outermost first."""
    frames = [
        f'  File "{ROOT}/{file}", line 7, in {function}\n    pass\n'
        for file, _, function in (one.rpartition(":") for one in places)
    ]
    return f"Traceback (most recent call last):\n{''.join(frames)}{text}\n"


def logged(head: str, text: str) -> str:
    """Each line as vLLM's logger prints it."""
    return "".join(f"{head} {line}\n" for line in text.rstrip("\n").split("\n"))


def told(library: tuple[Loaded, ...], covers: Wrappers, log: str, launch: str | None = None) -> Diagnosis:
    evidence = Evidence(parse_command(launch) if launch else None)
    return diagnose(read_text([log]), library, covers, Given("engine.log", evidence))


def first(diagnosis: Diagnosis) -> str | None:
    return diagnosis.causes[0].cause.id if diagnosis.causes else None


NO_BACKEND = "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=64, kv_cache_dtype=auto, block_size=4, use_mla=False). Reasons: "
NO_METADATA = "WARNING 05-01 10:00:00 [__init__.py:26] The vLLM package was not found, so its version could not be inspected. This may cause platform detection to fail.\n"
BARE = raised(
    "AssertionError",
    "vllm/model_executor/models/llama.py:load_weights",
    "vllm/model_executor/layers/linear.py:weight_loader",
)
LOAD = "vllm/model_executor/models/gpt_oss.py:load_weights"


@pytest.mark.parametrize(
    ("wanted", "log"),
    [
        (
            "block-size-unsupported",
            raised(
                NO_BACKEND
                + "{FLASH_ATTN: [block_size not supported], TRITON_ATTN: [kv_cache_dtype not supported, block_size not supported]}",
                "vllm/platforms/cuda.py:get_attn_backend_cls",
            ),
        ),
        (
            "attention-backend-unsupported-gpu",
            raised(
                NO_BACKEND
                + "{FLASH_ATTN: [compute capability not supported], TRITON_ATTN: [block_size not supported]}",
                "vllm/platforms/cuda.py:get_attn_backend_cls",
            ),
        ),
        (
            "block-size-unsupported",
            raised("RuntimeError: Unsupported block size: 64", "vllm/attention/ops/paged_attn.py:forward_decode"),
        ),
        ("numpy-2-incompatible", raised("ModuleNotFoundError: No module named 'numpy.lib.function_base'")),
        (
            "numpy-2-incompatible",
            raised("ImportError: cannot import name 'byte_bounds' from 'numpy' (/opt/venv/numpy/__init__.py)"),
        ),
        (
            "package-metadata-missing",
            NO_METADATA + raised("NotImplementedError", "vllm/platforms/interface.py:get_device_name"),
        ),
        (
            "package-metadata-missing",
            NO_METADATA
            + raised("RecursionError: maximum recursion depth exceeded", "vllm/platforms/interface.py:__getattr__"),
        ),
        (
            "ray-unavailable",
            raised("ImportError: Ray is not installed. Please install Ray to use distributed serving."),
        ),
        (
            "max-model-len-above-model-limit",
            raised(
                "ValueError: User-specified max_model_len (9000) is greater than the derived max_model_len (4096). This may lead to incorrect model outputs or CUDA errors. Make sure the value is correct and within the model context size.",
                "vllm/config.py:_get_and_verify_max_len",
            ),
        ),
        (
            "quant-weights-vs-config",
            ENGINE
            + logged("ERROR 05-01 10:00:09 [core.py:500]", raised("KeyError: 'layers.4.mlp.experts.w2_bias'", LOAD)),
        ),
        ("bnb-load-format-not-set", ENGINE.replace("m-7b", "m-7b-bnb-4bit") + BARE),
        ("checkpoint-shape-mismatch", ENGINE + BARE),
        (
            "host-ram-exhausted",
            "2026-05-01 10:00:00,337 INFO cli.py:86 -- Status message: failed\n95412   14.05   ray::Worker\n"
            "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html. Consider provisioning more memory.\n",
        ),
    ],
)
def test_words_and_what_stands_beside_them(
    library: tuple[Loaded, ...], covers: Wrappers, wanted: str, log: str
) -> None:
    assert first(told(library, covers, log)) == wanted


V0_LOOP = (
    "vllm/engine/multiprocessing/engine.py:start",
    "vllm/engine/multiprocessing/engine.py:run_engine_loop",
    "vllm/worker/model_runner.py:prepare_model_input",
)


@pytest.mark.parametrize(
    ("wanted", "after"),
    [
        # V0's log pasted up to the exception: what says that the engine is dead is below the cut
        (
            "request-crashes-engine",
            logged(
                "ERROR 05-01 10:05:00 [engine.py:163]", "KeyError('cmpl-7')\n" + raised("KeyError: 'cmpl-7'", *V0_LOOP)
            ),
        ),
        (
            "worker-stopped-hang",
            "ERROR 05-01 10:05:00 async_llm_engine.py:663] Engine iteration timed out. This should never happen!\n"
            "[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 2 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=917, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600090 milliseconds before timing out.\n"
            "ERROR 05-01 10:15:00 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 198 died, exit code: -6\n",
        ),
        (
            "worker-crashed-signal",
            "ERROR 05-01 10:15:00 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 198 died, exit code: -11\n",
        ),
        (
            "host-ram-exhausted",
            "ERROR:    Exception in ASGI application\n"
            + raised(
                "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
                "vllm/engine/async_llm_engine.py:step_async",
            ),
        ),
        (
            "cuda-error-while-serving",
            logged(
                "ERROR 05-01 10:05:00 [core.py:1142]",
                "EngineCore encountered a fatal error.\n"
                + raised(
                    "torch.AcceleratorError: CUDA error: OS call failed or operation not supported on this OS",
                    "vllm/v1/engine/core.py:run_busy_loop",
                    "vllm/v1/worker/gpu_model_runner.py:execute_model",
                ),
            ),
        ),
    ],
)
def test_a_server_that_dies(library: tuple[Loaded, ...], covers: Wrappers, wanted: str, after: str) -> None:
    diagnosis = told(library, covers, ENGINE + UP + after)
    assert (first(diagnosis), diagnosis.outcome, diagnosis.symptom) == (wanted, "failed", "crashes-while-running")


def test_a_request_that_is_refused_ends_no_server(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    refused = logged(
        "ERROR 05-01 10:05:00 [serving_chat.py:200]",
        raised(
            "ValueError: This model's maximum context length is 4096 tokens.",
            "vllm/engine/async_llm_engine.py:generate",
        ),
    )
    diagnosis = told(library, covers, ENGINE + UP + refused)
    assert (diagnosis.outcome, diagnosis.causes) == ("healthy", ())


def test_a_cache_in_fp8_is_told_by_the_launch(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    log = raised(
        "AssertionError: fp8e4nv data type is not supported on CUDA arch < 89",
        "vllm/attention/ops/prefix_prefill.py:context_attention_fwd",
    )
    cache = told(library, covers, log, "vllm serve acme/m-7b --kv-cache-dtype fp8")
    assert first(cache) == "fp8-kv-cache-unsupported-on-gpu"
    assert first(told(library, covers, log, "vllm serve acme/m-7b-fp8")) == "quant-unsupported-on-gpu"


def test_sizes_that_differ_where_bitsandbytes_was_asked_for(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    asked = told(library, covers, ENGINE + BARE, "vllm serve acme/m-7b --quantization bitsandbytes")
    assert first(asked) == "bnb-dynamic-quant-unsupported"


def test_weights_that_no_tensor_filled(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    warning = "WARNING 05-01 10:00:05 [gemma2.py:400] Some weights are not initialized from checkpoints: {'%s'}\n"
    assert first(told(library, covers, ENGINE + warning % "score.weight" + UP)) == "checkpoint-tensor-missing-silent"
    assert first(told(library, covers, ENGINE + warning % "model.layers.0.self_attn.qkv_proj.bias" + UP)) is None


def test_a_warning_before_that_says_more_is_an_explanation(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    """The same playbook knows the exception, though it weighs less: the failure is not unexplained."""
    log = (
        ENGINE
        + "WARNING 05-01 10:00:01 [worker_manager.py:90] Loading lora sql failed: No adapter found for /models/sql\n"
        + logged(
            "ERROR 05-01 10:00:09 [core.py:632]",
            "EngineCore failed to start.\n"
            + raised("RuntimeError: Loading lora /models/sql failed", "vllm/v1/engine/core.py:run_engine_core"),
        )
    )
    assert first(told(library, covers, log)) == "lora-adapter-path-not-found"


def test_a_log_in_a_frame(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    inside = ENGINE + logged(
        "ERROR 05-01 10:00:09 [core.py:632]",
        "EngineCore failed to start.\n"
        + raised(
            "ValueError: No available memory for the cache blocks.",
            "vllm/v1/core/kv_cache_utils.py:check_enough_kv_cache_memory",
        ),
    )
    width = max(map(len, inside.splitlines()))
    framed = "".join(f"│ {line.ljust(width)} │\n" for line in inside.splitlines())
    log = f"╭{'─' * (width + 2)}╮\n{framed}╰{'─' * (width + 2)}╯\n"
    boxed, plain = told(library, covers, log), told(library, covers, inside)
    assert (boxed.outcome, boxed.version) == ("failed", "0.9.2")
    assert [one.cause.id for one in boxed.causes] == [one.cause.id for one in plain.causes]


STAGES = ENGINE.replace("dtype=", "tensor_parallel_size=1, pipeline_parallel_size=2, dtype=")
IN_FORWARD = raised(
    "AssertionError",
    "vllm/v1/worker/gpu_worker.py:determine_available_memory",
    "vllm/model_executor/models/acme.py:forward",
)


def test_a_bare_assertion_of_a_model_is_about_stages_where_there_are_stages(
    library: tuple[Loaded, ...], covers: Wrappers
) -> None:
    def found(head: str, launch: str | None = None) -> tuple[str | None, float]:
        failed = logged("ERROR 05-01 10:00:09 [core.py:632]", "EngineCore failed to start.\n" + IN_FORWARD)
        diagnosis = told(library, covers, head + failed, launch)
        return first(diagnosis), diagnosis.causes[0].cause.confidence

    for name, confidence in (found(STAGES), found(ENGINE, "vllm serve acme/m-7b -pp 2")):
        assert name == "pp-unsupported-here"
        assert confidence > 0.5
    assert found(ENGINE)[1] <= 0.5
    assert found(ENGINE, "vllm serve acme/m-7b")[0] == "unexplained"


CHANNEL = "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object available to read. ObjectID: 00aa"
IN_STEP = ("vllm/v1/engine/core.py:run_busy_loop", "ray/experimental/channel/shared_memory_channel.py:read")


def test_a_channel_of_ray_that_waits_in_vain(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    fatal = logged(
        "ERROR 05-01 10:09:09 [core.py:720]", "EngineCore encountered a fatal error.\n" + raised(CHANNEL, *IN_STEP)
    )
    assert first(told(library, covers, ENGINE + UP + fatal)) == "worker-stopped-hang"
    died = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    assert first(told(library, covers, ENGINE + UP + fatal + died)) != "worker-stopped-hang"


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("gpu-not-visible-in-container", "RuntimeError: No HIP GPUs are available"),
        ("gpu-too-old-for-build", "ImportError: some kernels require compute capability >= 8.0"),
        ("v1-engine-unsupported-feature", "ValueError: CPU backend only supports V1."),
        (
            "argument-value-invalid",
            "vllm serve: error: argument --compilation-config/-O: 1 validation error for CompilationConfig",
        ),
        ("argument-value-invalid", "vllm serve: error: the following arguments are required: model_tag"),
        ("sleep-mode-unsupported", "AssertionError: camem allocator is not available"),
        (
            "batched-tokens-below-max-num-seqs",
            "ValueError: max_num_scheduled_tokens is set to -512, which does not allow any tokens to be scheduled",
        ),
    ],
)
def test_words_of_platforms_and_releases(library: tuple[Loaded, ...], covers: Wrappers, wanted: str, line: str) -> None:
    log = line + "\n" if "serve: error:" in line else raised(line, "vllm/worker/worker.py:init_device")
    assert first(told(library, covers, log)) == wanted


def test_a_server_that_has_no_room_to_wake_up(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    woken = "".join(
        f"CUDA Error: {what} at /build/csrc/cumem_allocator.cpp:{line}\n"
        for line, what in ((56, "out of memory"), (57, "invalid argument"), (64, "invalid argument"))
    )
    log = ENGINE + UP + woken + "Segmentation fault (core dumped)\n"
    assert first(told(library, covers, log)) == "oom-while-serving"


def test_a_log_whose_times_have_no_seconds(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    fatal = logged(
        "ERROR 05-01 10:09 [core.py:720]",
        "EngineCore encountered a fatal error.\n"
        + raised(
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "vllm/v1/engine/core.py:run_busy_loop",
        ),
    )
    diagnosis = told(library, covers, ENGINE.replace(":00 [", " [") + UP + fatal)
    assert (diagnosis.outcome, diagnosis.version) == ("failed", "0.9.2")
    assert first(diagnosis) == "cuda-error-while-serving"


def test_a_fault_that_the_runtime_of_an_amd_gpu_tells(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    fault = "Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f0000000000. Reason: Unknown.\n"
    died = told(library, covers, ENGINE + UP + fault + "*** SIGABRT received at time=1 on cpu 3 ***\n")
    assert (died.outcome, first(died)) == ("failed", "cuda-error-while-serving")
    aborted = told(
        library,
        covers,
        ENGINE + UP + "Fatal Python error: Segmentation fault\n\nThread 0x00007f (most recent call first):\n",
    )
    assert (aborted.outcome, first(aborted)) == ("failed", "worker-crashed-signal")
    echoed = told(
        library, covers, ENGINE + UP + f"INFO 05-01 10:00:01 [logger.py:43] Received request: prompt: '{fault[:-1]}'\n"
    )
    assert echoed.outcome == "healthy"


def test_a_part_of_vllm_is_not_the_flash_attn_package(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    text = "ImportError: /v/lib/python3.12/site-packages/vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE"
    diagnosis = told(library, covers, raised(text, "vllm/vllm_flash_attn/flash_attn_interface.py:<module>"))
    assert [one.cause.id for one in diagnosis.causes[:1]] == ["torch-abi-mismatch"]
    assert "flash-attn-abi-mismatch" not in [one.cause.id for one in diagnosis.causes]
