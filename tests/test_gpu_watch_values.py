"""Numbers that the driver gives and that cannot be: signs for "no value", sizes that do not belong together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware import nvml_values as values
from engine_probe.hardware.gpu_watch import GpuWatch
from tests.fake_gpus import GIB, FakeDriver, FakeGpu, state_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.gpus import Gpu

NO_VALUE = Unknown("the driver gives no value for it")


def gpu_with(driver: FakeDriver, *lines: str) -> Gpu:
    driver.say(state_text([FakeGpu()], *lines))
    watch = GpuWatch()
    gpu = watch.read().gpus[0]
    watch.close()
    return gpu


@pytest.mark.parametrize(
    ("key", "field", "fits", "cannot_be"),
    [
        ("utilization", "utilization_percent", 100, 101),
        ("power", "power_watts", 1_000_000, 10_000_001),
        ("power-limit", "power_limit_watts", 1_000_000, 0),
        ("temperature", "temperature_celsius", 110, 251),
        ("sm-clock", "sm_clock_mhz", 3000, 20_001),
        ("memory-clock", "memory_clock_mhz", 14_001, 20_001),
        ("ecc", "ecc_errors", 12_345, 2**60),
        ("pcie-gen", "pcie", 6, 0),
        ("pcie-width", "pcie", 32, 65),
        ("remap-pending", "row_remap", 1, 2),
        ("remap-failed", "row_remap", 1, 7),
        ("throttle", "throttle", 0x1FF, None),
        ("nvlinks", "nvlinks", 12, 0),
    ],
)
def test_a_number_is_shown_only_if_it_can_be(
    fake_driver: FakeDriver, key: str, field: str, fits: int, cannot_be: int | None
) -> None:
    assert isinstance(getattr(gpu_with(fake_driver, f"set 0 {key} {fits}"), field), Known)
    if cannot_be is not None:
        assert isinstance(getattr(gpu_with(fake_driver, f"set 0 {key} {cannot_be}"), field), Unknown)
    if key != "nvlinks":
        assert getattr(gpu_with(fake_driver, f"set 0 {key} -1"), field) == NO_VALUE


def test_an_nvlink_that_does_not_answer_makes_their_count_unknown(fake_driver: FakeDriver) -> None:
    assert gpu_with(fake_driver, "set 0 nvlink-fails 3").nvlinks == Unknown("the NVIDIA driver says: unknown error")


def test_an_nvlink_that_is_neither_up_nor_down_makes_their_count_unknown(fake_driver: FakeDriver) -> None:
    assert gpu_with(fake_driver, "set 0 nvlink-state 2").nvlinks == Unknown("the driver says 2, which cannot be")
    assert gpu_with(fake_driver, "set 0 nvlinks-up 0").nvlinks == Known(0, "measured", "NVML")


def test_an_nvidia_ml_py_without_a_function_or_with_no_room_for_an_answer(
    fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    def no_room(_handle: object) -> None:
        raise OverflowError("array too large")

    monkeypatch.delattr(pynvml, "nvmlDeviceGetRemappedRows")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses_v3", no_room)
    gpu = gpu_with(fake_driver)
    assert gpu.row_remap == Unknown("nvidia-ml-py here is too old to ask it")
    assert (gpu.processes, gpu.processes_unavailable) == ((), "the driver's answer cannot be read")


@pytest.mark.parametrize("code", [0, 10_000, 2**64 - 1])
def test_an_xid_that_cannot_be_is_unknown(fake_driver: FakeDriver, code: int) -> None:
    fake_driver.say(state_text([FakeGpu()]))
    watch = GpuWatch()
    watch.read()
    fake_driver.say(state_text([FakeGpu()], xids=[(0, code)]))
    assert isinstance(watch.read().gpus[0].xid, Unknown)
    fake_driver.say(state_text([FakeGpu()], xids=[(0, code), (0, 31)]))
    assert watch.read().gpus[0].xid == Known(31, "measured", "NVML")
    watch.close()


def test_links_are_not_asked_again_of_the_same_gpus(fake_driver: FakeDriver) -> None:
    fake_driver.say(state_text([FakeGpu()] * 3))
    watch = GpuWatch()
    links = watch.read().links
    fake_driver.say(state_text([FakeGpu()] * 3, "reloads 1"))
    assert watch.read().links == links
    assert fake_driver.calls()["nvmlDeviceGetTopologyCommonAncestor"] == 3
    fake_driver.say(state_text([FakeGpu(), FakeGpu(uuid="GPU-another"), FakeGpu()], "reloads 2", "link 0 1 single"))
    assert watch.read().links[0] == ("self", "PCIe switch", "same NUMA node")
    watch.close()


def known_sizes(sizes: Sequence[int]) -> list[bool]:
    total, used, free, reserved = sizes
    answer = SimpleNamespace(total=total, used=used, free=free, reserved=reserved)
    of = values.memory(answer, has_reserve=True)
    return [isinstance(size, Known) for size in (of.total_gib, of.used_gib, of.free_gib, of.reserved_gib)]


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 0, 0, 0),
        (80, 81, 0, 0),
        (80, 0, 81, 0),
        (80, 0, 0, 81),
        (80, 60, 60, 0),
        (80, 79, 0, 79),
    ],
)
def test_sizes_that_do_not_belong_together_are_all_unknown(sizes: tuple[int, ...]) -> None:
    assert known_sizes([size * GIB for size in sizes]) == [False] * 4
    assert known_sizes([80 * GIB, 2**64 - 1, 0, 0]) == [False] * 4
    assert known_sizes([2**60, 0, 0, 0]) == [False] * 4


def test_sizes_of_slightly_different_moments_belong_together() -> None:
    assert known_sizes([80 * GIB, 40 * GIB, 40 * GIB, GIB]) == [True] * 4


def test_a_reserve_is_never_taken_for_none() -> None:
    of = values.memory(SimpleNamespace(total=80 * GIB, used=GIB, free=79 * GIB), has_reserve=False)
    assert values.cuda_total(of) == Unknown("this driver is too old to say it")
