"""Each function that a watch calls fails with each code: only what it says becomes unknown, with a reason."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Unknown
from engine_probe.hardware.gpu_watch import GpuWatch
from tests.fake_gpus import FakeDriver, FakeGpu, FakeProcess, FakeSlice, state_text

if TYPE_CHECKING:
    from engine_probe.hardware.gpus import Gpu, GpuState

MEMORY = ("total_gib", "used_gib", "free_gib", "reserved_gib", "cuda_total_gib", "peak_used_gib")
# What becomes unknown of GPU 1 when its function fails.
OF_A_GPU = {
    "nvmlDeviceGetMemoryInfo": MEMORY,
    "nvmlDeviceGetUtilizationRates": ("utilization_percent",),
    "nvmlDeviceGetPowerUsage": ("power_watts",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_watts",),
    "nvmlDeviceGetTemperature": ("temperature_celsius",),
    "nvmlDeviceGetClockInfo": ("sm_clock_mhz", "memory_clock_mhz"),
    "nvmlDeviceGetTotalEccErrors": ("ecc_errors",),
    "nvmlDeviceGetRemappedRows": ("row_remap",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie",),
    "nvmlDeviceGetNvLinkState": ("nvlinks",),
    "nvmlDeviceGetPciInfo": ("bus_id",),
    "nvmlDeviceGetSupportedEventTypes": ("xid",),
    "nvmlDeviceRegisterEvents": ("xid",),
}
# Of all GPUs, when a function that is asked once fails.
OF_THE_DRIVER = {"nvmlEventSetCreate": ("xid",), "nvmlEventSetWait": ("xid",)}
# Another form of the question is tried after these codes: not supported, no such function, another version.
ASK_OTHERWISE = (3, 13, 25)
TESTED_APART = {
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetP2PStatus",
    "nvmlEventSetFree",
}
TIMEOUT = 10
CODES = (1, 2, 3, 4, 6, 9, TIMEOUT, 12, 13, 14, 15, 16, 17, 18, 20, 21, 25, 27, 999, 4242)
GPUS = [
    FakeGpu(used_gib=10),
    FakeGpu(
        used_gib=20, utilization_percent=30, processes=(FakeProcess(os.getpid(), 19), FakeProcess(1, 1, "graphics"))
    ),
    FakeGpu(slices=(FakeSlice(used_gib=1), FakeSlice(used_gib=2)), processes=(FakeProcess(1, 1, slice_index=0),)),
]


def look(driver: FakeDriver, *errors: tuple[str, int | str, int], more: str = "") -> GpuState:
    """A first and a second reading say the same, but that the second may have opened the driver again."""
    driver.say(state_text(GPUS, more, errors=errors))
    watch = GpuWatch()
    watch.read()
    state = watch.read()
    watch.close()
    return state


def unlike(one: Gpu, other: Gpu) -> set[str]:
    return {field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)}


def assert_unknown(gpu: Gpu, names: tuple[str, ...]) -> None:
    for name in names:
        fact = getattr(gpu, name)
        assert isinstance(fact, Unknown), name
        assert len(fact.reason) > 10, name


@pytest.mark.parametrize("function", OF_A_GPU)
def test_a_function_of_one_gpu(fake_driver: FakeDriver, function: str) -> None:
    healthy = look(fake_driver)
    for code in CODES:
        state = look(fake_driver, (function, 1, code))
        assert unlike(state.gpus[1], healthy.gpus[1]) == set(OF_A_GPU[function]), code
        assert_unknown(state.gpus[1], OF_A_GPU[function])
        assert replace(state, gpus=()) == replace(healthy, gpus=()), code
        assert (state.gpus[0], state.gpus[2]) == (healthy.gpus[0], healthy.gpus[2]), code


@pytest.mark.parametrize("function", OF_THE_DRIVER)
def test_a_function_of_the_driver(fake_driver: FakeDriver, function: str) -> None:
    healthy = look(fake_driver)
    for code in CODES:
        if (function, code) == ("nvmlEventSetWait", TIMEOUT):
            continue  # no event
        state = look(fake_driver, (function, "*", code))
        for gpu, healthy_gpu in zip(state.gpus, healthy.gpus, strict=True):
            assert unlike(gpu, healthy_gpu) == set(OF_THE_DRIVER[function]), code
            assert_unknown(gpu, OF_THE_DRIVER[function])


def test_no_function_is_left_out(fake_driver: FakeDriver) -> None:
    look(fake_driver)
    look(fake_driver, *((function, "*", 3) for function in ("nvmlDeviceGetCurrentClocksEventReasons",)))
    tested = {*OF_A_GPU, *OF_THE_DRIVER} | TESTED_APART
    called = {name for name in fake_driver.calls() if name not in tested and name.rsplit("_v", 1)[0] not in tested}
    assert not called


def test_a_gpu_without_a_handle(fake_driver: FakeDriver) -> None:
    healthy = look(fake_driver)
    for code in CODES:
        state = look(fake_driver, ("nvmlDeviceGetHandleByIndex", 1, code))
        gpu = state.gpus[1]
        facts = [field.name for field in fields(gpu) if isinstance(getattr(healthy.gpus[1], field.name), type(gpu.xid))]
        assert_unknown(gpu, tuple(facts))
        assert (gpu.index, gpu.name, gpu.processes) == (1, "not readable", ())
        assert gpu.processes_unavailable
        assert (state.gpus[0], state.gpus[2]) == (healthy.gpus[0], healthy.gpus[2]), code
        assert [state.links[1], state.links[0][2]] == [("unknown", "self", "unknown"), healthy.links[0][2]]


def test_an_xid_is_not_told_of_another_gpu_without_a_uuid(fake_driver: FakeDriver) -> None:
    errors = [("nvmlDeviceGetUUID", "*", 4)]
    fake_driver.say(state_text(GPUS, errors=errors))
    watch = GpuWatch()
    watch.read()
    for _ in range(2):
        fake_driver.say(state_text(GPUS, errors=errors, xids=[(1, 63)]))
        assert [gpu.xid.value for gpu in watch.read().gpus] == [0, 63, 0]  # type: ignore[union-attr]
    watch.close()


@pytest.mark.parametrize(("function", "field"), [("nvmlDeviceGetName", "name"), ("nvmlDeviceGetUUID", "uuid")])
def test_a_name_that_is_refused_says_why(fake_driver: FakeDriver, function: str, field: str) -> None:
    healthy = look(fake_driver)
    for code in CODES:
        gpu = look(fake_driver, (function, 1, code)).gpus[1]
        assert getattr(gpu, field).startswith("unknown ("), code
        assert unlike(gpu, healthy.gpus[1]) == {field}


def test_versions_that_are_refused_are_none(fake_driver: FakeDriver) -> None:
    for code in CODES:
        state = look(
            fake_driver, ("nvmlSystemGetDriverVersion", "*", code), ("nvmlSystemGetCudaDriverVersion", "*", code)
        )
        assert (state.driver_version, state.cuda_version, state.unavailable) == (None, None, None)
        assert len(state.gpus) == 3


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_these_there_are_no_gpus_and_a_reason(fake_driver: FakeDriver, function: str) -> None:
    for code in CODES:
        state = look(fake_driver, (function, "*", code))
        assert (state.gpus, state.links) == ((), ())
        assert state.unavailable


@pytest.mark.parametrize("function", ["nvmlShutdown", "nvmlEventSetFree"])
def test_an_end_that_is_refused_is_an_end(fake_driver: FakeDriver, function: str) -> None:
    healthy = look(fake_driver)
    for code in CODES:
        assert look(fake_driver, (function, "*", code)) == healthy


def test_throttle_reasons_under_their_old_and_new_name(fake_driver: FakeDriver) -> None:
    new, old = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    healthy = look(fake_driver)
    for code in CODES:
        differs = unlike(look(fake_driver, (new, 1, code)).gpus[1], healthy.gpus[1])
        assert differs == (set() if code in ASK_OTHERWISE else {"throttle"}), code
        assert not unlike(look(fake_driver, (old, 1, code)).gpus[1], healthy.gpus[1])
        gpu = look(fake_driver, (new, 1, 3), (old, 1, code)).gpus[1]
        assert_unknown(gpu, ("throttle",))


def test_the_second_version_of_memory_only(fake_driver: FakeDriver) -> None:
    for code in CODES:
        gpu = look(fake_driver, ("nvmlDeviceGetMemoryInfo_v2", 1, code)).gpus[1]
        assert_unknown(gpu, ("reserved_gib", "cuda_total_gib") if code in ASK_OTHERWISE else MEMORY)


def test_processes_that_may_not_be_listed(fake_driver: FakeDriver) -> None:
    for code in CODES:
        gpu = look(fake_driver, ("nvmlDeviceGetComputeRunningProcesses", 1, code)).gpus[1]
        assert [one.kind for one in gpu.processes] == ["graphics"]
        assert gpu.processes_unavailable, code
        gpu = look(fake_driver, ("nvmlDeviceGetGraphicsRunningProcesses", 1, code)).gpus[1]
        assert [one.kind for one in gpu.processes] == ["compute"]
        assert bool(gpu.processes_unavailable) == (code not in ASK_OTHERWISE), code
        gpu = look(fake_driver, ("nvmlDeviceGetMPSComputeRunningProcesses", 1, code)).gpus[1]
        assert [one.kind for one in gpu.processes] == ["compute", "graphics"]
        assert bool(gpu.processes_unavailable) == (code not in ASK_OTHERWISE), code


def test_slices_that_are_refused(fake_driver: FakeDriver) -> None:
    for code in CODES:
        for function in ("nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"):
            assert look(fake_driver, (function, 2, code)).gpus[2].slices == ()
        gpu = look(fake_driver, ("nvmlDeviceGetMemoryInfo", "2.1", code)).gpus[2]
        assert isinstance(gpu.slices[1].used_gib, Unknown)
        assert gpu.slices[0].used_gib.value == 1  # type: ignore[union-attr]
        gpu = look(fake_driver, ("nvmlDeviceGetComputeRunningProcesses", "2.0", code)).gpus[2]
        assert gpu.processes_unavailable, code
        gpu = look(fake_driver, ("nvmlDeviceGetName", "2.0", code), ("nvmlDeviceGetUUID", "2.0", code)).gpus[2]
        assert gpu.slices[0].name.startswith("unknown (")


def test_a_slice_that_gives_no_handle_is_left_out(fake_driver: FakeDriver) -> None:
    for code in CODES:
        assert look(fake_driver, ("nvmlDeviceGetMigDeviceHandleByIndex", 2, code)).gpus[2].slices == ()


def test_links_that_are_refused(fake_driver: FakeDriver) -> None:
    for code in CODES:
        links = look(fake_driver, ("nvmlDeviceGetTopologyCommonAncestor", 0, code)).links
        assert links[0] == ("self", "unknown", "unknown")
        assert links[1][2] == "same NUMA node"
        links = look(fake_driver, ("nvmlDeviceGetP2PStatus", 0, code)).links
        assert links[0] == ("self", "same NUMA node, P2P unknown", "same NUMA node, P2P unknown")


def test_all_at_once(fake_driver: FakeDriver) -> None:
    for code in CODES:
        state = look(fake_driver, ("*", "*", code))
        assert (state.gpus, bool(state.unavailable)) == ((), True)
        assert state.unavailable
        whole = look(fake_driver, ("*", 1, code)).gpus
        assert whole[0].used_gib.value == 10  # type: ignore[union-attr]
        assert_unknown(whole[1], MEMORY)
