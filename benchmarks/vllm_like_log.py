"""Writes a log like that of a vLLM server which loads, serves for days, fails at times and is started again.

    python benchmarks/vllm_like_log.py FILE [--megabytes 200] [--style B|C] [--seed 1]

Two tensor-parallel workers, the engine and the API server: loads with progress bars, requests, throughput lines,
access lines, warnings and multi-line tracebacks. Style B (0.8 to 0.30) tags all that a process prints, style C
(from 0.31) only what it logs. The same arguments make the same bytes.
"""

# ruff: noqa: E501 -- log lines stay as they are
from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MEGABYTE = 1_000_000
_START = 1_772_442_672  # 2026-03-02 09:11:12 UTC
_PATHS = ("/v1/chat/completions", "/v1/completions", "/health", "/metrics", "/v1/models")
_MODEL = "acme/m-70b-instruct"
_LOAD = (
    ("APIServer", "INFO", "api_server.py:1772", "vLLM API server version 0.13.0"),
    ("APIServer", "INFO", "utils.py:253", f"non-default args: {{'model': '{_MODEL}', 'tensor_parallel_size': 2}}"),
    ("APIServer", "INFO", "model.py:733", "Resolved architecture: LlamaForCausalLM"),
    ("APIServer", "INFO", "model.py:2152", "Using max model len 8192"),
    ("EngineCore_DP0", "INFO", "core.py:93", f"Initializing a V1 LLM engine (v0.13.0) with config: model='{_MODEL}', dtype=torch.bfloat16"),
    ("Worker_TP0", "INFO", "parallel_state.py:1203", "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:41357 backend=nccl"),
    ("Worker_TP1", "INFO", "parallel_state.py:1203", "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://127.0.0.1:41357 backend=nccl"),
    ("Worker_TP0", "INFO", "pynccl.py:111", "vLLM is using nccl==2.27.5"),
    ("Worker_TP0", "INFO", "gpu_model_runner.py:3549", f"Starting to load model {_MODEL}..."),
    ("Worker_TP1", "INFO", "gpu_model_runner.py:3549", f"Starting to load model {_MODEL}..."),
)  # fmt: skip
_READY = (
    ("Worker_TP0", "INFO", "default_loader.py:308", "Loading weights took 13.34 seconds"),
    ("Worker_TP0", "INFO", "gpu_model_runner.py:3630", "Model loading took 65.7409 GiB memory and 14.539395 seconds"),
    ("Worker_TP1", "INFO", "gpu_model_runner.py:3630", "Model loading took 65.7409 GiB memory and 14.601112 seconds"),
    ("Worker_TP0", "INFO", "gpu_worker.py:375", "Available KV cache memory: 4.87 GiB"),
    ("EngineCore_DP0", "INFO", "kv_cache_utils.py:1291", "GPU KV cache size: 31,904 tokens"),
    ("EngineCore_DP0", "INFO", "kv_cache_utils.py:1296", "Maximum concurrency for 8,192 tokens per request: 3.89x"),
    ("Worker_TP0", "INFO", "gpu_model_runner.py:4587", "Graph capturing finished in 21 secs, took 0.58 GiB"),
    ("EngineCore_DP0", "INFO", "core.py:259", "init engine (profile, create kv cache, warmup model) took 41.52 seconds"),
    ("APIServer", "INFO", "api_server.py:1346", "Starting vLLM API server 0 on http://0.0.0.0:8000"),
)  # fmt: skip
_TRACEBACK = (
    "EngineCore encountered a fatal error.",
    "Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 857, in run_engine_core',
    "    engine_core.run_busy_loop()",
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 884, in run_busy_loop',
    "    self._process_engine_step()",
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/executor/multiproc_executor.py", line 243, in execute_model',
    "    (output,) = self.collective_rpc(",
    "                ^^^^^^^^^^^^^^^^^^^^",
    "TimeoutError: RPC call to execute_model timed out.",
)


class Writer:
    """Lines of one server; its clock and its process ids go on from line to line."""

    def __init__(self, style: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._clock = float(_START)
        self._bare_tag = style == "B"
        self._pids: dict[str, int] = {}

    def lines(self) -> Iterator[str]:
        """Endless: load, serve, fail, load again."""
        while True:
            first_pid = self._random.randrange(1000, 60000)
            names = ("APIServer", "EngineCore_DP0", "Worker_TP0", "Worker_TP1")
            self._pids = {name: first_pid + 40 * number for number, name in enumerate(names)}
            yield from self._load()
            for _ in range(150_000):
                yield from self._serve_a_moment()
            yield from self._fail()

    def _load(self) -> Iterator[str]:
        yield from self._logged(_LOAD)
        for done in range(31):
            text = f"Loading safetensors checkpoint shards: {done * 100 // 30:3d}% Completed | {done}/30 [00:{done:02d}<00:{30 - done:02d},  1.41s/it]"
            yield self._bare("Worker_TP0", text)
        yield self._bare("Worker_TP0", "")
        bars = (f"Capturing CUDA graphs (decode, FULL): {n * 100 // 35:3d}%|####      | {n}/35 [00:01<00:01, 14.2it/s]" for n in range(36))  # fmt: skip
        yield self._bare("Worker_TP0", "\r".join(bars))
        yield from self._logged(_READY)
        for word in ("Started server process [1]", "Waiting for application startup.", "Application startup complete."):
            yield self._bare("APIServer", f"INFO:     {word}")

    def _serve_a_moment(self) -> Iterator[str]:
        chance = self._random.random()
        self._clock += chance
        if chance < 0.62:
            port, path = self._random.randrange(30000, 61000), self._random.choice(_PATHS)
            verb = "POST" if "completions" in path else "GET"
            yield self._bare(
                "APIServer", f'INFO:     10.0.{port % 7}.{port % 251}:{port} - "{verb} {path} HTTP/1.1" 200 OK'
            )
        elif chance < 0.87:
            word = f"{self._random.getrandbits(128):032x}"
            text = f"Received request chatcmpl-{word}: params: SamplingParams(n=1, presence_penalty=0.0, temperature=0.7, top_p=0.9, max_tokens={self._random.randrange(16, 2048)}), lora_request: None."
            yield self._record("APIServer", "INFO", "logger.py:40", text)
        elif chance < 0.985:
            rate, running = self._random.random() * 4000, self._random.randrange(200)
            text = f"Engine 000: Avg prompt throughput: {rate:.1f} tokens/s, Avg generation throughput: {rate / 3:.1f} tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: {running / 2:.1f}%, Prefix cache hit rate: 41.3%"
            yield self._record("APIServer", "INFO", "loggers.py:236", text)
        elif chance < 0.998:
            rank = self._random.randrange(2)
            yield self._record(
                f"Worker_TP{rank}",
                "WARNING",
                "fused_moe.py:886",
                "Using default MoE config. Performance might be sub-optimal!",
            )
        else:
            yield from self._traceback("APIServer", "serving_chat.py:1021")

    def _traceback(self, process: str, place: str) -> Iterator[str]:
        for text in _TRACEBACK:
            yield self._record(process, "ERROR", place, text)

    def _fail(self) -> Iterator[str]:
        yield from self._traceback("EngineCore_DP0", "core.py:866")
        for text in _TRACEBACK[1:]:
            yield self._bare("EngineCore_DP0", text)
        self._clock += 60

    def _logged(self, records: tuple[tuple[str, str, str, str], ...]) -> Iterator[str]:
        for process, level, place, message in records:
            self._clock += self._random.random()
            yield self._record(process, level, place, message)

    def _record(self, process: str, level: str, place: str, message: str) -> str:
        stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime(self._clock))
        return f"({process} pid={self._pids[process]}) {level} {stamp} [{place}] {message}"

    def _bare(self, process: str, text: str) -> str:
        return f"({process} pid={self._pids[process]}) {text}" if self._bare_tag and text else text


def write(path: Path, size_bytes: int, style: str = "B", seed: int = 1) -> int:
    """Write whole lines until `size_bytes` are reached; returns the number of lines."""
    size = count = 0
    with path.open("wb", buffering=MEGABYTE) as file:
        for line in Writer(style, seed).lines():
            content = line.encode() + b"\n"
            file.write(content)
            size, count = size + len(content), count + 1
            if size >= size_bytes:
                return count
    raise AssertionError("the lines are endless")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--style", choices=["B", "C"], default="B")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    count = write(args.file, args.megabytes * MEGABYTE, args.style, args.seed)
    print(f"{args.file}: {count:,} lines")


if __name__ == "__main__":
    main()
