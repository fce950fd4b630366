"""What a deployment says of the models beside one: who shares its GPUs, and what they ask for together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.facts import launch_fact
from playbooks.gpu_shares import default_share

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import Deployment, Launch

_DEFAULT_PORT = 8000
_RANKS = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


def gpus_used(launch: Launch) -> tuple[int, ...]:
    """NVML indices; where the launch names none, the first ones that its ranks need (torch counts from 0)."""
    if launch.gpus is not None:
        return launch.gpus
    ranks = 1
    for name in _RANKS:
        size = launch.arg(name)
        ranks *= size if isinstance(size, int) and size > 0 else 1
    return tuple(range(ranks))


def neighbour_facts(
    launch: Launch, deployment: Deployment, version: str | None, host_gpus: Collection[int] = ()
) -> dict[str, Fact]:
    """Of `launch` among the deployment's. `host_gpus`: those that there are."""
    mine = set(gpus_used(launch))
    others = [one for one in deployment.models if one.name != launch.name and mine & set(gpus_used(one))]
    together = [_utilization(one, version) for one in (launch, *others)]
    used = {gpu for one in deployment.models for gpu in gpus_used(one)}
    needed = len(gpus_used(launch))
    free = sorted(set(host_gpus) - used)[:needed]
    values: dict[str, Value | None] = {
        "neighbours.count": len(others),
        "neighbours.name": others[0].name if len(others) == 1 else None,
        "neighbours.names": " ".join(one.name for one in others) or None,
        "neighbours.utilization_sum": None if None in together else round(sum(filter(None, together)), 4),
        "neighbours.pool_bytes": _pools(others),
        "neighbours.start_together": deployment.start == "parallel" and bool(others),
        "neighbours.pools": " ".join(f"{one.name}={pool_bytes(one) or 0}" for one in others) or None,
        "neighbours.same_port": _with_same_port(launch, deployment),
        "deployment.models": " ".join(f"{one.name}={one.model}" for one in deployment.models),
        "deployment.ports": " ".join(str(one.args.get("port", _DEFAULT_PORT)) for one in deployment.models),
        "deployment.free_gpus": ",".join(map(str, free)) if len(free) == needed else None,
    }
    origin = str(deployment.path or "the deployment")
    reasons = {
        "deployment.free_gpus": f"fewer than {needed} of the GPUs are no model's"
        if host_gpus
        else "no state of the host was given",
        "neighbours.name": "there are several" if others else "there is none",
        "neighbours.names": "there is none",
        "neighbours.pools": "there is none",
        "neighbours.same_port": "no other launch names its port",
        "neighbours.pool_bytes": "one of them lets vLLM choose" if others else "there is none",
        "neighbours.utilization_sum": "a share is not set, and its default depends on vLLM's release",
    }
    return {
        name: Known(value, "declared", origin) if value is not None else Unknown(reasons.get(name, "it is not said"))
        for name, value in values.items()
    }


def facts_at_failure(
    model: str, loading: Collection[str], up: Collection[str], stages: Mapping[str, str], order: Sequence[str] = ()
) -> dict[str, Fact]:
    """What the other models did when `model` failed, as this session saw it. `order`: in which the loads began."""
    others = [name for name in loading if name != model]
    serving = [name for name in up if name != model]
    stage = stages.get(others[0]) if len(others) == 1 else None
    origin = f"this session, when {model} failed"
    values: dict[str, Value | None] = {
        "neighbours.are_loading": bool(others),
        "neighbours.loading": " ".join(others) or None,
        "neighbours.loading_stage": stage or None,
        "neighbours.serving": " ".join(serving) or None,
        "deployment.last_first": ", ".join([order[-1], *order[:-1]]) if len(order) > 1 else None,
    }
    reason = Unknown("there were several" if len(others) > 1 else "there was none")
    return {name: reason if value is None else Known(value, "measured", origin) for name, value in values.items()}


def _with_same_port(launch: Launch, deployment: Deployment) -> str | None:
    """The first other launch that names the same port, on whatever GPU."""
    port = launch.args.get("port")
    others = (one for one in deployment.models if one.name != launch.name and one.args.get("port") == port)
    return next((one.name for one in others if port is not None), None)


def _pools(launches: Collection[Launch]) -> int | None:
    """Bytes of the KV caches that they set by hand; None where one does not."""
    sizes = [pool_bytes(one) for one in launches]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


def pool_bytes(launch: Launch) -> int | None:
    """The KV cache that a launch sets by hand."""
    for name, unit in (("kv_cache_memory_bytes", 1), ("env.VLLM_CPU_KVCACHE_SPACE", 2**30)):
        found = launch_fact(launch, name)
        if isinstance(found, Known) and isinstance(found.value, (int, float)) and not isinstance(found.value, bool):
            return int(found.value * unit)
    return None


def _utilization(launch: Launch, version: str | None) -> float | None:
    """As written, else the release's default."""
    written = launch.arg("gpu-memory-utilization")
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return float(written)
    return default_share(version) if written is None else None
