"""Hand-made readings of hosts for tests of the monitor: what a look finds, without a look.

`python tests/monitor_samples.py [NAME]` opens the console on one of them; `moving` changes with each reading.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState, MigSlice
from engine_probe.hardware.host import Disk, HostState
from engine_probe.hardware.reading import MemorySplit, ProcessReading, Reading, Server
from playbooks.alert import Alert

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON = 1_796_040_000.0
NOT_SAID = Unknown("this driver is too old to say it")
NO_GPU = "no NVIDIA driver library (libnvidia-ml.so.1) on this host"


def known(value: float | str, origin: str = "NVML") -> Known:
    return Known(value, "measured", origin)


def gpu(
    index: int,
    used: float = 0.4,
    *,
    peak: float | None = None,
    busy: float = 0,
    total: float = 79.3,
    processes: tuple[GpuProcess, ...] = (),
) -> Gpu:
    """An A100 of which all is known."""
    return Gpu(
        index=index,
        uuid=f"GPU-{index:08d}-0000-4000-8000-000000000000",
        name="NVIDIA A100-80GB",
        total_gib=known(total),
        used_gib=known(used),
        free_gib=known(total - used),
        processes=processes,
        reserved_gib=known(0.6),
        cuda_total_gib=known(total - 0.6),
        peak_used_gib=known(used if peak is None else peak),
        utilization_percent=known(busy),
        power_watts=known(60 + busy * 2.9),
        power_limit_watts=known(400.0),
        temperature_celsius=known(34 + busy / 3),
        sm_clock_mhz=known(1410),
        memory_clock_mhz=known(1593),
        throttle=known("none"),
        ecc_errors=known(0),
        row_remap=known("none"),
        xid=known(0),
        pcie=known("gen 4 x16"),
        nvlinks=known(12),
        bus_id=known(f"00000000:{index:02X}:00.0"),
    )


def process(
    pid: int,
    ppid: int,
    title: str,
    role: str = "worker",
    *,
    gpus: Sequence[tuple[int, Fact]] = (),
    server: int | None = None,
    rank: int | None = None,
    user: str = "ann",
    is_mine: bool = True,
    started: float | None = NOON - 7900,
    rss: float = 4.2,
    cpu: float = 3.0,
) -> ProcessReading:
    return ProcessReading(
        pid=pid, ppid=ppid, title=title, role=role, user=user, is_mine=is_mine, started=started,
        rss_gib=known(rss, "/proc"), pss_gib=known(rss * 0.8, "/proc"), shared_gib=known(rss * 0.3, "/proc"),
        threads=known(48, "/proc"), open_files=known(310, "/proc"), cpu_percent=known(cpu, "/proc"),
        rank=rank, server=server, gpu_gib=tuple(gpus),
    )  # fmt: skip


def split(index: int, used: float, weights: float | None, pool: float | None) -> MemorySplit:
    """None where neither the log nor a plan says it."""
    why = Unknown("its log does not say it")
    return MemorySplit(
        index,
        known(used),
        why if weights is None else Known(weights, "parsed", "engine.log:57"),
        why if pool is None else Known(pool, "parsed", "engine.log:71"),
        why if weights is None or pool is None else Known(used - weights - pool, "computed", "what is left"),
    )


CHAT = Server(
    name="chat-70b", model="/models/Llama-3-70B-Instruct", pid=4200, pids=(4200, 4201, 4202, 4203, 4204, 4205),
    state="serving", started=NOON - 7900, stage=known("serving", "engine.log:412"), version=known("0.19.0"),
    port=known(8000), log="engine.log", gpus=(0, 1, 2, 3),
    memory=tuple(split(index, 71.8, 32.9, 34.8) for index in range(4)),
    kv_pool_gib=known(139.2), kv_use_percent=known(63.0), running=known(12), waiting=known(3), preemptions=known(0),
)  # fmt: skip
CODE = Server(
    name="code-13b", model="codellama/CodeLlama-13b-Instruct-hf", pid=5100, pids=(5100, 5101), state="loading",
    started=NOON - 31, stage=Known("weight_load", "parsed", "code.log:33"), stage_detail="4 of 6 shards",
    stage_since=NOON - 9, version=known("0.19.0"), gpus=(4,), memory=(split(4, 13.2, 9.0, None),),
)  # fmt: skip
ORPHAN = Server(
    name="VLLM::EngineCore", model="not known", pid=4711, pids=(4711,), state="orphan", started=NOON - 17_400,
    stage=Unknown("its log is not found"), gpus=(5,), memory=(split(5, 70.1, None, None),),
)  # fmt: skip
PROCESSES = (
    process(4200, 1, "vllm serve /models/Llama-3-70B-Instruct --tensor-parallel-size 4", "api_server", server=4200),
    process(4201, 4200, "VLLM::EngineCore", "engine_core", server=4200, cpu=98.0),
    *(
        process(4202 + i, 4201, f"VLLM::Worker_TP{i}", gpus=((i, known(71.8)),), server=4200, rank=i, cpu=40.0 + i)
        for i in range(4)
    ),
    process(5100, 1, "vllm serve codellama/CodeLlama-13b-Instruct-hf", "api_server", server=5100, user="bob",
            is_mine=False, started=NOON - 31),
    process(5101, 5100, "VLLM::EngineCore", "engine_core", gpus=((4, known(13.2)),), server=5100, user="bob",
            is_mine=False, started=NOON - 24, rss=18.3),
    process(4711, 1, "VLLM::EngineCore", "engine_core", gpus=((5, known(70.1)),), server=4711, started=NOON - 17_400),
    process(6001, 1, "python train.py", "other", gpus=((6, known(21.4)),), user="eve", is_mine=False),
)  # fmt: skip
HOST = HostState(
    ram_total_gib=known(503.0, "/proc/meminfo MemTotal"),
    ram_available_gib=known(291.0, "/proc/meminfo MemAvailable"),
    swap_total_gib=known(8.0, "/proc/meminfo SwapTotal"),
    swap_free_gib=known(8.0, "/proc/meminfo SwapFree"),
    shm_total_gib=known(64.0, "statvfs /dev/shm"),
    shm_free_gib=known(63.8, "statvfs /dev/shm"),
    cgroup_limit_gib=known(256.0, "memory.max"),
    cgroup_used_gib=known(240.0, "memory.current"),
    ram_cached_gib=known(120.0, "/proc/meminfo Cached"),
    cpu_percent=known(11.0, "/proc/stat"),
    disks=(
        Disk("/models", "models", known(7000.0), known(1210.0), known(1229.0)),
        Disk("/root/.cache", "caches", known(439.0), known(88.0), known(0.0)),
    ),
    cgroup_cached_gib=known(6.0, "memory.stat"),
)
LOADED = tuple(
    gpu(i, 71.8, peak=72.4, busy=87 - i, processes=(GpuProcess(4202 + i, "VLLM::Worker_TP", known(71.8)),))
    for i in range(4)
)
EIGHT = Reading(
    time=NOON,
    host_name="node7",
    gpus=GpuState(
        (
            *LOADED,
            gpu(4, 13.2, busy=4, processes=(GpuProcess(5101, "VLLM::EngineCore", known(13.2)),)),
            gpu(5, 70.1, processes=(GpuProcess(4711, "VLLM::EngineCore", known(70.1)),)),
            gpu(6, 22.0, busy=55, processes=(GpuProcess(6001, "python", known(21.4)),)),
            gpu(7),
        ),
        driver_version="580.65",
        cuda_version="13.0",
    ),
    host=HOST,
    servers=(CHAT, CODE, ORPHAN),
    processes=PROCESSES,
    seconds=0.006,
)
ALERTS = (
    Alert("error", "GPU 5: 70.1 GiB held by an engine whose parent is gone (pid 4711, started 07:10)", "GPU 5",
          "gpu-memory-held-by-other-process", 4711, "End pid 4711 if nobody needs it: its memory is free then."),
    Alert("warning", "this container uses 240 of 256 GiB", "host", None, None,
          "Raise the container's memory limit, or load fewer models in it."),
)  # fmt: skip
LOST = Unknown("a GPU is lost (fallen off the bus): a reset or reboot is needed")
UNKNOWN = replace(
    EIGHT,
    gpus=replace(
        EIGHT.gpus,
        gpus=(
            Gpu(0, "", "not readable", LOST, LOST, LOST, (), LOST.reason, utilization_percent=LOST, power_watts=LOST),
            replace(gpu(1, 20.0), utilization_percent=NOT_SAID, power_watts=NOT_SAID, temperature_celsius=NOT_SAID),
            replace(gpu(2, 20.0), processes_unavailable="no permission to ask the NVIDIA driver"),
        ),
    ),
    host=HostState(*(Unknown("/proc/meminfo cannot be read: denied"),) * 6, None, None),
    servers=(replace(CHAT, gpus=(1,), memory=(split(1, 19.0, None, None),), kv_use_percent=Unknown("no answer"),
                     running=Unknown("no answer"), waiting=Unknown("no answer"), started=None),),
    processes=(process(4200, 1, "vllm serve x", "api_server", server=4200, started=None),),
)  # fmt: skip
NONE = replace(EIGHT, gpus=GpuState(unavailable=NO_GPU), servers=(), processes=())
ONE = replace(
    EIGHT,
    gpus=replace(EIGHT.gpus, gpus=(gpu(0, 13.2, busy=4, processes=(GpuProcess(5101, "VLLM", known(13.2)),)),)),
    servers=(replace(CODE, gpus=(0,), memory=(split(0, 13.2, 9.0, None),)),),
    processes=PROCESSES[6:8],
)
SIXTEEN = replace(
    EIGHT,
    gpus=replace(EIGHT.gpus, gpus=(*EIGHT.gpus.gpus, *(gpu(i, i * 4.5, busy=i * 5) for i in range(8, 16)))),
)
NOT_MEASURED = Unknown("this GPU or its mode does not support the question")
MIG = replace(
    EIGHT,
    gpus=replace(
        EIGHT.gpus,
        gpus=(
            replace(
                gpu(0, 40.2),
                utilization_percent=NOT_MEASURED,
                slices=(
                    MigSlice(0, "MIG-a", "3g.40gb", known(39.5), known(33.0), known(6.5),
                             (GpuProcess(5101, "VLLM::EngineCore", known(32.8), slice_index=0),)),
                    MigSlice(1, "MIG-b", "2g.20gb", known(19.5), known(7.2), known(12.3),
                             (GpuProcess(812, "not visible here", Unknown("the driver does not say it here"),
                                         is_visible=False, slice_index=1),)),
                    MigSlice(2, "MIG-c", "1g.10gb", known(9.5), known(0.0), known(9.5)),
                ),
            ),
            gpu(1, 0.4),
        ),
    ),
    servers=(replace(CODE, state="serving", gpus=(0,), memory=()),),
    processes=PROCESSES[6:8],
)  # fmt: skip
OTHER_NAMESPACE = replace(
    ONE,
    gpus=replace(
        ONE.gpus,
        gpus=(gpu(0, 50.0, processes=(GpuProcess(31_337, "not visible here", known(49.6), is_visible=False),)),),
    ),
    servers=(),
    processes=(),
)
READINGS = {
    "eight": EIGHT, "unknown": UNKNOWN, "none": NONE, "one": ONE, "sixteen": SIXTEEN, "mig": MIG,
    "other": OTHER_NAMESPACE,
}  # fmt: skip


@dataclass
class FakeWatch:
    """Gives the readings one by one; the last of them again and again."""

    readings: Sequence[Reading]
    samples: int = 0
    reads: int = 0
    is_closed: bool = False
    told: list[Reading] = field(default_factory=list)

    def sample(self) -> None:
        self.samples += 1

    def read(self) -> Reading:
        reading = self.readings[min(self.reads, len(self.readings) - 1)]
        self.reads += 1
        self.told.append(reading)
        return reading

    def close(self) -> None:
        self.is_closed = True


def moving(reading: Reading = EIGHT, count: int = 600) -> list[Reading]:
    """The same host once a second: memory, use and power of each GPU change."""
    found = []
    for turn in range(count):
        gpus = tuple(
            replace(
                one,
                used_gib=known(float(one.used_gib.value) + (turn * 7 + one.index) % 5 / 10),
                utilization_percent=known((turn * 13 + one.index * 29) % 100),
                power_watts=known(80 + (turn * 31 + one.index * 17) % 300),
                temperature_celsius=known(40 + (turn + one.index) % 9),
            )
            for one in reading.gpus.gpus
        )
        found.append(replace(reading, time=reading.time + turn, gpus=replace(reading.gpus, gpus=gpus)))
    return found


def main(name: str = "eight") -> None:
    import asyncio
    import time

    from tests.tui_samples import FAILED, backend, replaying
    from tui.app import ConsoleApp
    from tui.app_run import run_app

    readings = moving() if name == "moving" else [READINGS[name]]
    began = time.time()
    readings = [replace(one, time=NOON + i) for i, one in enumerate(readings * (1 if len(readings) > 1 else 600))]
    world = backend(replaying(FAILED), alerts=ALERTS if name in ("eight", "moving", "sixteen") else ())
    watch = FakeWatch(list(itertools.chain(readings)))
    world = replace(world, watch=lambda: watch, clock=lambda: NOON + time.time() - began, cpu_seconds=time.process_time)
    asyncio.run(run_app(ConsoleApp(world)))


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
