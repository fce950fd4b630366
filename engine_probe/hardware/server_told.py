"""One server as a reading tells it, put together from its processes, its command, its log and its /metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.metrics import ServerMetrics
from engine_probe.hardware.metrics_ask import Address
from engine_probe.hardware.reading import NOT_SAID, MemorySplit, Server
from engine_probe.hardware.server_memory import Told, pool_of_all, split_of, total_of
from engine_probe.hardware.server_where import gpus_given

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.hardware.gpus import GpuState
    from engine_probe.hardware.reading import State
    from engine_probe.hardware.server_followed import Followed
    from engine_probe.hardware.server_load import Load
    from engine_probe.hardware.server_tree import Family
    from engine_probe.hardware.server_where import Holding


@dataclass(frozen=True)
class Surroundings:
    """`held`: what each process holds on GPUs. `names`: the pids by which processes know themselves. `title`: the
    root's."""

    gpus: GpuState
    held: Mapping[int, tuple[Holding, ...]]
    names: Mapping[int, int]
    title: str


def server_of(family: Family, followed: Followed, around: Surroundings, now: float) -> Server:
    load, started = followed.output.load, followed.started
    members = {pid: around.held.get(pid, ()) for pid in family.members}
    on = sorted({index for one in members.values() for index, _ in one})
    ranks = started.gpus_needed if started is not None else max(1, len(on))
    pipeline = started.pipeline_parallel if started is not None else 1
    told = Told(load, followed.output.why_none, around.names, pipeline)
    splits = tuple(split_of(index, members, told) for index in on)
    state = followed.settle(family, _held_gib(splits), now)
    found = followed.metrics()
    metrics = found if isinstance(found, ServerMetrics) else ServerMetrics(found, found, found, found)
    model = (started.model if started is not None else "") or (str(load.model.value) if load.model else "")
    return Server(
        name=(started.name if started is not None else "") or model or around.title,
        model=model,
        pid=family.root.stat.pid,
        pids=tuple(sorted(family.members)),
        state=state,
        started=family.root.started,
        stage=followed.stage,
        stage_detail=_detail(state, load),
        stage_since=followed.stage_since,
        stage_seen_late=followed.stage_seen_late,
        state_since=followed.state_since,
        argv=started.argv if started is not None else (),
        version=load.version or Unknown(followed.output.why_none or "its log does not say it (yet)"),
        port=_port(followed),
        log=followed.output.path,
        container=followed.container,
        gpus=tuple(on) or gpus_given(followed.env, ranks, around.gpus.gpus),
        memory=splits,
        kv_pool_gib=pool_of_all(told, splits, ranks, started.kv_cache_bytes if started is not None else None),
        kv_use_percent=metrics.kv_use_percent,
        running=metrics.running,
        waiting=metrics.waiting,
        preemptions=metrics.preemptions,
        adapters=metrics.adapters,
    )


def _detail(state: State, load: Load) -> str:
    failed = load.failure.told() if state == "failed" else None
    if failed is not None:
        return str(failed.value)
    return "" if state == "serving" else load.detail


def _held_gib(splits: tuple[MemorySplit, ...]) -> float:
    used = total_of([one.used_gib for one in splits])
    return float(used.value) if isinstance(used, Known) else 0.0


def _port(followed: Followed) -> Fact:
    started = followed.started
    if started is None:
        return NOT_SAID
    if followed.is_adopted and not isinstance(followed.address, Address):
        return Unknown("what is left of it answers on no port")
    if started.socket_path is not None:
        return Unknown("it listens on a Unix socket")
    if started.port is None:
        return Unknown("what its command has for a port is no number")
    return Known(started.port, "parsed", "its command line")
