"""What one look at this host finds: GPUs, memory, vLLM's servers with their stages, the processes that matter.

All of it is frozen: whoever reads hands it over, whoever draws keeps no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine_probe.facts import Fact, Unknown

if TYPE_CHECKING:
    from engine_probe.hardware.gpus import GpuState
    from engine_probe.hardware.host import HostState

Role = Literal["api_server", "engine_core", "worker", "ray", "helper", "other"]
State = Literal["loading", "serving", "failed", "orphan", "ending", "unknown"]
"""failed: its log says so, and the process is still there."""

NOT_SAID = Unknown("the server does not say it")


@dataclass(frozen=True)
class ProcessReading:
    """One process that holds GPU memory or belongs to an engine. Text is masked; sizes are in GiB."""

    pid: int
    ppid: int
    title: str
    """As `ps` shows it, such as "VLLM::EngineCore"."""
    role: Role
    user: str
    is_mine: bool
    """Whether the user who looks may end it."""
    started: float | None
    """Seconds since the epoch."""
    rss_gib: Fact
    pss_gib: Fact
    shared_gib: Fact
    threads: Fact
    open_files: Fact
    cpu_percent: Fact
    rank: int | None = None
    server: int | None = None
    """The root pid of the server that it belongs to."""
    gpu_gib: tuple[tuple[int, Fact], ...] = ()
    """(GPU index, memory held there) for each GPU that it is on."""


@dataclass(frozen=True)
class MemorySplit:
    """What a server's memory on one GPU is for. Unknown where neither its log nor a plan says it."""

    gpu: int
    used_gib: Fact
    weights_gib: Fact
    kv_pool_gib: Fact
    rest_gib: Fact
    """CUDA graphs, activations, context: what is held beyond weights and KV pool."""


@dataclass(frozen=True)
class Server:
    """One vLLM engine on this host, in whatever stage; an orphan is what is left of one whose parent is gone."""

    name: str
    """The served model name, else the model as it was given; "not known" never: then it is the process's title."""
    model: str
    pid: int
    """The process that the others descend from."""
    pids: tuple[int, ...]
    state: State
    started: float | None
    stage: Fact
    """One of `stage_names.STAGES`. Its source is "parsed" from the server's log or "computed" from its processes."""
    stage_detail: str = ""
    """Such as "4 of 6 shards", or of a failed one its root exception; empty where nothing more is known."""
    stage_since: float | None = None
    """When it came to that stage by the times in its log, else when it was first seen there; since the epoch."""
    stage_seen_late: bool = False
    """It was there already when it was first seen, and its log does not tell since when: at least since then."""
    state_since: float | None = None
    """When it was first seen in that state, seconds since the epoch; None: it was so when it was first seen."""
    argv: tuple[str, ...] = ()
    """Masked."""
    version: Fact = NOT_SAID
    """vLLM's release."""
    port: Fact = NOT_SAID
    log: str | None = None
    """The file that its output goes to, where that is a file that can be read."""
    container: str | None = None
    gpus: tuple[int, ...] = ()
    memory: tuple[MemorySplit, ...] = ()
    kv_pool_gib: Fact = NOT_SAID
    """Of all its GPUs, or of the host's memory on a CPU."""
    kv_use_percent: Fact = NOT_SAID
    running: Fact = NOT_SAID
    waiting: Fact = NOT_SAID
    preemptions: Fact = NOT_SAID
    """Since the server started."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters that run or wait now."""


@dataclass(frozen=True)
class Reading:
    """`time` in seconds since the epoch; `seconds` is what taking the reading cost, in time of one core."""

    time: float
    host_name: str
    gpus: GpuState
    host: HostState
    servers: tuple[Server, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    seconds: float = 0.0
