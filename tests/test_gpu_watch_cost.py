"""What watching costs: NVML calls are counted and bounded, nothing grows, nvitop runs against the same driver."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from engine_probe.hardware.gpu_watch import GpuWatch
from engine_probe.hardware.gpus import read_gpus
from tests.fake_gpus import FakeDriver, FakeGpu, FakeProcess, FakeSlice, state_text

# Memory, utilisation, power, temperature, two clocks, throttle reasons; three kinds of processes, two calls for each
# kind that is there.
FAST_CALLS = 7
LIST_CALLS = 6
# Power limit, ECC, rows, PCIe twice, bus, MIG mode, and the state of each of 18 NVLinks and of the first that is not.
SLOW_CALLS = 26
READS_BETWEEN_SLOW_ONES = 10


def bound(count: int) -> int:
    """Of one reading: all GPUs fast, each tenth slowly, one look for events."""
    slow_gpus = -(-count // READS_BETWEEN_SLOW_ONES)
    return count * (FAST_CALLS + LIST_CALLS) + slow_gpus * SLOW_CALLS + 1


@pytest.mark.parametrize("count", [0, 1, 8, 16])
def test_calls_of_a_reading_are_bounded(fake_driver: FakeDriver, count: int) -> None:
    processes = (FakeProcess(os.getpid(), 1), FakeProcess(1, 1, "graphics"), FakeProcess(2, 1, "mps"))
    fake_driver.say(state_text([FakeGpu(processes=processes)] * count))
    watch = GpuWatch()
    watch.read()
    pairs = count * (count - 1) // 2
    assert watch.calls <= count * (FAST_CALLS + LIST_CALLS + SLOW_CALLS + 5) + 3 * pairs + 6
    for _ in range(3 * READS_BETWEEN_SLOW_ONES):
        before = watch.calls
        watch.read()
        assert watch.calls - before <= bound(count)
    before = watch.calls
    watch.sample_memory()
    assert watch.calls - before == count
    watch.close()
    assert sum(fake_driver.calls().values()) == watch.calls


def test_what_stays_is_asked_once_and_what_moves_slowly_rarely(fake_driver: FakeDriver) -> None:
    fake_driver.say(state_text([FakeGpu()] * 8))
    watch = GpuWatch()
    for _ in range(101):
        watch.read()
    calls = Counter(fake_driver.calls())
    pairs = 8 * 7 // 2
    for name in ("HandleByIndex_v2", "Name", "UUID", "PciInfo_v3", "SupportedEventTypes"):
        assert calls[f"nvmlDeviceGet{name}"] == 8, name
    assert (calls["nvmlDeviceGetTopologyCommonAncestor"], calls["nvmlDeviceGetP2PStatus"]) == (pairs, 2 * pairs)
    for name in ("TotalEccErrors", "RemappedRows", "CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MigMode"):
        assert calls[f"nvmlDeviceGet{name}"] <= 8 * 11, name
    assert calls["nvmlDeviceGetNvLinkState"] <= 8 * (19 + 10 * 18)
    assert calls["nvmlInitWithFlags"] == calls["nvmlEventSetCreate"] == 1
    assert calls["nvmlDeviceGetMemoryInfo_v2"] == 8 * 101
    watch.close()


def test_what_a_gpu_does_not_support_is_asked_rarely(fake_driver: FakeDriver) -> None:
    fake_driver.say(state_text([FakeGpu()], errors=[("nvmlDeviceGetUtilizationRates", 0, 3)]))
    watch = GpuWatch()
    for _ in range(100):
        watch.read()
    assert fake_driver.calls()["nvmlDeviceGetUtilizationRates"] == 10
    watch.close()


def test_one_look_asks_for_memory_and_processes_only(fake_driver: FakeDriver) -> None:
    fake_driver.say(state_text([FakeGpu(processes=(FakeProcess(os.getpid(), 1),))] * 8))
    read_gpus()
    assert sum(fake_driver.calls().values()) <= 5 + 8 * (3 + 1 + 4)


def test_nothing_grows_over_ten_thousand_readings(fake_driver: FakeDriver) -> None:
    """Blocks of Python's own allocator: they count what is kept, whatever the machine does."""
    gpus = [FakeGpu(processes=(FakeProcess(os.getpid(), 1),)), FakeGpu(slices=(FakeSlice(),))]
    states = (
        state_text(gpus),
        state_text(gpus, xids=[(0, 13)]),
        state_text(gpus, errors=[("nvmlDeviceGetPowerUsage", 0, 999)]),
        state_text(gpus, "init 9", "reloads 1"),
        state_text(gpus, errors=[("*", 1, 15)]),
    )
    watch = GpuWatch()

    def read(times: int) -> int:
        for number in range(times):
            if number % 50 == 0:
                fake_driver.say(states[number // 50 % len(states)])
            watch.sample_memory()
            watch.read()
        gc.collect()
        return sys.getallocatedblocks()

    after_a_thousand = read(1000)
    assert read(9000) - after_a_thousand < 500
    watch.close()


def test_nvitop_runs_against_the_same_driver(fake_driver: FakeDriver) -> None:
    beside_python = Path(sys.executable).parent / "nvitop"
    nvitop = str(beside_python) if beside_python.exists() else shutil.which("nvitop")
    if nvitop is None:
        pytest.skip("nvitop is not installed")
    fake_driver.say(state_text([FakeGpu(used_gib=index * 10, utilization_percent=index) for index in range(8)]))
    said = subprocess.run([nvitop, "--once"], env=fake_driver.env(), capture_output=True, text=True, check=True)
    assert said.stderr == ""
    assert "70.00GiB / 80.00GiB" in said.stdout
