"""What the monitor costs: beside nvitop, on eight GPUs of the stand-in driver library, once a second.

    python benchmarks/monitor.py [--seconds 20] [--rounds 5] [--json]
    python benchmarks/monitor.py --refreshes 10000 [--json]

Each program has a terminal of its own, 120 by 36. First the start is measured in turning order, from the start of the
process until the first GPU's memory is drawn; then both run at the same time, so that ratios hold where the machine's
speed drifts, while the numbers of the GPUs change every second. CPU time is that of the process and its children, the
start not counted. What the headless forms cost is printed beside `--help`. `--refreshes` lets the watch alone, and then
the screen, read as often as they can, and tells how their memory grows. The exit code is 1 where a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from monitor_terminal import Terminal, memory_mb

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from fake_gpus import FakeDriver, FakeGpu, FakeProcess, build_library

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS, NVITOP = "vllm-console", "nvitop"
FIRST_GIB = 61.7
FIRST_GPU = re.compile(r"61\.7|6318[01] ?MiB")
"""The first GPU's memory, in either program's words."""
GPUS = 8
SETTLE_SECONDS = 4.0
COMPARED = {
    "CPU % of a core": "CPU %",
    "first paint s": "first paint",
    "RSS MB": "RSS",
    "NVML calls a second": "NVML calls",
}
LIMITS = {
    "CPU % / nvitop": 1.2,
    "CPU % of a core": 2.0,
    "first paint s": 0.6,
    "RSS MB": 50.0,
    "growth of the watch MB": 1.0,
    "growth of the screen MB": 1.0,
    "RSS of the screen MB": 50.0,
}
WATCH = """
import sys, time
from engine_probe.hardware.watch import Watch
from monitor_terminal import memory_mb
watch, refreshes = Watch(), int(sys.argv[1])
began = time.process_time()
for number in range(refreshes):
    watch.sample()
    watch.read()
    if number == refreshes // 2:
        early = memory_mb("self")["VmRSS"]
print(early, memory_mb("self")["VmRSS"], (time.process_time() - began) / refreshes)
"""


@dataclass(frozen=True)
class Program:
    name: str
    argv: list[str]
    driver: FakeDriver


def programs(library: Path, folder: Path) -> list[Program]:
    """Those that are installed; each counts its NVML calls in a file of its own."""
    argvs = {
        OURS: [sys.executable, "-c", "from tui.entry import main; main()", "monitor"],
        NVITOP: [sys.executable, "-m", "nvitop", "--interval", "1"],
    }
    found = []
    for name, argv in argvs.items():
        if name == NVITOP and find_spec(NVITOP) is None:
            print(f"nvitop: not installed, left out ({sys.executable} -m pip install nvitop==1.7.2)", file=sys.stderr)
            continue
        own = folder / name
        own.mkdir()
        found.append(Program(name, argv, FakeDriver(library, own)))
    return found


@contextmanager
def sleepers() -> Iterator[list[int]]:
    """Processes that hold the GPUs' memory, so that both programs have somebody to look up."""
    processes = [subprocess.Popen(["sleep", "100000"]) for _ in range(GPUS)]
    try:
        yield [one.pid for one in processes]
    finally:
        for one in processes:
            one.kill()
            one.wait()


def show(driver: FakeDriver, pids: list[int], step: int) -> None:
    """Numbers that change with the step; the first GPU's memory in the first one is known."""
    numbers = random.Random(step)
    gpus = []
    for index, pid in enumerate(pids):
        used = FIRST_GIB if index == 0 and step == 0 else numbers.uniform(20, 75)
        gpus.append(
            FakeGpu(
                used_gib=used,
                utilization_percent=numbers.randrange(101),
                power_watts=numbers.uniform(60, 690),
                temperature_celsius=numbers.randrange(35, 85),
                processes=(FakeProcess(pid, used - 0.3),),
            )
        )
    driver.show(*gpus)


def first_paint(program: Program, pids: list[int]) -> float:
    show(program.driver, pids, 0)
    with Terminal(program.argv, program.driver.env()) as terminal:
        return terminal.seconds_until(FIRST_GPU)


def headless(program: Program, rounds: int) -> dict[str, float]:
    """Seconds and CPU seconds of the commands that print and end; `--once` waits 0.2 s between two looks, for rates."""
    result: dict[str, float] = {}
    for words in (["--help"], ["monitor", "--once"], ["monitor", "--once", "--json"]):
        found = [_ended([*program.argv[:-1], *words], program.driver.env()) for _ in range(rounds)]
        for place, unit in enumerate(("s", "CPU s", "peak MB")):
            result[f"{' '.join(words)}: {unit}"] = statistics.median(one[place] for one in found)
    return result


def _ended(argv: list[str], env: dict[str, str]) -> tuple[float, float, float]:
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(argv)} ended with exit code {process.returncode}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def side_by_side(running: list[Program], pids: list[int], seconds: float) -> dict[str, float]:
    """CPU, memory and NVML calls of all programs at the same time."""
    result: dict[str, float] = {}
    with ExitStack() as stack:
        terminals = {one.name: stack.enter_context(Terminal(one.argv, one.driver.env())) for one in running}
        step = _let_run(running, terminals, pids, SETTLE_SECONDS, 0)
        cpu = {name: terminal.cpu_seconds() for name, terminal in terminals.items()}
        for one in running:
            one.driver.forget_calls()
        began = time.monotonic()
        _let_run(running, terminals, pids, seconds, step)
        lasted = time.monotonic() - began
        for one in running:
            terminal = terminals[one.name]
            memory = memory_mb(terminal.pid)
            result[f"{one.name}: CPU % of a core"] = (terminal.cpu_seconds() - cpu[one.name]) / lasted * 100
            result[f"{one.name}: RSS MB"] = memory["VmRSS"]
            result[f"{one.name}: peak RSS MB"] = memory["VmHWM"]
            result[f"{one.name}: NVML calls a second"] = sum(one.driver.calls().values()) / lasted
            result[f"{one.name}: drawn bytes a second"] = terminal.drawn_bytes / lasted
    return result


def _let_run(running: list[Program], terminals: dict[str, Terminal], pids: list[int], seconds: float, step: int) -> int:
    """New numbers every second; what is drawn is taken away, so that nobody waits."""
    for terminal in terminals.values():
        terminal.drawn_bytes = 0
    for number in range(max(1, round(seconds))):
        for one in running:
            show(one.driver, pids, step + number + 1)
        until = time.monotonic() + seconds / max(1, round(seconds))
        Terminal.drain(list(terminals.values()), until)
    return step + max(1, round(seconds))


def compare(folder: Path, rounds: int, seconds: float) -> dict[str, float]:
    library = build_library(folder)
    result: dict[str, float] = {}
    with sleepers() as pids:
        running = programs(library, folder)
        paints: dict[str, list[float]] = {one.name: [] for one in running}
        for number in range(rounds):
            turn = number % len(running)
            for one in running[turn:] + running[:turn]:
                paints[one.name].append(first_paint(one, pids))
        for name, found in paints.items():
            result[f"{name}: first paint s"] = statistics.median(found)
        result |= side_by_side(running, pids, seconds)
        result |= headless(running[0], rounds)
    for name, short in COMPARED.items():
        if result.get(f"{NVITOP}: {name}"):
            result[f"{OURS}: {short} / nvitop"] = result[f"{OURS}: {name}"] / result[f"{NVITOP}: {name}"]
    return result


def growth(folder: Path, refreshes: int) -> dict[str, float]:
    """Resident memory at the end of the refreshes and after half of them, when the allocator has what it needs."""
    library = build_library(folder)
    with sleepers() as pids:
        (ours,) = [one for one in programs(library, folder) if one.name == OURS]
        result = _growth_of_watch(ours, pids, refreshes)
        return result | _growth_of_screen(ours, pids, refreshes)


def _growth_of_watch(ours: Program, pids: list[int], refreshes: int) -> dict[str, float]:
    show(ours.driver, pids, 0)
    env = ours.driver.env() | {"PYTHONPATH": str(Path(__file__).parent)}
    argv = [sys.executable, "-c", WATCH, str(refreshes)]
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
    step = 0
    while process.poll() is None:
        step += 1
        show(ours.driver, pids, step)
        time.sleep(0.05)
    assert process.stdout is not None
    early, late, seconds = map(float, process.stdout.read().split())
    return {
        f"{OURS}: growth of the watch MB": late - early,
        f"{OURS}: RSS of the watch MB": late,
        f"{OURS}: CPU ms a reading": seconds * 1000,
    }


def _growth_of_screen(ours: Program, pids: list[int], refreshes: int) -> dict[str, float]:
    argv = [
        sys.executable,
        "-c",
        "from tui.app import run_console; run_console(start='monitor', interval_seconds=0.01)",
    ]
    show(ours.driver, pids, 0)
    ours.driver.forget_calls()
    early, step = 0.0, 0
    with Terminal(argv, ours.driver.env()) as terminal:
        terminal.seconds_until(FIRST_GPU)
        while (done := ours.driver.calls().get("nvmlDeviceGetUtilizationRates", 0) // GPUS) < refreshes:
            step += 1
            show(ours.driver, pids, step)
            Terminal.drain([terminal], time.monotonic() + 0.05)
            if not early and done >= refreshes // 2:
                early = memory_mb(terminal.pid)["VmRSS"]
        late = memory_mb(terminal.pid)["VmRSS"]
    return {f"{OURS}: growth of the screen MB": late - early, f"{OURS}: RSS of the screen MB": late}


def exceeded(result: dict[str, float]) -> list[str]:
    return [
        f"{name}: {result[key]:.3f} is more than {limit:g}"
        for name, limit in LIMITS.items()
        if (key := f"{OURS}: {name}") in result and result[key] > limit
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long both run side by side")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is started")
    parser.add_argument("--refreshes", type=int, help="only: how memory grows over so many")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("NVITOP_MONITOR_MODE", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = growth(folder, args.refreshes) if args.refreshes else compare(folder, args.rounds, args.seconds)
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:40} {value:12,.3f}")
    for line in (wrong := exceeded(result)):
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
