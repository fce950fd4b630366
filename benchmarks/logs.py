"""How long a big log takes: our index beside `rg -c`, `grep -c` and headless lnav with a format for vLLM.

    python benchmarks/logs.py [--rounds 5] [--megabytes 200] [--times 1] [--style C] [--file LOG] [--busy] [--json]

In every round each program runs once, in turning order, on the same file, so that ratios hold where the machine's
speed drifts. Each is a process of its own, measured from its start to its end; what is not installed is left out
with a word. lnav parses every line and filters once; so do we, and then filter and search in ways that lnav is not
asked for. Memory is the peak of the process. `--times 5` writes the log five times over: 1 GB. `--busy` keeps as
many processes busy as there are cores meanwhile; "longest step" is the longest time that a key would wait.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_like_log import MEGABYTE, write

if TYPE_CHECKING:
    from collections.abc import Iterator

PATTERN = "KV cache size"
FORMATS = Path(__file__).parent / "lnav"
OURS = Path(__file__).parent / "logs_ours.py"


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    output: str


def run(argv: list[str]) -> Run:
    """A process from its start to its end; its own peak of memory."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{argv[0]} ended with exit code {process.returncode}: {' '.join(argv)}")
        output.seek(0)
        return Run(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output.read())


def programs(path: Path) -> dict[str, list[str]]:
    """The command of each program that is installed."""
    known = {
        "ours": [sys.executable, str(OURS), str(path)],
        "lnav": ["lnav", "-n", "-I", str(FORMATS), "-c", f":filter-in {PATTERN}", str(path)],
        "rg -c": ["rg", "-c", PATTERN, str(path)],
        "grep -c": ["grep", "-c", PATTERN, str(path)],
    }
    found = {name: argv for name, argv in known.items() if shutil.which(argv[0])}
    for name in known.keys() - found.keys():
        print(f"{name}: not installed, left out", file=sys.stderr)
    return found


def measure(path: Path, rounds: int) -> dict[str, list[Run]]:
    argvs = programs(path)
    runs: dict[str, list[Run]] = {name: [] for name in argvs}
    for number in range(rounds):
        names = list(argvs)
        turned = names[number % len(names) :] + names[: number % len(names)]
        for name in turned:
            runs[name].append(run(argvs[name]))
    return runs


def summary(runs: dict[str, list[Run]]) -> dict[str, float]:
    """Medians in seconds and MB, the longest of the longest steps, and the ratio of our index to each other program."""
    parts = [json.loads(one.output) for one in runs["ours"]]
    result: dict[str, float] = {
        name: (max if name.startswith("longest step") else statistics.median)(part[name] for part in parts)
        for name in parts[0]
    }
    for name, done in runs.items():
        if name != "ours":
            pairs = list(zip(parts, done, strict=True))
            result[name] = statistics.median(one.seconds for one in done)
            result[f"indexed / {name}"] = statistics.median(part["indexed"] / one.seconds for part, one in pairs)
            result[f"{name}: CPU"] = statistics.median(one.cpu_seconds for one in done)
            result[f"indexed / {name}: CPU"] = statistics.median(
                part["indexed: CPU with helpers"] / max(one.cpu_seconds, 0.001) for part, one in pairs
            )
            result[f"{name}: MB"] = statistics.median(one.peak_mb for one in done)
    result["MB"] = statistics.median(one.peak_mb for one in runs["ours"])
    result["bytes a line above 40 MB"] = max(0.0, (result["MB"] - 40) * 2**20 / result["lines"])
    return result


@contextmanager
def busy_cores(*, is_wanted: bool) -> Iterator[None]:
    """Meanwhile as many processes are busy as there are cores."""
    argv = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(argv) for _ in range(os.cpu_count() or 1)] if is_wanted else []
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def made_log(folder: Path, args: argparse.Namespace) -> Path:
    path = folder / "vllm.log"
    write(path, args.megabytes * MEGABYTE, args.style)
    once = path.stat().st_size
    with path.open("r+b") as file:
        for number in range(1, args.times):
            for place in range(0, once, MEGABYTE):
                piece = os.pread(file.fileno(), min(MEGABYTE, once - place), place)
                os.pwrite(file.fileno(), piece, number * once + place)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--times", type=int, default=1, help="write the log so many times over")
    parser.add_argument("--style", choices=["B", "C"], default="C")
    parser.add_argument("--file", type=Path, help="a log to measure with, instead of a made one")
    parser.add_argument("--busy", action="store_true", help="keep all cores busy meanwhile")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or made_log(Path(folder), args)
        with busy_cores(is_wanted=args.busy):
            result = summary(measure(path, args.rounds))
    if args.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:34} {value:12,.3f}")


if __name__ == "__main__":
    main()
