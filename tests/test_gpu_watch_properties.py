"""Whatever the driver answers, a watch does not raise and shows no number that it did not say or that cannot be."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpu_watch import GpuWatch
from tests.fake_gpus import GIB, FakeDriver

if TYPE_CHECKING:
    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState, MigSlice

repeatable = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
UINT32 = 2**32
KEYS = (
    *("utilization", "power", "power-limit", "temperature", "sm-clock", "memory-clock", "throttle", "ecc"),
    *("remap-pending", "remap-failed", "pcie-gen", "pcie-width", "nvlinks", "nvlinks-up"),
)
FUNCTIONS = (
    *("*", "nvmlInit", "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion"),
    *("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetUUID"),
    *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses"),
    *("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClockInfo"),
    *("nvmlDeviceGetNvLinkState", "nvmlDeviceGetMigMode", "nvmlDeviceGetMigDeviceHandleByIndex"),
    *("nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetPciInfo"),
    *("nvmlEventSetCreate", "nvmlEventSetWait", "nvmlDeviceRegisterEvents"),
)
NUMBERS_OF_NOTE = [0, 1, 2, 3, 50, 100, 101, 250, 2**31 - 1, 2**31, UINT32 - 1, UINT32, 2**50, 2**63, 2**64 - 2]
numbers = st.one_of(st.sampled_from([*NUMBERS_OF_NOTE, 2**64 - 1]), st.integers(0, 200), st.integers(0, 2**64 - 1))
sizes = st.one_of(numbers, st.integers(0, 90 * GIB), st.just(80 * GIB))
names = st.binary(min_size=1, max_size=90).filter(lambda name: not set(name) & {0, 10} and name.strip())
words = st.binary(min_size=1, max_size=20).filter(lambda word: not set(word) & set(b"\0\n\r\t\v\f \x1c\x1d\x1e\x1f"))
places = st.sampled_from([0, 1, "*", "0.whole", "0.0", "1.1"])
codes = st.one_of(st.integers(0, 30), st.sampled_from([999, -1, 2**31 - 1, 4242]))
kinds = st.sampled_from(["compute", "graphics", "mps", "compute 0", "mps 1"])
XIDS_AFTERWARDS = b"xid 0 %d\nxid 1 79\n"


@dataclass(frozen=True)
class Said:
    """What the state file says of GPU 0."""

    total: int
    used: int
    reserved: int
    values: dict[str, int]
    text: bytes


@st.composite
def states(draw: st.DrawFn) -> Said:
    total, used, reserved = (draw(sizes) for _ in range(3))
    values = draw(st.dictionaries(st.sampled_from(KEYS), numbers))
    lines = [b"driver " + draw(words), b"cuda %d" % (draw(numbers) % 2**31)]
    lines.append(b"gpu 0 %b %d %d %d %b" % (draw(words), total, used, reserved, draw(names)))
    lines.append(b"gpu 1 %b %d %d %d %b" % (draw(words), *(draw(sizes) for _ in range(3)), draw(names)))
    lines += [b"set 0 %b %d" % (key.encode(), number) for key, number in values.items()]
    for _ in range(draw(st.integers(0, 4))):
        pid, held = draw(st.integers(0, UINT32 - 1)), draw(st.one_of(sizes, st.just(-1)))
        lines.append(
            b"process %d %d %d %b" % (draw(st.integers(0, 1)), pid, min(held, 2**63 - 1), draw(kinds).encode())
        )
    if draw(st.booleans()):
        lines.append(b"mig 1 %d" % draw(st.sampled_from([0, 1, 1, 1, 2, -1])))
        slices = range(draw(st.integers(0, 3)))
        lines += [b"slice 1 %d %b %d %d %b" % (n, draw(words), draw(sizes), draw(sizes), draw(names)) for n in slices]
    lines.append(b"link 0 1 %d %b" % (draw(numbers) % 2**31, draw(st.sampled_from([b"", b"nvlink", b"no-p2p"]))))
    for _ in range(draw(st.integers(0, 2))):
        error = f"error {draw(st.sampled_from(FUNCTIONS))} {draw(places)} {draw(codes)}"
        lines.append(error.encode())
    return Said(total, used, reserved, values, b"\n".join([*lines, b""]))


def known(fact: Fact) -> float | None:
    if isinstance(fact, Unknown):
        assert fact.reason
        return None
    number = fact.value
    assert isinstance(number, (int, float))
    assert math.isfinite(number)
    assert number >= 0
    return number


def check_sizes(of: Gpu | MigSlice) -> None:
    total = known(of.total_gib)
    parts = [known(of.used_gib), known(of.free_gib)]
    assert (total is None) == (parts[0] is None) == (parts[1] is None)
    if total is not None:
        assert total > 0
        assert all(part is not None and part <= total for part in parts)
    for process in of.processes:
        check_process(process, total)
    for text in (of.name, of.uuid):
        assert text.isprintable()


def check_process(process: GpuProcess, total: float | None) -> None:
    held = known(process.used_gib)
    assert held is None or total is None or process.slice_index is not None or held <= total
    assert process.name.isprintable()
    assert 0 <= process.pid < UINT32


def check(state: GpuState, said: Said) -> None:
    assert [len(row) for row in state.links] == [len(state.gpus)] * len(state.links)
    for text in (state.driver_version, state.cuda_version, state.unavailable):
        assert text is None or text.isprintable()
    for gpu in state.gpus:
        check_sizes(gpu)
        for part in gpu.slices:
            check_sizes(part)
        for field in fields(gpu):
            fact = getattr(gpu, field.name)
            if isinstance(fact, Known) and not isinstance(fact.value, str):
                known(fact)
            elif isinstance(fact, Known):
                assert fact.value.isprintable()  # type: ignore[union-attr]
        total = known(gpu.total_gib)
        for fact in (gpu.reserved_gib, gpu.cuda_total_gib, gpu.peak_used_gib):
            size = known(fact)
            assert size is None or total is None or size <= total
        assert (known(gpu.utilization_percent) or 0) <= 100
    if state.gpus:
        check_as_said(state.gpus[0], said)


def check_as_said(gpu: Gpu, said: Said) -> None:
    """What is known is what was said, and what was said and can be is known unless the call was refused."""
    if (total := known(gpu.total_gib)) is not None:
        assert total == said.total / GIB
        assert known(gpu.used_gib) in (said.used / GIB, (said.used + said.reserved) / GIB)
    for key, fact, divisor in (
        ("utilization", gpu.utilization_percent, 1),
        ("power", gpu.power_watts, 1000),
        ("power-limit", gpu.power_limit_watts, 1000),
        ("temperature", gpu.temperature_celsius, 1),
        ("sm-clock", gpu.sm_clock_mhz, 1),
        ("memory-clock", gpu.memory_clock_mhz, 1),
    ):
        number = known(fact)
        if key in said.values and number is not None:
            assert number == said.values[key] % UINT32 / divisor
    if "ecc" in said.values and (errors := known(gpu.ecc_errors)) is not None:
        assert errors == said.values["ecc"]
    if (up := known(gpu.nvlinks)) is not None:
        assert up <= min(said.values.get("nvlinks", 18), said.values.get("nvlinks-up", 18))


@repeatable
@given(said=states(), then=states(), xid=numbers)
def test_no_answer_makes_it_raise_or_say_a_wrong_number(
    fake_driver: FakeDriver, said: Said, then: Said, xid: int
) -> None:
    watch = GpuWatch()
    fake_driver.say(said.text)
    check(watch.read(), said)
    fake_driver.say(said.text + XIDS_AFTERWARDS % xid)
    watch.sample_memory()
    check(watch.read(), said)
    fake_driver.say(then.text)
    watch.sample_memory()
    for _ in range(11):
        state = watch.read()
    check_later(state, then)
    watch.close()


def check_later(state: GpuState, then: Said) -> None:
    """Names and topology are of before; what moves slowly has been asked again by now."""
    for gpu in state.gpus:
        check_sizes(gpu)
    if state.gpus:
        check_as_said(state.gpus[0], then)


@repeatable
@given(garbage=st.binary(max_size=400))
def test_a_state_that_is_no_state(fake_driver: FakeDriver, garbage: bytes) -> None:
    fake_driver.say(garbage)
    watch = GpuWatch()
    check(watch.read(), Said(0, 0, 0, {}, garbage))
    watch.close()
