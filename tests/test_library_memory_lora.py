"""Memory and LoRA: logs as releases, ranks, containers and cuts write them, and which cause each must get."""

# ruff: noqa: E501 - a line of a log is as long as it is

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.logs.covers import read_wrappers
from playbooks.library import load_library
from tests.memory_logs import (
    CAPTURING,
    KV_FRAMES,
    LOADED,
    LOADING,
    LORA_FRAMES,
    LORA_UP,
    NO_BLOCKS,
    PROFILED,
    SERVING,
    SIZED,
    SMALL,
    diagnosed,
    failed,
    free,
    info,
    oom,
    v1,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.covers import Wrappers
    from playbooks.diagnosis import Diagnosis
    from playbooks.library import Loaded


@pytest.fixture(scope="module")
def library() -> Sequence[Loaded]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


def causes_of(diagnosis: Diagnosis) -> list[str]:
    return [one.cause.id for one in diagnosis.causes]


STARTS = {
    "a neighbour with 40 GiB, tp 2, docker compose": (
        "\n".join(
            f"vllm-1  | {line}"
            for line in v1("0.11.2", failed(free(39.1, 79.2, 0.9, "")), who="Worker_TP1 pid=77").splitlines()
        ),
        "vllm serve acme/m-7b --tensor-parallel-size 2",
        "gpu-memory-held-by-other-process",
    ),
    "the same as one line": (free(39.1, 79.2, 0.92), "vllm serve acme/m-7b", "gpu-memory-held-by-other-process"),
    "a display took the difference": (
        v1("0.16.0", failed(free(14.4, 15.6, 0.95), "v1/worker/gpu_worker.py:init_device", "v1/worker/utils.py:request_memory")),
        "vllm serve acme/m-7b --gpu-memory-utilization 0.95",
        "utilization-exceeds-free-memory-at-startup",
    ),
    "the whole card": (
        v1("0.11.2", failed(free(78.6, 79.1, 1.0, ""))),
        "vllm serve acme/m-7b --gpu-memory-utilization 1.0",
        "utilization-one-leaves-no-headroom",
    ),
    "engines listed beside the log": (
        v1("0.20.2", failed(free(11.2, 79.1, 0.9))) + "$ ps -eo pid,ppid,args\n  31802      1 VLLM::EngineCore\n",
        "vllm serve acme/m-7b",
        "orphan-engine-holds-gpu",
    ),
    "two stages in one log": (
        v1("0.17.0", info("non-default args: {'model': 'acme/omni', 'omni': True}", "utils.py"), failed(free(70, 139.8, 0.9))),
        "vllm serve acme/omni --omni",
        "co-located-models-budgets-exceed-gpu",
    ),
    "half of a card of which half is taken": (
        v1("0.13.0", failed(free(37.1, 79.2, 0.5, ""))),
        "vllm serve acme/m-7b --gpu-memory-utilization 0.5",
        "co-located-models-budgets-exceed-gpu",
    ),
    "the CPU backend asks for a share of the host": (
        "ValueError: Available memory on node 0 (7.61/10.96 GiB) on startup is less than desired CPU memory utilization "
        "(0.92, 10.09 GiB). Decrease --gpu-memory-utilization or reduce CPU memory used by other processes.\n",
        "vllm serve acme/m-7b",
        "utilization-exceeds-free-memory-at-startup",
    ),
    "weights above the card": (
        v1("0.10.2", LOADING, failed(oom(), "v1/worker/gpu_model_runner.py:load_model", "model_executor/model_loader/utils.py:initialize_model")),
        "vllm serve acme/m-70b",
        "utilization-too-low-for-weights",
    ),
    "weights beside a neighbour": (
        v1("0.8.5", LOADING, failed(oom("Process 99 has 17.9 GiB memory in use. Process 100 has 4.80 GiB memory in use. ", "4.20 GiB"), "v1/worker/gpu_worker.py:load_model")),
        "vllm serve acme/m-7b",
        "gpu-memory-held-by-other-process",
    ),
    "no room even for a context": (
        v1("0.8.5", failed("RuntimeError: CUDA error: out of memory", "v1/worker/gpu_worker.py:init_device")),
        "vllm serve acme/m-7b",
        "gpu-memory-held-by-other-process",
    ),
    "the profile run of plain text": (
        v1("0.10.2", LOADING, LOADED, failed(oom(), "v1/worker/gpu_worker.py:determine_available_memory", "v1/worker/gpu_model_runner.py:profile_run")),
        "vllm serve acme/m-7b",
        "utilization-too-low-for-weights",
    ),
    "the profile run of images": (
        v1("0.10.2", LOADING, LOADED, failed(oom(), "v1/worker/gpu_model_runner.py:profile_run", "model_executor/models/qwen2_vl.py:get_multimodal_embeddings", "model_executor/models/qwen2_vl.py:forward")),
        "vllm serve acme/vl-7b",
        "multimodal-profiling-oom",
    ),
    "no blocks, large share": (
        v1("0.16.0", LOADING, LOADED, info("Available KV cache memory: -2.30 GiB", "gpu_worker.py"), failed(NO_BLOCKS, "v1/core/kv_cache_utils.py:_check_enough_kv_cache_memory")),
        "vllm serve acme/m-7b --gpu-memory-utilization 0.7",
        "utilization-too-low-for-weights",
    ),
    "no blocks, a small model beside others that start": (
        v1("0.16.0", LOADING, SMALL, info("Available KV cache memory: -2.30 GiB", "gpu_worker.py"), failed(NO_BLOCKS)),
        "vllm serve acme/m-7b --gpu-memory-utilization 0.2",
        "concurrent-start-memory-race",
    ),
    "no blocks, V1 before 0.9.1 beside another server": (
        v1("0.8.4", LOADING, LOADED, failed(NO_BLOCKS)),
        "vllm serve acme/m-7b --gpu-memory-utilization 0.45",
        "profiler-counts-other-processes",
    ),
    "no blocks by an override": (
        v1("0.13.0", LOADING, LOADED, failed(NO_BLOCKS)),
        "vllm serve acme/m-7b --num-gpu-blocks-override 1",
        "kv-cache-size-zero",
    ),
    "no blocks, V0's CPU worker": (
        "ValueError: No available memory for the cache blocks. Try increasing `VLLM_CPU_KVCACHE_SPACE` when initializing the engine.\n",
        "VLLM_CPU_KVCACHE_SPACE=0 vllm serve acme/m-7b",
        "kv-cache-size-zero",
    ),
    "a pool in bytes above the card": (
        v1("0.11.2", LOADING, LOADED, failed(oom(), *KV_FRAMES)),
        "vllm serve acme/m-7b --kv-cache-memory-bytes 64G",
        "kv-cache-bytes-exceed-memory",
    ),
    "V0 in bytes": (
        "AssertionError: Error in memory profiling. Initial free memory 25056378880, current free memory 42236248064. "
        "This happens when the GPU memory was not properly cleaned up before initializing the vLLM instance.\n",
        "vllm serve acme/m-7b",
        "neighbour-freed-memory-during-profiling",
    ),
    "graphs, the traceback cut off": (
        v1("0.9.2", LOADING, LOADED, PROFILED, SIZED, CAPTURING, oom()),
        "vllm serve acme/m-7b",
        "cuda-graph-capture-oom",
    ),
    "sampler": (
        v1("0.13.0", LOADING, LOADED, PROFILED, SIZED, failed("RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", "v1/worker/gpu_model_runner.py:_dummy_sampler_run")),
        "vllm serve acme/m-7b --max-num-seqs 1024",
        "sampler-warmup-oom-max-num-seqs",
    ),
    "a request that needs more": (
        v1("0.11.2", LOADING, LOADED, PROFILED, SIZED, SERVING, failed(oom(), "v1/engine/core.py:run_busy_loop", "v1/worker/gpu_model_runner.py:execute_model", words="EngineCore encountered a fatal error.")),
        "vllm serve acme/m-7b",
        "oom-while-serving",
    ),
    "the kernel's line": (
        v1("0.11.2", LOADING) + "[  512.331] Out of memory: Killed process 4711 (VLLM::Worker) total-vm:188433412kB\n",
        "vllm serve acme/m-70b",
        "host-ram-exhausted",
    ),
    "sleep mode": (
        v1("0.11.2", LOADING, failed("AssertionError: Expandable segments are not compatible with memory pool. Please track https://github.com/pytorch/pytorch/issues/147851 for the latest updates.")),
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve acme/m-7b --enable-sleep-mode",
        "sleep-mode-with-expandable-segments",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_memory_trouble_by_stage_and_numbers(name: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log, launch, wanted = STARTS[name]
    assert causes_of(diagnosed(log, library, covers, launch))[:1] == [wanted]


RAW = {
    "utilization-too-low-for-weights": """\
INFO 08-12 10:00:00 api_server.py:339] vLLM API server version 0.5.5
INFO 08-12 10:00:05 llm_engine.py:184] Initializing an LLM engine (v0.5.5) with config: model='acme/m-70b', speculative_config=None, tokenizer='acme/m-70b'
INFO 08-12 10:00:09 model_runner.py:879] Starting to load model acme/m-70b...
[rank0]: Traceback (most recent call last):
[rank0]:   File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main
[rank0]:     return _run_code(code, main_globals, None,
[rank0]:   File "/usr/local/lib/python3.10/dist-packages/vllm/worker/worker.py", line 182, in load_model
[rank0]:     self.model_runner.load_model()
[rank0]:   File "/usr/local/lib/python3.10/dist-packages/vllm/model_executor/models/llama.py", line 391, in __init__
[rank0]:     self.model = LlamaModel(config,
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 305.06 MiB is free. Process 1840 has 23.34 GiB memory in use. Of the allocated memory 22.88 GiB is allocated by PyTorch, and 1.54 MiB is reserved by PyTorch but unallocated.
""",
    "gpu-memory-held-by-other-process": """\
(RayWorkerWrapper pid=4711, ip=10.0.0.7) INFO 08-12 10:00:09 model_runner.py:1072] Starting to load model acme/m-70b...
(RayWorkerWrapper pid=4711, ip=10.0.0.7) ERROR 08-12 10:00:19 worker_base.py:464] Error executing method load_model. This might cause deadlock in distributed execution.
(RayWorkerWrapper pid=4711, ip=10.0.0.7) ERROR 08-12 10:00:19 worker_base.py:464] Traceback (most recent call last):
(RayWorkerWrapper pid=4711, ip=10.0.0.7) ERROR 08-12 10:00:19 worker_base.py:464]   File "/usr/local/lib/python3.12/dist-packages/vllm/worker/worker.py", line 152, in load_model
(RayWorkerWrapper pid=4711, ip=10.0.0.7) ERROR 08-12 10:00:19 worker_base.py:464]     self.model_runner.load_model()
(RayWorkerWrapper pid=4711, ip=10.0.0.7) ERROR 08-12 10:00:19 worker_base.py:464] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 79.14 GiB of which 20.75 MiB is free. Process 98 has 60.10 GiB memory in use. Process 4711 has 18.90 GiB memory in use. Of the allocated memory 18.40 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.
""",
    "lora-dummy-vocab-mismatch": """\
INFO 07-10 17:13:54 api_server.py:206] vLLM API server version 0.5.1
INFO 07-10 17:13:58 llm_engine.py:169] Initializing an LLM engine (v0.5.1) with config: model='bigcode/gpt_bigcode-santacoder', speculative_config=None
INFO 07-10 17:14:03 model_runner.py:255] Loading model weights took 2.2009 GB
[rank0]: Traceback (most recent call last):
[rank0]:   File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main
[rank0]:     return _run_code(code, main_globals, None,
[rank0]:   File "/v/lib/python3.10/site-packages/vllm/worker/worker.py", line 173, in determine_num_available_blocks
[rank0]:     self.model_runner.profile_run()
[rank0]:   File "/v/lib/python3.10/site-packages/vllm/worker/model_runner.py", line 855, in profile_run
[rank0]:     self.execute_model(model_input, kv_caches, intermediate_tensors)
[rank0]:   File "/v/lib/python3.10/site-packages/vllm/lora/worker_manager.py", line 209, in _apply_loras
[rank0]:     self.add_lora(lora)
[rank0]:   File "/v/lib/python3.10/site-packages/vllm/lora/models.py", line 442, in activate_lora
[rank0]:     module.set_lora(index, module_lora.lora_a, module_lora.lora_b,
[rank0]:   File "/v/lib/python3.10/site-packages/vllm/lora/layers.py", line 244, in set_lora
[rank0]:     self.lora_a_stacked[index, :lora_a.shape[0], :lora_a.shape[1]].copy_(
[rank0]: RuntimeError: The size of tensor a (49408) must match the size of tensor b (49280) at non-singleton dimension 1
""",
}


@pytest.mark.parametrize("wanted", RAW)
def test_ranks_and_rays_prefixes_change_nothing(wanted: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    assert causes_of(diagnosed(RAW[wanted], library, covers, "vllm serve acme/m-70b"))[:1] == [wanted]


def test_the_old_message_of_torch_alone_is_a_memory_cause(library: Sequence[Loaded], covers: Wrappers) -> None:
    log = (
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; 74.32 GiB already allocated; "
        "4.83 GiB free; 78.90 GiB reserved in total by PyTorch)\n"
    )
    first = diagnosed(log, library, covers).causes[0].cause
    assert first.family == "memory"
    assert first.confidence < 0.7  # the stage is not known


GPU = {"index": 0, "total_gib": 79.1, "free_gib": 11.2, "used_gib": 67.9}
ORPHANED = {"gpus": [GPU | {"processes": [{"pid": 7, "used_gib": 67.4, "is_orphan": True}]}], "servers": []}
STRANGER = {"gpus": [GPU | {"processes": [{"pid": 9, "used_gib": 67.4, "name": "python train.py"}]}], "servers": []}


@pytest.mark.parametrize(
    ("state", "wanted"),
    [(ORPHANED, "orphan-engine-holds-gpu"), (STRANGER, "gpu-memory-held-by-other-process")],
    ids=["orphan", "stranger"],
)
def test_who_holds_the_gpu_is_decided_by_its_processes(
    state: Any, wanted: str, library: Sequence[Loaded], covers: Wrappers
) -> None:
    log = v1("0.20.2", failed(free(11.2, 79.1, 0.9)))
    known = diagnosed(log, library, covers, state=state)
    unknown = diagnosed(log, library, covers)
    assert causes_of(known)[0] == wanted
    assert wanted in causes_of(unknown)[:3]
    assert known.causes[0].cause.confidence > unknown.causes[0].cause.confidence
    assert any(one.evidence == "gpu processes" and wanted in one.decides for one in unknown.missing)


LORA = {
    "rank, two workers": (
        LORA_UP + failed("ValueError: LoRA rank 128 is greater than max_lora_rank 16.", *LORA_FRAMES, words="WorkerProc hit an exception.").replace("@", "(Worker_TP1 pid=9)"),
        "lora-rank-exceeds-max",
    ),
    "rank alone": ("ValueError: LoRA rank 64 is greater than max_lora_rank 16.\n", "lora-rank-exceeds-max"),
    "target alone": ("ValueError: LoRA target module not found in base model\n", "lora-target-module-mismatch"),
    "target, cut": ("ValueError: While loading /m/sql, expected target modules in ['qkv_proj',\n", "lora-target-module-mismatch"),
    "experts": (
        "ValueError: While loading /m/sql, expected target modules in {'q_proj', 'k_proj'} but received "
        "['model.layers.0.mlp.experts.0.up_proj']. Please verify that the loaded LoRA module is correct\n",
        "lora-moe-experts-unsupported",
    ),
    "a class of experts": ("ValueError: DeepseekV2ForCausalLM does not support LoRA yet.\n", "lora-moe-experts-unsupported"),
    "a class without": ("ValueError: BloomForCausalLM does not support LoRA yet.\n", "lora-arch-unsupported"),
    "magnitude": (
        "ValueError: base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector is unsupported LoRA weight\n",
        "lora-dora-unsupported",
    ),
    "bias": ("ValueError: base_model.model.model.layers.0.self_attn.q_proj.bias is unsupported LoRA weight\n", "lora-bias-unsupported"),
    "head": ("ValueError: base_model.model.lm_head.weight is unsupported LoRA weight\n", "lora-full-weights-in-adapter"),
    "old loader around the real one": (
        'Traceback (most recent call last):\n  File "/v/vllm/lora/worker_manager.py", line 94, in _load_adapter\n    lora = x\n'
        "ValueError: base_model.model.lm_head.weight is unsupported LoRA weight\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/v/vllm/worker/worker.py", line 9, in add_lora\n    x()\n'
        "RuntimeError: Loading lora /models/sql failed\n",
        "lora-full-weights-in-adapter",
    ),
    "pointer": (
        LORA_UP + failed("safetensors._safetensors_rust.SafetensorError: Error while deserializing header: header too large", *LORA_FRAMES, "lora/lora_model.py:from_local_checkpoint"),
        "lora-adapter-corrupt",
    ),
    "missing": (
        LORA_UP + failed("FileNotFoundError: [Errno 2] No such file or directory: '/a/sql/adapter_config.json'", *LORA_FRAMES, "lora/peft_helper.py:from_local_dir"),
        "lora-adapter-path-not-found",
    ),
    "not enabled": (
        "ValueError: Got lora_request LoRARequest(lora_name='sql', lora_int_id=1, lora_path='/m/sql') but LoRA is not enabled!\n",
        "lora-not-enabled",
    ),
    "pydantic": (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for LoRAConfig\n  Value error, max_cpu_loras (2) "
        "must be >= max_loras (4). [type=value_error, input_value=ArgsKwargs((), {'max_lora...ne}), input_type=ArgsKwargs]\n",
        "lora-argument-invalid",
    ),
    "literal": (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for LoRAConfig\nmax_lora_rank\n  Input should be 1, "
        "8, 16, 32, 64, 128, 256, 320 or 512 [type=literal_error, input_value=24, input_type=int]\n",
        "lora-max-rank-not-allowed-value",
    ),
    "packed layers": (
        v1("0.11.2", LOADING, failed("AttributeError: 'NoneType' object has no attribute 'device'", "v1/worker/gpu_model_runner.py:load_model", "lora/layers/utils.py:_get_lora_device")),
        "lora-quantized-base-unsupported",
    ),
    "another width": (
        LORA_UP + failed("RuntimeError: The size of tensor a (4096) must match the size of tensor b (5120) at non-singleton dimension 1", "v1/worker/gpu_worker.py:add_lora", "lora/layers/column_parallel_linear.py:set_lora"),
        "lora-base-shape-mismatch-silent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LORA)
def test_lora_trouble(name: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log, wanted = LORA[name]
    launch = "vllm serve acme/m-7b --enable-lora --lora-modules sql=/models/sql"
    assert causes_of(diagnosed(log.replace("@", "(EngineCore_DP0 pid=2)"), library, covers, launch))[:1] == [wanted]


def test_an_adapter_without_effect_shows_in_a_healthy_log(library: Sequence[Loaded], covers: Wrappers) -> None:
    told = "@ WARNING 11-29 10:00:21 [model_manager.py:254] LoRA with tower connector is enabled, but the model {} does not support it."
    log = (LORA_UP + told.format("PixtralForConditionalGeneration") + "\n" + SERVING + "\n").replace(
        "@", "(EngineCore_DP0 pid=2)"
    )
    found = diagnosed(log, library, covers)
    assert (found.outcome, causes_of(found)) == ("healthy", ["lora-has-no-effect"])


QUIET = (
    "@ WARNING 11-29 10:00:21 [lora.py:9] awq quantization is not tested with LoRA yet.",
    "@ WARNING 11-29 10:00:21 [models.py:9] Regarding Qwen2VLForConditionalGeneration, vLLM currently only supports adding "
    "LoRA to language model, visual.merger will be ignored.",
    "@ WARNING 11-29 10:00:21 [cache.py:9] Possibly too large swap space. 8.00 GiB out of the 15.58 GiB total CPU memory "
    "is allocated for the swap space.",
    "@ WARNING 11-29 10:00:21 [gpu_worker.py:9] Free memory grew by 1.2 GiB during profiling (initial 20.1 GiB, current "
    "21.3 GiB). Sizing the KV cache from the 3.1 GiB torch reserved instead of the profiling difference.",
    "@ INFO 11-29 10:00:21 [gpu_model_runner.py:9] CUDA graphs can take additional 1~3 GiB memory per GPU. If you are "
    "running out of memory, consider decreasing `gpu_memory_utilization` or enforcing eager mode.",
)


@pytest.mark.parametrize("line", QUIET)
def test_what_good_starts_say_is_no_cause(line: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log = (LORA_UP + line + "\n" + SERVING + "\n").replace("@", "(EngineCore_DP0 pid=2)")
    assert causes_of(diagnosed(log, library, covers)) == []


def test_the_error_tells_the_variant(library: Sequence[Loaded], covers: Wrappers) -> None:
    def verdicts(line: str) -> list[str]:
        causes = diagnosed(f"ValueError: {line}\n", library, covers).causes
        return [one.verdict.value for one in causes[0].cause.hypotheses]

    assert verdicts("vLLM does not yet support DoRA.") == ["confirmed", "refuted"]
    assert verdicts("vLLM does not support Activated LoRA (aLoRA).") == ["refuted", "confirmed"]
