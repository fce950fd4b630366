"""How long `vllm-console diagnose LOG --json` takes as a whole process, on logs of 1 MB and of 200 MB.

    python benchmarks/diagnose.py [--rounds 3] [--megabytes 200] [--json]

Beside it stand the start of a bare interpreter and the time in which the index of benchmarks/logs.py has the big log.
In every round each way runs once, in turning order, so that ratios hold where the machine's speed drifts; ratios are
those of one round. Modules are compiled beforehand, as installing a package does. The logs are those of
vllm_like_log.py with a start that fails at their end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_like_log import MEGABYTE, write

if TYPE_CHECKING:
    from collections.abc import Mapping

INDEXED = """
import sys, time
from pathlib import Path
began = time.perf_counter()
from engine_probe.logs.index import open_log
log = open_log(Path(sys.argv[1]))
while not log.advance():
    pass
print(time.perf_counter() - began)
"""
"""The part of logs_ours.py that is wanted here: the rest takes minutes."""
SCRIPT = "from tui.entry import main; main()"
"""What the installed `vllm-console` is."""
SMALL_MEGABYTES = 1
LAUNCH = "vllm serve acme/m-70b-instruct --max-model-len 8192 --tensor-parallel-size 2"
EXPECTED = "kv-cache-too-small-for-max-model-len"
_API, _ENGINE = "(APIServer pid=71001)", "(EngineCore_DP0 pid=71041)"
FAILURE = f"""\
{_API} INFO 06-02 10:11:12 [api_server.py:1772] vLLM API server version 0.13.0
{_API} INFO 06-02 10:11:12 [utils.py:253] non-default args: {{'model': 'acme/m-70b-instruct', 'max_model_len': 8192}}
{_ENGINE} INFO 06-02 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.13.0) with config: model='acme/m-70b-instruct'
{_ENGINE} INFO 06-02 10:12:11 [gpu_worker.py:375] Available KV cache memory: 0.42 GiB
{_ENGINE} ERROR 06-02 10:12:11 [core.py:866] EngineCore failed to start.
{_ENGINE} ERROR 06-02 10:12:11 [core.py:866] Traceback (most recent call last):
{_ENGINE} ERROR 06-02 10:12:11 [core.py:866]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/core/kv_cache_utils.py", line 691, in _check_enough_kv_cache_memory
{_ENGINE} ERROR 06-02 10:12:11 [core.py:866]     raise ValueError(
{_ENGINE} ERROR 06-02 10:12:11 [core.py:866] ValueError: To serve at least one request with the models's max seq len (8192), (1.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.42 GiB). Based on the available memory, the estimated maximum model length is 3440. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
{_API} RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""  # noqa: E501 -- log lines stay as they are


def made_log(folder: Path, megabytes: int) -> Path:
    path = folder / f"{megabytes}-mb.log"
    write(path, megabytes * MEGABYTE - len(FAILURE))
    with path.open("a", encoding="utf-8") as file:
        file.write(FAILURE)
    return path


def commands(small: Path, big: Path) -> dict[str, list[str]]:
    diagnose = [sys.executable, "-c", SCRIPT, "diagnose", "--json"]
    return {
        "bare": [sys.executable, "-c", "pass"],
        "small": [*diagnose, str(small)],
        "small, launch": [*diagnose, "--launch", LAUNCH, str(small)],
        "big": [*diagnose, str(big)],
        "indexed": [sys.executable, "-c", INDEXED, str(big)],
    }


def seconds_of(name: str, argv: list[str], env: Mapping[str, str]) -> float:
    """Of the whole process; of our index, the time that it tells. Raises SystemExit where a diagnosis went wrong."""
    began = time.perf_counter()
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    seconds = time.perf_counter() - began
    if name == "bare":
        return seconds
    if name == "indexed":
        return float(done.stdout)
    told = json.loads(done.stdout)
    if EXPECTED not in [cause["id"] for cause in told["causes"]]:
        raise SystemExit(f"{' '.join(argv)}: the cause was not found")
    return seconds


def measure(argvs: Mapping[str, list[str]], rounds: int, env: Mapping[str, str]) -> list[dict[str, float]]:
    """Seconds of each way, a round each; the first, in which modules are compiled, does not count."""
    found = []
    for number in range(rounds + 1):
        turn = number % len(argvs)
        names = [*argvs][turn:] + [*argvs][:turn]
        found.append({name: seconds_of(name, argvs[name], env) for name in names})
    return found[1:]


def summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    medians = {f"{name}: seconds": statistics.median(one[name] for one in rounds) for name in rounds[0]}
    ratios = {
        f"{name} / {other}": statistics.median(one[name] / one[other] for one in rounds)
        for name, other in (("small", "bare"), ("small, launch", "bare"), ("big", "indexed"))
    }
    return {name: round(value, 4) for name, value in (medians | ratios).items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--megabytes", type=int, default=200)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-console-bench-") as name:
        folder = Path(name)
        env = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "XDG_CONFIG_HOME": str(folder / "config")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        argvs = commands(made_log(folder, SMALL_MEGABYTES), made_log(folder, chosen.megabytes))
        result = summary(measure(argvs, chosen.rounds, env))
    if chosen.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:24} {value}")


if __name__ == "__main__":
    main()
