"""How long a big log takes: our index beside `rg -c`, `grep -c` and headless lnav with a format for vLLM.

    python benchmarks/logs.py [--rounds 5] [--megabytes 200] [--style C] [--file LOG] [--json]

In every round each program runs once, in turning order, on the same file, so that ratios hold where the machine's
speed drifts. Each is a process of its own, measured from its start to its end; what is not installed is left out
with a word. lnav parses every line and filters once; so do we, and then filter and search in ways that lnav is not
asked for. Memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from vllm_like_log import MEGABYTE, write

PATTERN = "KV cache size"
FORMATS = Path(__file__).parent / "lnav"
_TIMES = 9


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    output: str


def ours(path: Path) -> None:
    """In a process of its own: open, first lines, index, filter, search; prints seconds as JSON."""
    began = time.perf_counter()
    from engine_probe.logs.index import open_log  # noqa: PLC0415 -- its import is part of the time
    from engine_probe.logs.index_search import compile_pattern  # noqa: PLC0415
    from engine_probe.logs.index_time import Bound, Span  # noqa: PLC0415
    from engine_probe.logs.index_wanted import Wanted  # noqa: PLC0415

    log = open_log(path)
    log.tail(50)
    result = {"first paint": time.perf_counter() - began}
    longest = 0.0
    is_done = False
    while not is_done:
        start = time.perf_counter()
        is_done = log.advance()
        longest = max(longest, time.perf_counter() - start)
    used = os.times()
    result |= {"indexed": time.perf_counter() - began, "longest batch": longest}
    result["indexed: CPU with helpers"] = used.user + used.system + used.children_user + used.children_system
    errors = frozenset({"ERROR", "CRITICAL"})
    middle = log.lines(log.line_count // 2, log.line_count // 2 + 1)[0].text
    stamp = re.search(r"\d\d-\d\d \d\d:\d\d:\d\d", middle)
    span = Span(since=Bound(stamp[0].encode())) if stamp else Span()
    filters = {
        "level": Wanted(levels=errors),
        "layer, stage": Wanted(layers=frozenset({"engine"}), stages=frozenset({"memory_planning", "serving"})),
        "all columns": Wanted(errors, frozenset({"engine"}), frozenset({"serving"}), frozenset({"Engine"})),
        "time": Wanted(span=span),
    }
    for name, wanted in filters.items():
        result[f"filter: {name}"] = statistics.median(_seconds(lambda: log.filter(wanted)) for _ in range(_TIMES))  # noqa: B023
    for name, pattern in {"text": PATTERN, "pattern": r"Running: 1\d\d reqs"}.items():
        search = log.search(compile_pattern(pattern))
        result[f"search: {name}"] = _seconds(lambda: sum(1 for _ in iter(search.advance, True)))  # noqa: B023
    print(json.dumps({"lines": log.line_count, **result}))


def _seconds(call: object) -> float:
    began = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - began


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
        "ours": [sys.executable, __file__, "--ours", str(path)],
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
    """Medians in seconds and MB, and the ratio of our index to each other program."""
    result: dict[str, float] = {}
    parts = [json.loads(one.output) for one in runs["ours"]]
    for name in parts[0]:
        result[name] = statistics.median(part[name] for part in parts)
    for name, done in runs.items():
        if name != "ours":
            result[name] = statistics.median(one.seconds for one in done)
            ratios = [part["indexed"] / one.seconds for part, one in zip(parts, done, strict=True)]
            result[f"indexed / {name}"] = statistics.median(ratios)
            result[f"{name}: CPU"] = statistics.median(one.cpu_seconds for one in done)
            result[f"{name}: MB"] = statistics.median(one.peak_mb for one in done)
    result["MB"] = statistics.median(one.peak_mb for one in runs["ours"])
    result["bytes a line above 40 MB"] = max(0.0, (result["MB"] - 40) * 2**20 / result["lines"])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--style", choices=["B", "C"], default="C")
    parser.add_argument("--file", type=Path, help="a log to measure with, instead of a made one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ours:
        ours(args.ours)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or Path(folder) / "vllm.log"
        if args.file is None:
            write(path, args.megabytes * MEGABYTE, args.style)
        result = summary(measure(path, args.rounds))
    if args.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:28} {value:12,.3f}")


if __name__ == "__main__":
    main()
