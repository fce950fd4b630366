"""Logs as vLLM's releases write them, built from their parts, and their diagnosis."""

# ruff: noqa: E501 - a line of a log is as long as it is

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.command_line import parse_command
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.evidence_host import HostState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.covers import Wrappers
    from playbooks.diagnosis import Diagnosis
    from playbooks.library import Loaded

OWN = "Including non-PyTorch memory, this process has 22.74 GiB memory in use. "


def oom(processes: str = OWN, allocated: str = "22.32 GiB") -> str:
    """As torch 2.1 and newer print it."""
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 23.53 GiB "
        f"of which 803.69 MiB is free. {processes}Of the allocated memory {allocated} is allocated by PyTorch, and "
        "21.62 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def free(free_gib: float, total_gib: float, share: float, device: str = "cuda:0 ") -> str:
    return (
        f"ValueError: Free memory on device {device}({free_gib}/{total_gib} GiB) on startup is less than desired GPU "
        f"memory utilization ({share}, {total_gib * share:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory "
        "used by other processes."
    )


def v1(version: str, *body: str, who: str = "EngineCore_DP0 pid=2", serve: str = "acme/m-7b") -> str:
    """The start of a V1 engine's log, and `body`."""
    start = (
        f"(APIServer pid=1) INFO 11-29 10:00:00 [api_server.py:1990] vLLM API server version {version}",
        f"(EngineCore_DP0 pid=2) INFO 11-29 10:00:05 [core.py:77] Initializing a V1 LLM engine (v{version}) with config: "
        f"model='{serve}', speculative_config=None, tensor_parallel_size=1, pipeline_parallel_size=1",
    )
    return "\n".join((*start, *(line.replace("@", f"({who})") for text in body for line in text.split("\n")))) + "\n"


def info(text: str, file: str = "gpu_model_runner.py") -> str:
    return f"@ INFO 11-29 10:00:09 [{file}:2602] {text}"


def failed(exception: str, *frames: str, words: str = "EngineCore failed to start.") -> str:
    """A logged traceback; a frame is `v1/worker/gpu_worker.py:load_model`."""
    told = [words, "Traceback (most recent call last):"]
    for frame in frames:
        file, _, function = frame.rpartition(":")
        told += [f'  File "/opt/venv/lib/python3.12/site-packages/vllm/{file}", line 7, in {function}', "    do()"]
    return "\n".join(f"@ ERROR 11-29 10:00:20 [core.py:842] {line}" for line in (*told, *exception.split("\n")))


LOADING = info("Starting to load model acme/m-7b...")
LOADED = info("Model loading took 14.2500 GiB and 3.120000 seconds")
SMALL = info("Model loading took 1.2100 GiB and 1.120000 seconds")
PROFILED = info("Available KV cache memory: 4.20 GiB", "gpu_worker.py")
SIZED = info("GPU KV cache size: 34,736 tokens", "kv_cache_utils.py")
CAPTURING = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|#         | 7/67 [00:01<00:13,  4.60it/s]"
SERVING = "(APIServer pid=1) INFO:     Application startup complete."
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
KV_FRAMES = (
    "v1/worker/gpu_worker.py:initialize_from_config",
    "v1/worker/gpu_model_runner.py:_allocate_kv_cache_tensors",
)
LORA_FRAMES = ("v1/worker/gpu_worker.py:add_lora", "lora/worker_manager.py:_load_adapter")
LORA_UP = v1("0.13.0", LOADING, LOADED, PROFILED, SIZED)


def diagnosed(
    log: str, library: Sequence[Loaded], covers: Wrappers, launch: str = "vllm serve acme/m-7b", state: Any = None
) -> Diagnosis:
    host = None if state is None else HostState(state, "host.json")
    evidence = Evidence(parse_command(launch), host_state=host)
    return diagnose(read_text([log]), library, covers, Given("vllm.log", evidence))
