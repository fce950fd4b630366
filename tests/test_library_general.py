"""General playbooks: what vLLM refuses and no other playbook knows. They speak last and never surely."""

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
    from playbooks.diagnosis import Diagnosis
    from playbooks.library import Loaded

GENERAL = {
    "environment-variable-refused",
    "feature-combination-unsupported",
    "feature-unsupported-on-platform",
    "model-config-unsupported-value",
    "parallel-group-not-there",
    "parallelism-unsupported-here",
    "quantized-path-unsupported",
    "request-value-refused",
}


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


def raised(text: str, file: str, function: str = "__init__") -> str:
    """A traceback whose innermost frame is `function` of vllm/`file`."""
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/cli/main.py", line 7, in main\n'
        "    args.dispatch_function(args)\n"
        f'  File "/opt/venv/lib/python3.12/site-packages/vllm/{file}", line 7, in {function}\n'
        "    raise\n"
        f"{text}\n"
    )


def found(library: tuple[Loaded, ...], covers: Wrappers, log: str) -> Diagnosis:
    return diagnose(read_text([log]), library, covers, Given("engine.log"))


def test_these_are_the_general_ones(library: tuple[Loaded, ...]) -> None:
    assert {one.id for one in library if one.is_general} == GENERAL


def test_a_general_one_is_never_sure(library: tuple[Loaded, ...]) -> None:
    sure = [w.id for one in library if one.is_general for w in one.wordings if w.spec.certainty != "possible"]
    assert sure == []


@pytest.mark.parametrize(
    ("text", "file", "wanted"),
    [
        ("ValueError: HiSparse requires --scheduler-reserve-full-isl.", "config/vllm.py", "feature-combination-unsupported"),
        ("NotImplementedError: MRV2 does not do this yet, not supported.", "v1/worker/gpu/model_runner.py", "feature-combination-unsupported"),
        ("ValueError: Unknown scheduling policy: lottery", "v1/core/sched/scheduler.py", "feature-combination-unsupported"),
        ("ValueError: Requested sample logprobs of 30, which is greater than max allowed: 20", "v1/engine/input_processor.py", "request-value-refused"),
        ("AssertionError: Invalid thinking format", "tokenizers/deepseek_v32_encoding.py", "request-value-refused"),
        ("ValueError: Unknown all2all backend: bogus", "distributed/device_communicators/cuda_communicator.py", "parallelism-unsupported-here"),
        ("AssertionError: Elastic EP is not supported with drafter model.", "v1/worker/gpu_model_runner.py", "parallelism-unsupported-here"),
        ("AssertionError: world group is not initialized", "distributed/parallel_state.py", "parallel-group-not-there"),
        ("NotImplementedError: XPU does not support speculative decoding", "platforms/xpu.py", "feature-unsupported-on-platform"),
        ("NotImplementedError: FlexAttention does not support logits soft cap yet.", "v1/attention/backends/flex_attention.py", "feature-unsupported-on-platform"),
        ("AssertionError: VLLM_USE_RAY_COMPILED_DAG=1 requires VLLM_USE_RAY_SPMD_WORKER=1", "executor/ray_distributed_executor.py", "environment-variable-refused"),
        ("ValueError: `alibi_scaling`'s factor field must be a float > 1.0, got 0.5", "transformers_utils/configs/jais.py", "model-config-unsupported-value"),
        ("ValueError: tie_word_embeddings is not supported for Dbrx models.", "model_executor/models/dbrx.py", "model-config-unsupported-value"),
        ("NotImplementedError: quantized KV cache is not supported for encoder attention", "v1/attention/backends/triton_attn.py", "quantized-path-unsupported"),
    ],
)  # fmt: skip
def test_what_no_other_knows_has_a_general_cause(
    library: tuple[Loaded, ...], covers: Wrappers, text: str, file: str, wanted: str
) -> None:
    causes = [one.cause for one in found(library, covers, raised(text, file)).causes]
    assert causes[0].id == wanted
    assert causes[0].confidence < 0.5


@pytest.mark.parametrize(
    ("text", "file", "wanted"),
    [
        ("ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).", "config/model.py", "heads-not-divisible-by-tp"),
        ("NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.", "config/model.py", "pp-unsupported-here"),
        ("ValueError: To serve at least one request with the model's max seq len (4096), (0.25 GiB KV cache is needed, which is larger than the available KV cache memory (0.09 GiB).", "v1/core/kv_cache_utils.py", "kv-cache-too-small-for-max-model-len"),
        ("ValueError: Free memory on device cuda:0 (10.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.92, 72.8 GiB).", "v1/worker/gpu_worker.py", "gpu-memory-held-by-other-process"),
        ("ValueError: Unrecognized distributed executor backend rays. Supported values are 'ray', 'mp' 'uni', 'external_launcher' or custom ExecutorBase subclass.", "config/parallel.py", "argument-value-invalid"),
        ("ValueError: num_speculative_tokens must be provided with speculative model unless the draft model config contains an n_predict parameter.", "config/speculative.py", "spec-num-tokens-missing"),
        ("ValueError: The quantization method awq is not supported for the current GPU. Minimum capability: 75. Current capability: 70.", "model_executor/model_loader/weight_utils.py", "quant-unsupported-on-gpu"),
        ("ValueError: torch.bfloat16 is not supported for quantization method gptq. Supported dtypes: [torch.float16]", "config/vllm.py", "quant-needs-float16"),
        ("ValueError: The input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size.", "model_executor/layers/quantization/awq.py", "quant-group-not-aligned-with-tp"),
        ("ValueError: LoRA rank 64 is greater than max_lora_rank 16.", "lora/peft_helper.py", "lora-rank-exceeds-max"),
        ("NotImplementedError: VLLM_USE_V1=1 is not supported with --quantization bitsandbytes.", "engine/arg_utils.py", "v1-engine-unsupported-feature"),
        ("ValueError: VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI. This may be caused by a Kubernetes service discovery issue,check the warning in: https://docs.vllm.ai/", "envs.py", "vllm-port-env-is-k8s-url"),
        ("ValueError: Model architectures ['NewForCausalLM'] are not supported for now. Supported architectures: ['LlamaForCausalLM']", "model_executor/models/registry.py", "arch-unsupported-in-this-vllm"),
    ],
)  # fmt: skip
def test_a_particular_cause_stands_alone(
    library: tuple[Loaded, ...], covers: Wrappers, text: str, file: str, wanted: str
) -> None:
    ids = [one.cause.id for one in found(library, covers, raised(text, file)).causes]
    assert ids[0] == wanted
    assert GENERAL.isdisjoint(ids)


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("AssertionError: The block already has a hash. This should not happen.", "v1/core/kv_cache_utils.py"),
        ("AssertionError: Input addresses for cudagraphs are different during replay. Expected [1], got [2]", "compilation/cuda_graph.py"),
        ("AssertionError: Freeing unallocated block is undefined", "core/block/prefix_caching_block.py"),
        ("ValueError: This line should not be reached", "model_executor/layers/linear.py"),
        ("ValueError: Pooler output batch size does not match finished mask size: 8 != 7.", "v1/worker/gpu_model_runner.py"),
        ("TypeError: Cannot append to a constant list", "v1/utils.py"),
        ("AssertionError: Graph already captured for 8", "v1/worker/gpu/cudagraph_utils.py"),
    ],
)  # fmt: skip
def test_what_only_a_developer_can_mend_is_never_sure(
    library: tuple[Loaded, ...], covers: Wrappers, text: str, file: str
) -> None:
    causes = found(library, covers, raised(text, file)).causes
    assert all(one.cause.confidence < 0.5 for one in causes if one.playbook is not None)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x64 and 32x64)",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "TypeError: __init__() got an unexpected keyword argument 'rope_theta'",
        "TypeError: forward() missing 1 required positional argument: 'positions'",
        "AttributeError: 'NoneType' object has no attribute 'shape'",
        "ValueError: not enough values to unpack (expected 2, got 1)",
        "ValueError: invalid literal for int() with base 10: 'many'",
        "RuntimeError: The size of tensor a (4) must match the size of tensor b (8) at non-singleton dimension 1",
    ],
)
@pytest.mark.parametrize(
    "file",
    ["config/vllm.py", "v1/attention/backends/flash_attn.py", "model_executor/models/llama.py", "v1/engine/core.py"],
)
def test_sentences_of_python_and_torch_are_no_checks_of_vllm(
    library: tuple[Loaded, ...], covers: Wrappers, text: str, file: str
) -> None:
    ids = {one.cause.id for one in found(library, covers, raised(text, file)).causes}
    assert GENERAL.isdisjoint(ids)


def test_without_a_frame_of_vllm_they_are_silent(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    log = raised("ValueError: FooProcessor requires two images", "x.py").replace("/vllm/", "/transformers/")
    ids = {one.cause.id for one in found(library, covers, log).causes}
    assert GENERAL.isdisjoint(ids)


def test_warnings_of_a_good_start_are_nothing(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    log = "\n".join(
        [
            "INFO 03-02 10:11:12 [api_server.py:1896] vLLM API server version 0.11.2",
            "WARNING 03-02 10:11:13 [envs.py:12] Unknown vLLM environment variable detected: VLLM_MY_FLAG",
            "WARNING 03-02 10:11:13 [vllm.py:601] Only models using causal attention support chunked prefill and prefix caching; disabling both.",
            "WARNING 03-02 10:11:13 [cuda.py:51] Current platform cuda does not have '_pytest' attribute.",
            "INFO 03-02 10:11:14 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='acme/m-7b'",
            "INFO:     Application startup complete.",
        ]
    )
    assert found(library, covers, log).causes == ()


@pytest.mark.parametrize(
    ("text", "file", "wanted"),
    [
        ("AssertionError: DeepEP kernels not found. Please follow https://github.com/vllm-project/vllm/blob/main/tools/ep_kernels/README.md", "distributed/device_communicators/all2all.py", "python-package-missing"),
        ("ImportError: Using vLLM with ModelScope needs modelscope>=1.18.1, please install by `pip install modelscope -U`", "transformers_utils/__init__.py", "python-package-missing"),
        ("ImportError: Using Ray backend requires installation of ray.", "v1/executor/ray_executor_v2.py", "ray-unavailable"),
        ("VLLMValidationError: This model does not support pooling", "v1/engine/input_processor.py", "runner-task-mismatch"),
        ("RuntimeError: Neither 127.0.0.1 nor ::1 are bound to a local interface. Set the VLLM_LOOPBACK_IP environment variable explicitly.", "utils/network_utils.py", "bind-address-unavailable"),
        ("RuntimeError: Could not find open port after 1000 attempts starting from port 29500", "utils/network_utils.py", "port-in-use"),
        ("WeightCacheUnavailableError: Weight cache daemon did not become ready within 600s: timed out", "model_executor/model_loader/weight_cache/ipc_loader.py", "weight-cache-unavailable"),
        ("ValueError: Unknown tokenizer mode: fast. Must be one of ('auto', 'slow').", "config/model.py", "argument-value-invalid"),
    ],
)  # fmt: skip
def test_own_checks_of_known_illnesses(
    library: tuple[Loaded, ...], covers: Wrappers, text: str, file: str, wanted: str
) -> None:
    ids = [one.cause.id for one in found(library, covers, raised(text, file)).causes]
    assert ids[0] == wanted
    assert GENERAL.isdisjoint(ids)
