"""Logs as people paste them: cut at the beginning, boxed, with another tool's prefix, in the words of libraries."""

# ruff: noqa: E501 - a line of a log is as long as it is

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.library import load_library

if TYPE_CHECKING:
    from engine_probe.logs.covers import Wrappers
    from playbooks.library import Loaded

ROOT = "/opt/venv/lib/python3.12/site-packages"
NOTES = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


def frames(*places: str) -> str:
    """`vllm/v1/worker/gpu_worker.py:init_device`, outermost first; a path from the root stays as it is."""
    lines = []
    for place in places:
        file, function = place.rsplit(":", 1)
        lines.append(
            f'  File "{file if file.startswith("/") else f"{ROOT}/{file}"}", line 7, in {function}\n    pass\n'
        )
    return "".join(lines)


def raised(text: str, *places: str) -> str:
    return f"Traceback (most recent call last):\n{frames(*places)}{text}\n"


def logged(head: str, text: str) -> str:
    """Each line as vLLM's logger prints it."""
    return "".join(f"{head} {line}\n" for line in text.rstrip("\n").split("\n"))


def ids(library: tuple[Loaded, ...], covers: Wrappers, log: str) -> list[str]:
    return [one.cause.id for one in diagnose(read_text([log]), library, covers, Given("engine.log")).causes]


FAULT = f"RuntimeError: CUDA error: an illegal memory access was encountered\n{NOTES}"
MUCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 0 has a total capacity of 44.39 GiB of which 1.90 GiB is free. "
    "Including non-PyTorch memory, this process has 42.48 GiB memory in use."
)
IN_THE_CACHE = "/home/u/.cache/vllm/torch_compile_cache/0a1b/rank_0_0/inductor_cache/qz/cqz.py:call"
BNB = "INFO 05-01 10:00:00 [loader.py:1137] Loading weights with BitsAndBytes quantization. May take a while ...\n"


@pytest.mark.parametrize(
    ("wanted", "log"),
    [
        (
            "cuda-error-while-serving",
            logged(
                "ERROR 05-01 10:00:00 [core.py:500]",
                "EngineCore encountered a fatal error.\n"
                + raised(FAULT, "vllm/v1/engine/core.py:run_engine_core", "vllm/v1/engine/core.py:run_busy_loop", "vllm/v1/worker/gpu_model_runner.py:execute_model"),
            ),
        ),
        (
            "cuda-error-while-serving",
            logged("ERROR 05-01 10:00:00 engine.py:139]", raised(FAULT, "vllm/engine/multiprocessing/engine.py:start", "vllm/model_executor/layers/sampler.py:forward")),
        ),
        (
            "shm-too-small",
            "n1:88:88 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab12Cd to 9637892 bytes, error: No space left on device (28)\n"
            + raised("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "vllm/distributed/device_communicators/pynccl_wrapper.py:NCCL_CHECK"),
        ),
        (
            "transformers-too-new",
            raised(
                "TypeError: Invalid type of HuggingFace config. Expected type: <class 'vllm.transformers_utils.configs.orbit.OrbitConfig'>, but found type: <class 'transformers.models.orbit.configuration_orbit.OrbitConfig'>",
                "vllm/multimodal/processing.py:get_hf_config",
            ),
        ),
        ("compile-cache-stale", raised("ValueError: too many values to unpack (expected 21)", "torch/_inductor/output_code.py:__call__", IN_THE_CACHE)),
        ("compile-cache-stale", raised("AssertionError: expected size 32064==128256, stride 2048==4096 at dim=0", "torch/fx/graph_module.py:__call__", IN_THE_CACHE)),
        ("quant-group-not-aligned-with-tp", "RuntimeError: Worker failed with error 'size_k must divisible by BLOCK_SIZE_K', please check the stack trace above for the root cause\n"),
        ("quant-unsupported-on-gpu", "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 90. ', 'Current capability: 86.')\n"),
        ("bnb-arch-unsupported", BNB + raised("KeyError: 'layers.0.self_attn.qkv_proj.weight'", "vllm/model_executor/models/orbit.py:load_weights")),
        ("hf-and-consolidated-weights-mixed", BNB + raised("KeyError: 'layers.31.self_attn.qkv_proj.weight'", "vllm/model_executor/models/orbit.py:load_weights")),
        ("bnb-dynamic-quant-unsupported", raised("AssertionError", "vllm/model_executor/model_loader/loader.py:_load_weights", "vllm/model_executor/layers/linear.py:weight_loader")),
        (
            "nccl-p2p-transport-unusable",
            "(Worker_TP0 pid=7) INFO 05-01 10:00:00 [pynccl.py:103] vLLM is using nccl==2.27.5\n"
            "(Worker_TP1 pid=8) INFO 05-01 10:00:00 [pynccl.py:103] vLLM is using nccl==2.27.5\n"
            "(EngineCore_DP0 pid=6) INFO 05-01 10:02:00 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging\n",
        ),
        (
            "float16-overflow",
            "WARNING 05-01 10:00:00 [config.py:3200] Casting torch.bfloat16 to torch.float16.\n"
            "Prompt: 'A word', Generated text: '!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!'\n",
        ),
        ("torch-abi-mismatch", "ImportError: /opt/venv/lib/python3.12/site-packages/vllm/_C.abi3.so: undefined symbol: _ZNK3c1010TensorImpl4sizeEl\n"),
        (
            "disk-full",
            "(raylet) [2025-05-01 10:00:00,007 E 7 9] (raylet) file_system_monitor.cc:111: /tmp/ray/session_1 is over 95% full, available space: 3865470566; capacity: 96636764160. Object creation will fail if spilling is required.\n",
        ),
        (
            "disk-full",
            raised(
                "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: \"No space left on device\" })",
                "safetensors/torch.py:save_file",
            ),
        ),
        (
            "pp-unsupported-here",
            raised("NotImplementedError: Pipeline parallelism is not supported yet with multiprocessing.", "vllm/config.py:_verify_args"),
        ),
        ("oom-while-serving", raised(MUCH, "vllm/v1/worker/gpu_worker.py:sample_tokens", "vllm/v1/worker/gpu_model_runner.py:sample_tokens")),
        (
            "oom-while-serving",
            logged(
                "ERROR 05-01 10:00:00 serving_chat.py:661]",
                raised(MUCH, "vllm/engine/multiprocessing/client.py:_process_request", "vllm/model_executor/layers/activation.py:forward_cuda"),
            ),
        ),
        ("quant-weights-vs-config", raised("KeyError: 'layers.0.mlp.up_proj.weight.bitmask'", "vllm/model_executor/models/orbit.py:load_weights")),
        ("attention-backend-unsupported-gpu", raised("AssertionError: paged_mla_decode requires gfx950 (CDNA4), got gfx90a", "aiter/ops/triton/mla.py:decode")),
        (
            "cuda-error-while-serving",
            logged(
                "(EngineCore_0 pid=7) ERROR 05-01 10:00:00 [core.py:702]",
                "EngineCore encountered a fatal error.\n"
                + raised(
                    f"RuntimeError: Worker failed with error '{FAULT.removeprefix('RuntimeError: ')}\n', please check the stack trace above for the root cause",
                    "vllm/v1/engine/core.py:run_engine_core",
                    "vllm/v1/executor/multiproc_executor.py:get_response",
                ),
            ),
        ),
        (
            "quant-kernel-missing-on-platform",
            raised(
                "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons: \n"
                " MacheteLinearKernel cannot implement due to: Machete only supported on CUDA\n"
                " MarlinLinearKernel cannot implement due to: Marlin only supported on CUDA\n"
                " BitBLASLinearKernel cannot implement due to: bitblas is not installed. Please install bitblas by running `pip install bitblas>=0.1.0`",
                "vllm/model_executor/layers/quantization/kernels/mixed_precision/__init__.py:choose_mp_linear_kernel",
            ),
        ),
        ("python-package-missing", raised("ModuleNotFoundError: No module named 'triton.language'", "vllm/model_executor/layers/quantization/awq_triton.py:<module>")),
        (
            "numpy-2-incompatible",  # printed without its traceback, in lines
            "ImportError: \nA module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.1 as it may crash. To support both 1.x and 2.x\nversions of NumPy, modules must be compiled with NumPy 2.0.\n",
        ),
        (
            "length-beyond-trained-context",
            "WARNING 05-01 10:00:00 [config.py:3217] User-specified max_model_len (8192) is greater than the derived max_model_len (max_position_embeddings=4096 or model_max_length=None in model's config.json). This may lead to incorrect model outputs or CUDA errors. Make sure the value is correct and within the model context size.\n"
            "INFO:     Application startup complete.\n"
            + logged(
                "ERROR 05-01 10:05:00 [core.py:398]",
                "EngineCore encountered a fatal error.\n"
                + raised(FAULT.replace("an illegal memory access was encountered", "device-side assert triggered"), "vllm/v1/engine/core.py:run_busy_loop"),
            ),
        ),
    ],
)  # fmt: skip
def test_first_cause(library: tuple[Loaded, ...], covers: Wrappers, wanted: str, log: str) -> None:
    assert ids(library, covers, log)[:1] == [wanted]


@pytest.mark.parametrize(
    ("unwanted", "log"),
    [
        ("torch-abi-mismatch", "ImportError: /src/vllm/_C.abi3.so: undefined symbol: _Z19gelu_and_mul_packedRN2at6TensorES1_\n"),
        ("quantization-method-unknown", "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 90. ', 'Current capability: 86.')\n"),
        ("safetensors-file-corrupt", "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull })\n"),
        ("triton-torch-mismatch", "ModuleNotFoundError: No module named 'triton.language'\n"),
        ("float16-overflow", "Prompt: 'A word', Generated text: '!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!'\n"),
        (
            "compile-cache-stale",  # this very start made that graph
            "INFO 05-01 10:00:00 [backends.py:430] Cache the graph of shape None for later use\n"
            + raised("AssertionError: expected size 32064==128256, stride 2048==4096 at dim=0", "torch/fx/graph_module.py:__call__", IN_THE_CACHE),
        ),
    ],
)  # fmt: skip
def test_not_a_cause(library: tuple[Loaded, ...], covers: Wrappers, unwanted: str, log: str) -> None:
    assert unwanted not in ids(library, covers, log)
