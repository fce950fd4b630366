"""Short logs as vLLM prints them, for the tests of what reads them."""

from __future__ import annotations

import json
import re

LOAD = b"""\
(APIServer pid=10) INFO 03-02 10:11:12 [api_server.py:1772] vLLM API server version 0.13.0
(APIServer pid=10) INFO 03-02 10:11:12 [utils.py:253] non-default args: {'model': 'acme/m-7b', 'port': 1}
(EngineCore_DP0 pid=20) INFO 03-02 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.13.0) with config: model='acme/m-7b'
(Worker_TP0 pid=30) INFO 03-02 10:11:30 [gpu_model_runner.py:3549] Starting to load model acme/m-7b...
(Worker_TP1 pid=31) INFO 03-02 10:11:30 [gpu_model_runner.py:3549] Starting to load model acme/m-7b...
Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]
Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:00<00:00, 16.04it/s]

(Worker_TP1 pid=31) WARNING 03-02 10:11:41 [fused_moe.py:886] Using default MoE config.
(Worker_TP0 pid=30) INFO 03-02 10:11:45 [gpu_worker.py:375] Available KV cache memory: 4.87 GiB
(EngineCore_DP0 pid=20) ERROR 03-02 10:11:46 [core.py:866] EngineCore failed to start.
(EngineCore_DP0 pid=20) ERROR 03-02 10:11:46 [core.py:866] Traceback (most recent call last):
(EngineCore_DP0 pid=20) ERROR 03-02 10:11:46 [core.py:866]   File "/x/vllm/v1/engine/core.py", line 857, in run
(EngineCore_DP0 pid=20) ERROR 03-02 10:11:46 [core.py:866] ValueError: No available memory for the cache blocks.
(EngineCore_DP0 pid=20) Traceback (most recent call last):
(EngineCore_DP0 pid=20)   File "/x/vllm/v1/engine/core.py", line 866, in run_engine_core
(EngineCore_DP0 pid=20) ValueError: No available memory for the cache blocks.
(APIServer pid=10) ERROR 03-02 10:11:50 [serve.py:99] Engine core initialization failed.
INFO:     10.0.0.9:41234 - "GET /health HTTP/1.1" 200 OK
""".removesuffix(b"\n")  # noqa: E501


def behind(prefix: bytes) -> bytes:
    """`LOAD` with `prefix` in front of every line."""
    return b"\n".join(prefix + line for line in LOAD.split(b"\n"))


def coloured() -> bytes:
    """As vLLM 0.31 and newer prints it on a terminal."""

    def paint(found: re.Match[bytes]) -> bytes:
        tag, level, stamp, place = found.groups()
        return b"\x1b[0;36m%b\x1b[0;0m \x1b[32m%b\x1b[0m \x1b[90m%b\x1b[0m \x1b[90m%b\x1b[0m" % (
            tag,
            level,
            stamp,
            place,
        )

    return re.sub(rb"(?m)^(\(\S+ pid=\d+\)) ([A-Z]+) ([\d: -]{14}) (\[\S+\])", paint, LOAD)


def without_brackets() -> bytes:
    """As vLLM 0.7 and older printed it."""
    return re.sub(rb"(?m)^\(\S+ pid=\d+\) ([A-Z]+ [\d: -]{14} )\[", rb"\1", LOAD)


def as_json(turned: bool = False) -> bytes:
    """As the json formatter of vLLM 0.32 prints records; `turned`: with the keys in another order."""
    lines = []
    for line in LOAD.split(b"\n"):
        found = re.match(rb"\((\S+) pid=(\d+)\) ([A-Z]+) .{14} \[(\S+)\.py:\d+\] (.*)", line)
        if found is None:
            lines.append(line)
            continue
        process, pid, level, module, message = (group.decode() for group in found.groups())
        record = {
            "asctime": "2026-03-02 10:11:12,345",
            "levelname": level,
            "name": f"vllm.v1.{'engine' if module == 'core' else 'worker'}.{module}",
            "processName": process,
            "process": int(pid),
            "message": message,
        }
        lines.append(json.dumps(dict(reversed(record.items())) if turned else record).encode())
    return b"\n".join(lines)


SHAPES = {
    "plain": LOAD,
    "coloured": coloured(),
    "0.7": without_brackets(),
    "json": as_json(),
    "json, keys turned": as_json(turned=True),
    "crlf": LOAD.replace(b"\n", b"\r\n"),
    "docker compose": behind(b"vllm-1  | "),
    "docker -t": behind(b"2026-03-02T10:11:12.123456789Z "),
    "cri": behind(b"2026-03-02T10:11:12.123456789Z stdout F "),
    "journald": behind(b"Mar 02 10:11:12 gpu1 vllm[2712]: "),
    "kubectl --prefix": behind(b"[pod/vllm-0/server] "),
    "ray": behind(b"(RayWorkerWrapper pid=77) "),
    "own prefix": LOAD.replace(b"(APIServer pid=10) INFO", b"prod-7 (APIServer pid=10) INFO"),
    "drawn over": LOAD.replace(b"Loading saf", b"\rLoading saf").replace(b"  0% C", b"  0% C\rLoading x:  0% C"),
}
