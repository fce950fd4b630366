"""What is wrong with a reading of a host: each alert on both sides of its threshold, and never for what is unknown."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from readings import NOT_KNOWN, NOW, gpu, gpu_process, host, known, process, reading, server, serving, with_gpus

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import GpuState, MigSlice
from engine_probe.hardware.host import Disk
from engine_probe.hardware.reading import MemorySplit, Reading
from playbooks import alerts_loads
from playbooks.alerts import Alert, find_alerts
from playbooks.gpu_shares import default_share, share_of
from playbooks.library import load_library

if TYPE_CHECKING:
    from pathlib import Path


def only(found: tuple[Alert, ...]) -> Alert:
    assert len(found) == 1, found
    return found[0]


def disk(free: float, total: float = 2000.0) -> tuple[Disk, ...]:
    return (Disk("/models", "models", known(total), known(free), NOT_KNOWN),)


def loading(name: str = "code-13b", pid: int = 5000, stage: str | Known = "weight_load", **others: Any) -> Any:
    told = Known(stage, "parsed", "engine.log:57") if isinstance(stage, str) else stage
    values = {"state": "loading", "stage": told, "started": NOW - 60, "stage_since": NOW - 30, "gpus": (7,)}
    return server(name, pid, **(values | others))


def orphan(**others: Any) -> Any:
    split = (MemorySplit(5, known(70.1), NOT_KNOWN, NOT_KNOWN, NOT_KNOWN),)
    values: dict[str, Any] = {"state": "orphan", "gpus": (5,), "stage": NOT_KNOWN, "memory": split}
    return server("VLLM::EngineCore", 4711, **(values | others))


def test_nothing_is_wrong_with_a_host_that_serves() -> None:
    assert find_alerts(reading()) == ()


ORPHAN_PROCESS = process(4711, gpu_gib=((5, known(70.1)), (6, known(1.0))))
FULL = {"kv_use_percent": known(97.0), "waiting": known(3), "running": known(12)}
SIZED = {"kv_pool_gib": known(3.1)}
CASES: dict[str, tuple[Reading, str, str, str | None, str]] = {
    "orphan, by what its server holds": (
        reading(servers=(orphan(),)), "error", "GPU 5", "orphan-engine-holds-gpu", "70.1 GiB held by an engine whose",
    ),
    "orphan, by what its processes hold": (
        reading(servers=(orphan(memory=()),), processes=(ORPHAN_PROCESS,)),
        "error", "GPUs 5-6", "orphan-engine-holds-gpu", "71.1 GiB",
    ),
    "orphan on a CPU": (
        reading(servers=(orphan(memory=(), gpus=()),), processes=(process(4711), process(4713))),
        "error", "VLLM::EngineCore", "orphan-engine-holds-gpu", "3.1 GiB of RAM",
    ),
    "an orphan that holds little": (
        reading(servers=(orphan(memory=(), gpus=()),), processes=(process(4711, pss_gib=known(0.2)),)),
        "warning", "VLLM::EngineCore", "orphan-engine-holds-gpu", "205 MiB of RAM",
    ),
    "a process that is not seen here": (
        with_gpus(gpu(2, used=40, processes=(gpu_process(812, 40, "not visible here", is_visible=False),))),
        "warning", "GPU 2", "gpu-memory-held-by-other-process", "40.0 GiB held by a process that is not visible here",
    ),
    "one that is not seen, where a server is to run": (
        with_gpus(
            gpu(0, used=40, processes=(gpu_process(812, 40, "not visible here", is_visible=False),)),
            servers=(server(),),
        ),
        "warning", "GPU 0", "gpu-memory-held-by-other-process",
        "40.0 GiB held by a process that is not visible here (pid 812); it may be chat-70b, by another pid",
    ),
    "one that is not seen, on a slice": (
        with_gpus(
            gpu(2, used=40, slices=(
                MigSlice(0, "MIG-1", "1g.10gb", known(10.0), known(9.0), known(1.0),
                         (gpu_process(812, 9.0, "not visible here", is_visible=False, slice_index=0),)),
            )),
        ),
        "warning", "GPU 2", "gpu-memory-held-by-other-process", "9.0 GiB",
    ),
    "memory that no listed process holds": (
        with_gpus(gpu(1, used=30)), "warning", "GPU 1", "gpu-memory-held-by-other-process", "30.0 GiB held by",
    ),
    "a process that is not seen, where a server has not come to the GPU": (
        with_gpus(gpu(0, used=30), servers=(loading(gpus=(0,), stage="config"),)),
        "warning", "GPU 0", "gpu-memory-held-by-other-process", "30.0 GiB held by",
    ),
    "a stranger where a model loads": (
        with_gpus(gpu(0, used=12, processes=(gpu_process(7, 12.0, "jupyter"),)), servers=(loading(gpus=(0,)),)),
        "warning", "GPU 0", "gpu-memory-held-by-other-process", "12.0 GiB held by jupyter (pid 7), where code-13b",
    ),
    "versions that differ": (
        reading(gpus=GpuState(unavailable="the driver's library and kernel module have different versions: reload")),
        "error", "host", "driver-library-mismatch", "different versions",
    ),
    "no permission": (
        reading(gpus=GpuState(unavailable="no permission to ask the NVIDIA driver")),
        "warning", "host", "gpu-not-visible-in-container", "no permission",
    ),
    "a lost GPU": (
        with_gpus(gpu(3, total_gib=Unknown("a GPU is lost"), used_gib=Unknown("a GPU is lost"))),
        "error", "GPU 3", "cuda-error-while-serving", "a GPU is lost",
    ),
    "a GPU that is not opened": (
        with_gpus(gpu(3, name="not readable", total_gib=NOT_KNOWN, used_gib=NOT_KNOWN)),
        "warning", "GPU 3", None, "cannot be read: nobody said it",
    ),
    "ECC": (
        with_gpus(gpu(3, ecc_errors=known(2))), "error", "GPU 3", "cuda-error-while-serving",
        "2 uncorrected memory errors (ECC)",
    ),
    "rows that wait": (
        with_gpus(gpu(3, row_remap=known("pending: a reset is needed"))),
        "error", "GPU 3", "cuda-error-while-serving", "waits for a reset",
    ),
    "rows that failed": (
        with_gpus(gpu(3, row_remap=known("failed"))), "error", "GPU 3", "cuda-error-while-serving", "not be replaced",
    ),
    "Xid of the hardware": (
        with_gpus(gpu(3, xid=known(79))), "error", "GPU 3", "cuda-error-while-serving", "Xid 79, a hardware error",
    ),
    "Xid of a program": (
        with_gpus(gpu(3, xid=known(31))), "warning", "GPU 3", "cuda-error-while-serving", "Xid 31, mostly a program's",
    ),
    "heat": (
        with_gpus(gpu(3, throttle=known("heat (hardware)"), temperature_celsius=known(91))),
        "warning", "GPU 3", None, "heat (hardware), 91 °C",
    ),
    "slowdown": (with_gpus(gpu(3, throttle=known("hardware slowdown"))), "warning", "GPU 3", None, "hardware slowdown"),
    "power brake": (
        with_gpus(gpu(3, throttle=known("power limit, power brake"), sm_clock_mhz=known(345))),
        "warning", "GPU 3", None, "power brake, 345 MHz",
    ),
    "shares that are too large, running": (
        reading(servers=(serving(), server("other", 1, gpus=(3,), argv=("vllm", "x"), version=known("0.20.1")))),
        "warning", "GPU 3", "co-located-models-budgets-exceed-gpu",
        "1.82 of the card, 145.6 of 80.0 GiB (chat-70b 0.9, other 0.92)",
    ),
    "shares that are too large, loading": (
        reading(servers=(server(gpus=(7,)), loading())),
        "error", "GPU 7", "co-located-models-budgets-exceed-gpu", "add up to 1.80 of the card",
    ),
    "two that load together": (
        reading(servers=tuple(
            loading(name, pid, argv=("vllm", "--gpu-memory-utilization=.3")) for name, pid in (("a", 10), ("b", 20))
        )),
        "warning", "GPU 7", "concurrent-start-memory-race", "a (weight_load) and b (weight_load)",
    ),
    "weights that take long": (
        reading(servers=(loading(stage_since=NOW - 1900, gpus=(7,), stage_detail="4 of 6 shards"),)),
        "warning", "code-13b", "slow-download-looks-like-hang",
        "in weight_load (4 of 6 shards) for 31 min on GPU 7; it may hang",
    ),
    "a load without a log, whose port refuses": (
        reading(servers=(
            loading(
                stage=Known("weight_load", "computed", "it holds memory"), stage_since=NOW - 1900, started=None,
                kv_use_percent=Unknown("http://127.0.0.1:8000/metrics: Connection refused"),
            ),
        )),
        "warning", "code-13b", "slow-download-looks-like-hang", "in weight_load for 31 min on GPU 7; it may hang",
    ),
    "a load that takes hours": (
        reading(servers=(loading(stage="warmup", stage_since=NOW - 5, started=NOW - 9000),)),
        "warning", "code-13b", "worker-stopped-hang", "loading for 2 h 30 min, now in warmup on GPU 7; it may hang",
    ),
    "ranks that do not meet": (
        reading(servers=(loading(stage="distributed_init", stage_since=NOW - 4000, gpus=()),)),
        "warning", "code-13b", "worker-stopped-hang", "for 1 h 6 min; it may hang",
    ),
    "a load that failed and stays": (
        reading(servers=(loading(
            state="failed", stage="warmup", stage_detail="ValueError: no room", log="/l/code 1.log",
        ),)),
        "error", "code-13b", None, "its load failed in warmup: ValueError: no room; pid 5000 is still there",
    ),
    "RAM low": (
        reading(host=host(ram_available_gib=known(20.0))), "warning", "host", "host-ram-exhausted",
        "RAM: 20.0 GiB of 503.0 GiB are left",
    ),
    "RAM gone": (
        reading(host=host(ram_available_gib=known(0.5))), "error", "host", "host-ram-exhausted", "RAM: 512 MiB of",
    ),
    "container low": (
        reading(host=host(cgroup_used_gib=known(255.0), cgroup_cached_gib=known(10.0))),
        "warning", "host", "host-ram-exhausted", "245.0 GiB of its limit of 256.0 GiB",
    ),
    "container full": (
        reading(host=host(cgroup_used_gib=known(255.9), cgroup_cached_gib=known(0.1))),
        "error", "host", "host-ram-exhausted", "255.8 GiB of its limit",
    ),
    "swap": (
        reading(host=host(swap_free_gib=known(3.0))), "warning", "host", "host-ram-exhausted", "5.0 GiB of 8.0 GiB",
    ),
    "shm low": (
        reading(host=host(shm_free_gib=known(3.0))), "warning", "host", "shm-too-small", "3.0 GiB of 64.0 GiB are free",
    ),
    "shm gone": (
        reading(host=host(shm_total_gib=known(0.0625), shm_free_gib=known(0.001))),
        "error", "host", "shm-too-small", "/dev/shm: 1 MiB of 64 MiB are free",
    ),
    "disk low": (
        reading(host=host(disks=disk(19.0))), "warning", "host", "disk-full", "Disk of models (/models): 19.0 GiB of",
    ),
    "disk gone": (reading(host=host(disks=disk(0.4))), "error", "host", "disk-full", "410 MiB of 2000.0 GiB"),
    "KV cache full": (
        reading(servers=(replace(serving(), **FULL),)), "warning", "chat-70b", None,
        "97 % of its KV cache are in use by 12 requests, and 3 wait",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "severity", "about", "playbook", "text"), CASES.values(), ids=list(CASES))
def test_what_is_wrong_is_said_once_with_its_numbers(
    seen: Reading, severity: str, about: str, playbook: str | None, text: str
) -> None:
    found = only(find_alerts(seen))
    assert (found.severity, found.about, found.playbook) == (severity, about, playbook)
    assert text in found.text
    assert found.about in found.text or found.about == "host"
    assert found.what_to_do.endswith((".", "3"))


JUST_FINE: dict[str, Reading] = {
    "a desktop that is not seen": with_gpus(
        gpu(2, used=1, processes=(gpu_process(812, 0.9, "not visible here", is_visible=False),))
    ),
    "one that has just ended": with_gpus(
        gpu(2, used=41, processes=(gpu_process(812, 40, "ending", is_visible=False, is_ending=True),))
    ),
    "the driver's own reserve": with_gpus(gpu(1, used=1.9)),
    "processes that may not be listed": with_gpus(gpu(1, used=30, processes_unavailable="no permission")),
    "a process whose size is not said": with_gpus(gpu(1, used=30, processes=(gpu_process(7, None),))),
    "a stranger where nothing loads": with_gpus(gpu(0, used=12, processes=(gpu_process(7, 12.0, "jupyter"),))),
    "a container where the driver lists nothing": with_gpus(
        gpu(0, used=40), servers=(loading(gpus=(0,), stage="memory_planning"),)
    ),
    "two models on slices of one card": with_gpus(
        gpu(0, slices=(MigSlice(0, "MIG-1", "1g.10gb", known(10.0), known(9.0), known(1.0)),)),
        servers=(server(), loading(gpus=(0,))),
    ),
    "no NVIDIA at all": reading(
        gpus=GpuState(unavailable="no NVIDIA driver library (libnvidia-ml.so.1) on this host"), servers=()
    ),
    "memory that GPU and host share": with_gpus(gpu(0, total_gib=NOT_KNOWN, used_gib=NOT_KNOWN, free_gib=NOT_KNOWN)),
    "no errors": with_gpus(gpu(3, ecc_errors=known(0), xid=known(0), row_remap=known("none"))),
    "at its power limit": with_gpus(gpu(3, throttle=known("power limit"))),
    "not held down": with_gpus(gpu(3, throttle=known("none"), temperature_celsius=known(91))),
    "a card exactly": reading(
        servers=tuple(
            server(str(share), number, argv=("vllm", "serve", "x", "--gpu_memory_utilization", str(share)))
            for number, share in enumerate((0.3, 0.3, 0.4))
        )
    ),
    "too much on different cards": reading(servers=(server(), server("other", 1, gpus=(1,)))),
    "a share that a file sets": reading(
        servers=(server(), server("o", 1, argv=("vllm", "serve", "--config", "a.yaml")))
    ),
    "a release that is not known": reading(
        servers=(server(), server("other", 1, argv=("vllm", "serve", "x"), version=NOT_KNOWN))
    ),
    "models that cannot be asked, and may serve": reading(
        servers=tuple(
            loading(
                name, pid, stage=Known("weight_load", "computed", "it holds memory"), stage_since=NOW - 9e5, argv=()
            )
            for name, pid in (("a", 10), ("b", 20))
        )
    ),
    "an orphan's share": reading(servers=(server(), loading(state="ending"))),
    "one loads, one has not come to the GPU": reading(
        servers=(loading("a", 1, argv=()), loading("b", 2, argv=(), stage="config"))
    ),
    "one loads, one serves": reading(servers=(loading("a", 1, argv=()), server("b", 2, argv=(), gpus=(7,)))),
    "weights of a usual time": reading(servers=(loading(stage_since=NOW - 1700),)),
    "nobody saw it begin": reading(servers=(loading(stage_since=None, started=None),)),
    "a load of a usual time": reading(servers=(loading(stage_since=None, started=NOW - 3500),)),
    "a server may serve for years": reading(servers=(server(stage_since=NOW - 9e8),)),
    "RAM enough": reading(host=host(ram_available_gib=known(26.0))),
    "a container full of file cache": reading(host=host(cgroup_used_gib=known(256.0))),
    "no limit": reading(host=host(cgroup_limit_gib=None, cgroup_used_gib=None)),
    "no swap": reading(host=host(swap_total_gib=known(0), swap_free_gib=known(0))),
    "a little swapped out": reading(host=host(swap_free_gib=known(5.0))),
    "no /dev/shm": reading(host=host(shm_total_gib=known(0), shm_free_gib=known(0))),
    "enough for all ranks": reading(host=host(shm_free_gib=known(4.1))),
    "a container's usual /dev/shm": reading(host=host(shm_total_gib=known(0.0625), shm_free_gib=known(0.0625))),
    "a disk that is large": reading(host=host(disks=disk(60.0))),
    "KV cache used well": reading(servers=(replace(serving(), kv_use_percent=known(95.0), waiting=known(9)),)),
    "an orphan's KV cache": reading(servers=(replace(serving(), state="ending", kv_use_percent=known(99.0)),)),
}


@pytest.mark.parametrize("seen", JUST_FINE.values(), ids=list(JUST_FINE))
def test_what_is_just_fine_is_not_said(seen: Reading) -> None:
    assert find_alerts(seen) == ()


def forgotten(value: Any) -> Any:
    """The same with all facts unknown."""
    if isinstance(value, (Known, Unknown)):
        return NOT_KNOWN
    if isinstance(value, tuple):
        return tuple(forgotten(one) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: forgotten(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return replace(value, **fields)
    return value


@pytest.mark.parametrize("seen", [case[0] for case in CASES.values()], ids=list(CASES))
def test_nothing_is_said_of_what_is_not_known(seen: Reading) -> None:
    """An orphan, a failure, a command, a GPU that does not open, a driver that refuses are no values; all else is."""
    no_values = ("orphan-engine-holds-gpu", "co-located-models-budgets-exceed-gpu")
    found = [one for one in find_alerts(forgotten(seen)) if one.playbook not in no_values and "failed" not in one.text]
    assert [one for one in found if "cannot be read" not in one.text and "versions" not in one.text] == []


def test_every_playbook_that_an_alert_names_is_in_the_library() -> None:
    ids = {one.id for one in load_library()}
    named = {found.playbook for case in CASES.values() for found in find_alerts(case[0])} - {None}
    assert named <= ids
    assert len(named) == 12


def test_what_is_worse_comes_first() -> None:
    seen = reading(
        servers=(orphan(), replace(serving(), **FULL)),
        host=host(disks=disk(0.1), shm_free_gib=known(3.0), ram_available_gib=known(20.0)),
    )
    found = find_alerts(seen)
    assert [one.severity for one in found] == ["error", "error", "warning", "warning", "warning"]
    assert [one.playbook for one in found[:2]] == ["orphan-engine-holds-gpu", "disk-full"]


def test_what_a_server_leaves_at_a_normal_shutdown_has_some_seconds_to_end() -> None:
    assert find_alerts(reading(servers=(orphan(state_since=NOW - 3),))) == ()
    assert only(find_alerts(reading(servers=(orphan(state_since=NOW - 9),)))).severity == "error"


def test_nothing_is_no_size() -> None:
    split = (MemorySplit(5, known(0.0), NOT_KNOWN, NOT_KNOWN, NOT_KNOWN),)
    nothing = process(4711, pss_gib=known(0.0), rss_gib=known(0.0), gpu_gib=((5, known(0.0)),))
    found = only(find_alerts(reading(servers=(orphan(memory=split),), processes=(nothing,))))
    assert found.severity == "warning"
    assert "0 MiB" not in found.text


def test_what_is_the_same_of_several_gpus_is_said_once() -> None:
    unlisted = [gpu(index, used=30 + 5 * (index == 2)) for index in range(5)]
    found = only(find_alerts(with_gpus(*unlisted)))
    assert found.about == "GPUs 0-4"
    assert found.text == "GPUs 0-4: 30.0 to 35.0 GiB each held by processes that the driver does not list here"
    hot = [gpu(index, throttle=known("hardware slowdown")) for index in (1, 3)]
    assert only(find_alerts(with_gpus(*hot))).about == "GPUs 1, 3"
    different = with_gpus(gpu(1, ecc_errors=known(2)), gpu(2, ecc_errors=known(3)))
    assert len(find_alerts(different)) == 2


def test_a_lost_gpu_comes_before_an_orphan() -> None:
    lost = Unknown("a GPU is lost")
    seen = replace(with_gpus(gpu(3, total_gib=lost, used_gib=lost)), servers=(orphan(),))
    assert [one.about for one in find_alerts(seen)] == ["GPU 3", "GPU 5"]


def test_an_orphan_is_named_with_its_pid_and_its_start() -> None:
    found = only(find_alerts(reading(servers=(orphan(started=NOW - 5 * 86_400),))))
    assert found.pid == 4711
    assert "(pids 4711, 4712, started 2026-02-2" in found.text
    assert "kill 4711" in found.what_to_do


def test_preemptions_are_said_where_they_grow() -> None:
    before = reading(servers=(replace(serving(), preemptions=known(4)),))
    now = replace(reading(servers=(replace(serving(), preemptions=known(9)),)), time=NOW + 2)
    assert find_alerts(now) == ()
    assert find_alerts(now, replace(now, time=NOW)) == ()
    assert "chat-70b: 5 requests lost their KV cache within 2 s" in only(find_alerts(now, before)).text


def test_preemptions_of_another_server_with_the_same_pid_are_not_compared() -> None:
    before = reading(servers=(replace(serving(), preemptions=known(4), started=NOW - 9e6),))
    now = reading(servers=(replace(serving(), preemptions=known(9)),))
    assert find_alerts(now, before) == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "text", 10**400])
def test_what_is_no_number_is_no_alert(value: Any) -> None:
    odd = known(value)
    seen = with_gpus(gpu(0, ecc_errors=odd, xid=odd, used_gib=odd), host=host(ram_available_gib=odd, shm_free_gib=odd))
    assert find_alerts(seen) == ()


def test_every_stage_of_a_load_has_its_patience() -> None:
    from engine_probe.stage_names import STAGES

    assert set(alerts_loads.STAGE_SECONDS) == set(STAGES) - {"serving"}


@pytest.mark.parametrize(
    ("version", "share"),
    [("0.19.1", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92), ("1.0", 0.92), (None, None), ("dev", None)],
)
def test_a_releases_default_share(version: str | None, share: float | None) -> None:
    assert default_share(version) == share


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (["--gpu-memory-utilization", "0.5"], 0.5),
        (["--gpu_memory_utilization=0.5", "--gpu-memory-utilization", "0.6"], 0.6),
        (["--gpu-memory-utilization"], None),
        (["--gpu-memory-utilization", "lots"], None),
        (["--gpu-memory-utilization", "nan"], None),
        (["--kv-cache-memory-bytes", "4G", "--gpu-memory-utilization", "0.5"], None),
        ([], 0.9),
    ],
)
def test_the_share_that_a_command_asks_for(words: list[str], share: float | None) -> None:
    assert share_of(["vllm", "serve", "m", *words], "0.19.0") == share


READ = """
import sys
from readings import reading
from engine_probe.hardware.gpus import read_gpus
from playbooks.alerts import find_alerts
for one in find_alerts(reading(gpus=read_gpus(), servers=(), processes=())):
    print(one.severity, one.about, one.playbook)
"""


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("init 18\n", ["error host driver-library-mismatch"]),
        ("init 9\n", ["warning host gpu-not-visible-in-container"]),
        ("init 12\n", []),
        ("handle 1 15\n", ["error GPU 1 cuda-error-while-serving"]),
        ("handle 1 4\n", ["warning GPU 1 None"]),
    ],
)
def test_what_the_driver_says_is_recognised(nvml_folder: Path, tmp_path: Path, state: str, said: list[str]) -> None:
    """The words of engine_probe/hardware/gpus.py are what the rules look for."""
    cards = "".join(f"gpu {index} GPU-{index} {80 * 2**30} 0 0 NVIDIA H100\n" for index in range(2))
    file = tmp_path / "state"
    file.write_text(f"driver 580.65.06\ncuda 13000\n{cards}{state}")
    env = {**os.environ, "LD_LIBRARY_PATH": str(nvml_folder), "FAKE_NVML_STATE": str(file)}
    env["PYTHONPATH"] = os.path.dirname(__file__)  # noqa: PTH120
    ended = subprocess.run([sys.executable, "-c", READ], env=env, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == said
