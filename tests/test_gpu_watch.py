"""A watch over GPUs that change, vanish, come back and are cut into slices, through nvidia-ml-py and the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpu_watch import GpuWatch
from tests.fake_gpus import FakeDriver, FakeGpu, FakeProcess, FakeSlice, build_library, compiler, state_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine_probe.facts import Fact, Value
    from engine_probe.hardware.gpus import GpuState

LONGEST_PAUSE = 200
HOLDER_ELSEWHERE = 4194999
BUSY = FakeGpu(
    used_gib=60.5,
    utilization_percent=97,
    power_watts=612.5,
    power_limit_watts=700,
    temperature_celsius=71,
    sm_clock_mhz=1755,
    memory_clock_mhz=2619,
    throttle_bits=0x4 | 0x40,
    ecc_errors=3,
    remap_pending=1,
    pcie_gen=4,
    pcie_width=8,
    nvlinks=18,
    nvlinks_up=17,
    bus_id="00000000:1B:00.0",
)


@pytest.fixture
def watch(fake_driver: FakeDriver) -> Iterator[GpuWatch]:
    one = GpuWatch()
    yield one
    one.close()


def value(fact: Fact) -> Value:
    assert isinstance(fact, Known), fact
    return fact.value


def reason(fact: Fact) -> str:
    assert isinstance(fact, Unknown), fact
    return fact.reason


def read_until(watch: GpuWatch, is_so: Callable[[GpuState], bool]) -> GpuState:
    """Readings go on; the longest pause between two tries to open the driver is shorter than this."""
    for _ in range(LONGEST_PAUSE):
        state = watch.read()
        if is_so(state):
            return state
    pytest.fail(f"not so after {LONGEST_PAUSE} readings: {state}")


def test_all_values_of_a_busy_gpu(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(BUSY)
    state = watch.read()
    (gpu,) = state.gpus
    assert (state.driver_version, state.cuda_version, state.unavailable) == ("580.65.06", "13.0", None)
    assert (gpu.index, gpu.uuid, gpu.name) == (0, "GPU-00000000", "NVIDIA H100 80GB HBM3")
    sizes = [gpu.total_gib, gpu.used_gib, gpu.free_gib, gpu.reserved_gib, gpu.cuda_total_gib, gpu.peak_used_gib]
    assert [value(size) for size in sizes] == [80, 60.5, 19, 0.5, 79.5, 60.5]
    assert value(gpu.utilization_percent) == 97
    assert [value(fact) for fact in (gpu.power_watts, gpu.power_limit_watts)] == [612.5, 700]
    assert [value(fact) for fact in (gpu.temperature_celsius, gpu.sm_clock_mhz, gpu.memory_clock_mhz)] == [
        71,
        1755,
        2619,
    ]
    assert value(gpu.throttle) == "power cap, hardware thermal"
    assert value(gpu.ecc_errors) == 3
    assert value(gpu.row_remap) == "pending: a reset is needed"
    assert value(gpu.pcie) == "gen 4 x8"
    assert value(gpu.nvlinks) == 17
    assert value(gpu.bus_id) == "00000000:1B:00.0"
    assert value(gpu.xid) == 0
    assert (gpu.slices, gpu.processes, gpu.processes_unavailable) == ((), (), None)


def test_the_source_of_a_computed_total_is_said(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu(total_gib=80, reserved_gib=0.75))
    fact = watch.read().gpus[0].cuda_total_gib
    assert fact == Known(79.25, "computed", "NVML's total minus the driver's reserve")


def test_an_idle_gpu_is_not_throttled(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu(throttle_bits=0x1), FakeGpu(throttle_bits=0x1001))
    idle, odd = watch.read().gpus
    assert value(idle.throttle) == "none"
    assert value(odd.throttle) == "another reason (0x1000)"


def test_failed_row_remapping_comes_before_a_pending_one(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu(remap_failed=1, remap_pending=1), FakeGpu())
    assert [value(gpu.row_remap) for gpu in watch.read().gpus] == ["failed", "none"]


@pytest.mark.parametrize("count", [0, 1, 8, 16])
def test_any_number_of_gpus(fake_driver: FakeDriver, watch: GpuWatch, count: int) -> None:
    fake_driver.show(*(FakeGpu(used_gib=index) for index in range(count)))
    state = watch.read()
    assert state.unavailable is None
    assert [value(gpu.used_gib) for gpu in state.gpus] == list(range(count))
    assert [len(row) for row in state.links] == [count] * count


def test_a_change_is_seen_by_the_next_reading(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu(used_gib=1, utilization_percent=0))
    watch.read()
    fake_driver.show(FakeGpu(used_gib=11, utilization_percent=88))
    gpu = watch.read().gpus[0]
    assert [value(gpu.used_gib), value(gpu.utilization_percent)] == [11, 88]


def test_a_peak_between_two_readings_is_kept_for_one_reading(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu(used_gib=10))
    watch.read()
    for used in (40, 70, 30):
        fake_driver.show(FakeGpu(used_gib=used))
        watch.sample_memory()
    gpu = watch.read().gpus[0]
    assert [value(gpu.used_gib), value(gpu.peak_used_gib)] == [30, 70]
    assert value(watch.read().gpus[0].peak_used_gib) == 30


def test_samples_without_a_driver_say_nothing(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    watch.sample_memory()
    fake_driver.say("init 9\n")
    assert watch.read().unavailable == "the NVIDIA kernel driver is not loaded"
    watch.sample_memory()


def test_processes_of_all_kinds_each_once(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    both = (FakeProcess(os.getpid(), None), FakeProcess(os.getpid(), 2, "graphics"))
    others = (FakeProcess(1, 3, "mps"), FakeProcess(HOLDER_ELSEWHERE, 5.5), FakeProcess(0, 1, "graphics"))
    fake_driver.show(FakeGpu(used_gib=20, processes=both + others))
    processes = {one.pid: one for one in watch.read().gpus[0].processes}
    assert list(processes) == [os.getpid(), HOLDER_ELSEWHERE, 0, 1]
    mine, elsewhere = processes[os.getpid()], processes[HOLDER_ELSEWHERE]
    assert (mine.kind, mine.is_visible, value(mine.used_gib)) == ("compute", True, 2)
    assert mine.name.startswith(("python", "pytest"))
    assert (elsewhere.name, elsewhere.is_visible, value(elsewhere.used_gib)) == ("not visible here", False, 5.5)
    assert (processes[1].kind, processes[0].kind, processes[0].is_visible) == ("mps", "graphics", False)


def test_a_process_holds_no_more_than_there_is(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu(total_gib=80, processes=(FakeProcess(1, 81), FakeProcess(2, None))))
    too_much, not_said = watch.read().gpus[0].processes
    assert "cannot be" in reason(too_much.used_gib)
    assert "does not say it here" in reason(not_said.used_gib)


def test_slices_have_memory_and_processes_but_no_utilisation(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    processes = (FakeProcess(os.getpid(), None, slice_index=1), FakeProcess(HOLDER_ELSEWHERE, 4, slice_index=0))
    parts = (FakeSlice(total_gib=39.5, used_gib=5, name="NVIDIA H100 MIG 3g.40gb"), FakeSlice(used_gib=1))
    fake_driver.show(FakeGpu(used_gib=6, slices=parts, processes=processes, utilization_percent=50), FakeGpu())
    cut, whole = watch.read().gpus
    first, second = cut.slices
    assert (first.index, first.uuid, first.name) == (0, "MIG-0000-0", "NVIDIA H100 MIG 3g.40gb")
    assert [value(size) for size in (first.total_gib, first.used_gib, first.free_gib)] == [39.5, 5, 34.5]
    assert [(one.pid, one.slice_index) for one in first.processes] == [(HOLDER_ELSEWHERE, 0)]
    assert [(one.pid, one.slice_index) for one in second.processes] == [(os.getpid(), 1)]
    assert "does not say it here" in reason(second.processes[0].used_gib)
    assert cut.processes == first.processes + second.processes
    assert "does not support" in reason(cut.utilization_percent)
    assert "cut into slices" in reason(cut.cuda_total_gib)
    assert whole.slices == ()
    assert value(whole.utilization_percent) == 0


def test_slices_made_and_taken_away_while_watching(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu())
    assert watch.read().gpus[0].slices == ()
    fake_driver.show(FakeGpu(slices=(FakeSlice(), FakeSlice())))
    assert len(read_until(watch, lambda state: bool(state.gpus[0].slices)).gpus[0].slices) == 2
    fake_driver.show(FakeGpu(slices=(FakeSlice(),)))
    assert len(read_until(watch, lambda state: len(state.gpus[0].slices) == 1).gpus[0].slices) == 1
    fake_driver.show(FakeGpu(utilization_percent=7))
    gpu = read_until(watch, lambda state: not state.gpus[0].slices).gpus[0]
    assert value(gpu.utilization_percent) == 7


def test_slices_of_a_gpu_whose_whole_may_not_be_asked(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    gpus = [FakeGpu(slices=(FakeSlice(used_gib=2), FakeSlice(used_gib=3)))]
    errors = [("nvmlDeviceGetMemoryInfo", where, 4) for where in ("0.whole", "0.1")]
    fake_driver.say(state_text(gpus, errors=errors))
    gpu = watch.read().gpus[0]
    assert value(gpu.slices[0].used_gib) == 2
    for fact in (gpu.used_gib, gpu.slices[1].used_gib):
        assert reason(fact) == "no permission to ask the NVIDIA driver"


def test_links_between_gpus(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    lines = ("link * * system no-p2p", "link 0 1 node nvlink", "link 0 2 single", "link 1 2 hostbridge", "link 2 3 77")
    fake_driver.say(state_text([FakeGpu()] * 4, *lines))
    assert watch.read().links == (
        ("self", "NVLink", "PCIe switch", "other NUMA node, no P2P"),
        ("NVLink", "self", "PCIe host bridge", "other NUMA node, no P2P"),
        ("PCIe switch", "PCIe host bridge", "self", "unknown"),
        ("other NUMA node, no P2P", "other NUMA node, no P2P", "unknown", "self"),
    )


def test_xids_are_seen_without_waiting_and_stay(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    gpus = [FakeGpu(), FakeGpu()]
    fake_driver.say(state_text(gpus, xids=[(0, 13)]))
    assert [value(gpu.xid) for gpu in watch.read().gpus] == [0, 0], "what was before is not known"
    fake_driver.say(state_text(gpus, xids=[(0, 13), (1, 48), (1, 79)]))
    assert [value(gpu.xid) for gpu in watch.read().gpus] == [0, 79]
    assert [value(gpu.xid) for gpu in watch.read().gpus] == [0, 79]


def test_a_lost_gpu_keeps_its_row_name_and_xid_and_comes_back(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    gpus = [FakeGpu(), FakeGpu(name="the one that falls"), FakeGpu(used_gib=7)]
    fake_driver.say(state_text(gpus))
    watch.read()
    fake_driver.say(state_text(gpus, xids=[(1, 79)], errors=[("*", 1, 15)]))
    for _ in range(LONGEST_PAUSE):  # the driver is opened again meanwhile, which does not help
        first, lost, third = watch.read().gpus
        assert (lost.index, lost.uuid, lost.name) == (1, "GPU-00000001", "the one that falls")
        for fact in (lost.total_gib, lost.used_gib, lost.utilization_percent, lost.peak_used_gib, lost.power_watts):
            assert "lost (fallen off the bus)" in reason(fact)
        assert (lost.processes, value(lost.xid)) == ((), 79)
        assert "lost" in (lost.processes_unavailable or "")
        assert [value(first.used_gib), value(third.used_gib)] == [0, 7]
    fake_driver.say(state_text(gpus))
    state = read_until(watch, lambda state: isinstance(state.gpus[1].used_gib, Known))
    assert [value(gpu.total_gib) for gpu in state.gpus] == [80, 80, 80]
    assert value(state.gpus[1].power_limit_watts) == 700


def test_a_gpu_that_the_driver_no_longer_counts_keeps_its_row_and_comes_back(
    fake_driver: FakeDriver, watch: GpuWatch
) -> None:
    gpus = [FakeGpu(), FakeGpu(name="the last")]
    fake_driver.say(state_text(gpus))
    watch.read()
    fake_driver.say(state_text(gpus[:1], "reloads 1"))
    first, gone = watch.read().gpus
    assert value(first.total_gib) == 80
    assert (gone.name, gone.uuid) == ("the last", "GPU-00000001")
    assert reason(gone.total_gib) == "the NVIDIA driver does not know the GPU or the question"
    fake_driver.say(state_text(gpus, "reloads 2"))
    read_until(watch, lambda state: isinstance(state.gpus[1].total_gib, Known))


def test_a_driver_loaded_again_is_opened_again_within_the_reading(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.say(state_text([FakeGpu(used_gib=1)]))
    watch.read()
    fake_driver.say(state_text([FakeGpu(used_gib=2)], "reloads 1", driver="590.1"))
    state = watch.read()
    assert state.driver_version == "590.1"
    assert value(state.gpus[0].used_gib) == 2


def test_a_driver_that_goes_and_comes_back(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.say(state_text([FakeGpu(used_gib=1)]))
    watch.read()
    fake_driver.say(state_text([FakeGpu(used_gib=2)], "reloads 1", "init 9"))
    for _ in range(20):
        state = watch.read()
        assert (state.gpus, state.unavailable) == ((), "the NVIDIA kernel driver is not loaded")
    fake_driver.say(state_text([FakeGpu(used_gib=3)], "reloads 1"))
    state = read_until(watch, lambda state: state.unavailable is None)
    assert value(state.gpus[0].used_gib) == 3


def test_what_stays_gone_is_tried_ever_more_rarely(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.say("init 9\n")
    for _ in range(300):
        watch.read()
    assert fake_driver.calls() == {"nvmlInitWithFlags": watch.calls}
    assert watch.calls <= 12


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (9, "the NVIDIA kernel driver is not loaded"),
        (18, "the driver's library and kernel module have different versions: reload the module or reboot"),
        (4, "no permission to ask the NVIDIA driver"),
        (999, "the NVIDIA driver says: unknown error"),
        (4242, "the NVIDIA driver says: error 4242"),
    ],
)
def test_why_a_driver_does_not_open(fake_driver: FakeDriver, watch: GpuWatch, code: int, reason: str) -> None:
    fake_driver.say(state_text([FakeGpu()], f"init {code}"))
    assert watch.read().unavailable == reason


def test_control_characters_and_broken_text_of_the_driver_are_not_passed_on(
    fake_driver: FakeDriver, watch: GpuWatch
) -> None:
    name = b"\x1b[31mH100\x07\xe2\x80\xae \xff\xfe80GB"
    fake_driver.say(state_text([FakeGpu(name="NAME", uuid="GPU-\x1b]0;x")]).encode().replace(b"NAME", name))
    gpu = watch.read().gpus[0]
    assert gpu.name == "[31mH100 \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}80GB"
    assert gpu.uuid == "GPU-]0;x"


def test_no_driver_library_here(tmp_path: Path) -> None:
    # An empty file in front of any real library: the loader refuses it, as it does a missing one.
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    code = (
        "from engine_probe.hardware.gpu_watch import GpuWatch\n"
        "watch = GpuWatch()\n"
        "print({watch.read().unavailable for _ in range(9)}, watch.sample_memory(), watch.close())\n"
    )
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert said.stdout == "{'no NVIDIA driver library (libnvidia-ml.so.1) on this host'} None None\n"


OLD_DRIVER_LACKS = (
    "nvmlDeviceGetMemoryInfo_v2",  # before 510
    "nvmlDeviceGetCurrentClocksEventReasons",  # before 535
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetComputeRunningProcesses_v3",  # before 510
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlEventSetWait_v2",
)


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if compiler() is None:
        pytest.skip("no C compiler")
    return build_library(tmp_path_factory.mktemp("old"), OLD_DRIVER_LACKS)


def test_an_old_driver_says_what_it_can(old_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(old_library, tmp_path)
    driver.load_here(monkeypatch)
    driver.show(FakeGpu(used_gib=20, throttle_bits=0x8, processes=(FakeProcess(os.getpid(), 1),)))
    watch = GpuWatch()
    gpu = watch.read().gpus[0]
    too_old = "this driver is too old to say it"
    assert [value(gpu.used_gib), value(gpu.free_gib), value(gpu.throttle)] == [20.5, 59.5, "hardware slowdown"]
    facts = [gpu.reserved_gib, gpu.cuda_total_gib, gpu.row_remap, gpu.xid]
    assert [reason(fact) for fact in facts] == [too_old] * 4
    assert ([one.pid for one in gpu.processes], gpu.processes_unavailable, gpu.slices) == ([os.getpid()], None, ())
    watch.close()


def test_a_driver_too_old_to_list_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    library = build_library(tmp_path, [f"nvmlDeviceGetComputeRunningProcesses_v{version}" for version in (2, 3)])
    driver = FakeDriver(library, tmp_path)
    driver.load_here(monkeypatch)
    driver.show(FakeGpu(processes=(FakeProcess(os.getpid(), 1),)))
    watch = GpuWatch()
    gpu = watch.read().gpus[0]
    assert (gpu.processes, gpu.processes_unavailable) == ((), "this driver is too old to say it")
    watch.close()


def test_a_closed_watch_opens_again(fake_driver: FakeDriver, watch: GpuWatch) -> None:
    fake_driver.show(FakeGpu())
    watch.read()
    watch.close()
    assert fake_driver.calls()["nvmlShutdown"] == 1
    assert watch.read().unavailable is None
