"""Launches and shapes for tests of memory plans: models by their config.json, cards by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.launch import Deployment, Launch
from engine_probe.memory.accounting import Asked, rank_memory
from engine_probe.memory.accounting_values import values_of
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.estimates import exact
from engine_probe.memory.limits import Neighbours
from engine_probe.memory.read_model import read_model
from playbooks.placement import plan_of
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.model import ModelShape
    from playbooks.placement import Plan

NOBODY = Neighbours(exact(0.0, "declared: a test"))


def shape_of(folder: Path, config: Mapping[str, Any]) -> ModelShape:
    return read_model(write_config(folder, config))


def asked(
    shape: ModelShape, version: str | None, args: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
) -> Asked:
    launch = Launch(name="m", model="m", args=args or {}, env=env or {})
    use_v1 = launch.env.get("VLLM_USE_V1")
    return Asked(values_of(launch), shape, version, None if use_v1 is None else use_v1 != "0")


def memory_of(  # what a test varies
    shape: ModelShape,
    version: str | None,
    card: str = "H100-80GB",
    near: Neighbours = NOBODY,
    rank: int = 0,
    env: Mapping[str, str] | None = None,
    **args: Any,
) -> RankMemory:
    """`args` with underscores."""
    return rank_memory(asked(shape, version, args, env), parse_gpus(card)[0], rank, near)


def planned(
    shapes: Mapping[str, ModelShape], launches: list[Launch], gpus: str, version: str | None = "0.19.0", **more: Any
) -> Plan:
    """`shapes` by the launches' models; `more`: of the deployment."""
    deployment = Deployment(tuple(launches), **more)
    return plan_of(deployment, {launch.name: shapes[launch.model] for launch in launches}, parse_gpus(gpus), version)
