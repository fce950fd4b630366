"""The servers that run on this host now → the deployment that they are, with what they hold on each GPU."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.command_line import parse_command
from engine_probe.deployment import FILE_ARGS
from engine_probe.deployment_sources.running_paths import Paths
from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.hardware.processes_read import read_environ
from engine_probe.hardware.server_memory import total_of
from engine_probe.hardware.server_titles import words_of
from engine_probe.launch import Deployment, EngineSpec
from engine_probe.memory.estimates import exact
from engine_probe.memory.learned_args import is_memory_variable
from engine_probe.quoting import quoted
from engine_probe.redact import MASKED, mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.facts import Fact
    from engine_probe.hardware.reading import Reading, Server
    from engine_probe.launch import Launch
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount

_CACHES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME")
_RUNS = ("loading", "serving", "unknown")


@dataclass(frozen=True)
class Running:
    """`held_gib`: of the deployment's servers alone, by GPU; a plan takes it off what is in use there."""

    deployment: Deployment
    held_gib: Mapping[int, Fact]
    versions: Mapping[str, str]
    """vLLM's release by the launch's name, where it is known."""


def read_running(reading: Reading, root: Path = Path("/")) -> Running:
    """`root` is another tree with `proc` in tests. Raises InputError where no server runs that can be understood."""
    proc = f"{str(root).rstrip('/')}/proc"
    launches: list[Launch] = []
    servers: list[Server] = []
    notes: list[str] = []
    for server in sorted(reading.servers, key=lambda one: (one.started or 0.0, one.pid)):
        found = _launch(server, proc, notes, has_gpus=bool(reading.gpus.gpus))
        if found is not None:
            launches.append(found)
            servers.append(server)
    if not launches:
        why = "".join(f"\n  {note}" for note in notes[:10])
        raise InputError(f"no vLLM server runs on {reading.host_name} that can be understood{why}")
    named = _named_apart(launches, servers)
    versions = {
        launch.name: str(server.version.value)
        for launch, server in zip(named, servers, strict=True)
        if isinstance(server.version, Known)
    }
    return Running(Deployment(named, notes=tuple(notes)), _held(servers), versions)


def cards_beside(running: Running, cards: Sequence[Card]) -> tuple[Card, ...]:
    """The cards with what others than these servers hold: what is left for a plan that has the servers in it."""
    return tuple(replace(card, others_gib=_less_held(card, running.held_gib.get(card.index))) for card in cards)


def _less_held(card: Card, held: Fact | None) -> Amount:
    others = card.others_gib
    if held is None or isinstance(others, Unknown):
        return others
    if isinstance(held, Unknown):
        return Unknown(f"what the servers hold of GPU {card.index} cannot be read: {held.reason}")
    left = max(0.0, others.value - float(held.value))
    return exact(left, f"{others.source}, less what the servers of the plan hold")


def _launch(server: Server, proc: str, notes: list[str], *, has_gpus: bool) -> Launch | None:
    who = f"pid {server.pid} ({server.name})"
    if server.state not in _RUNS:
        notes.append(f"{who} is {server.state}: not part of the deployment, and its memory counts as that of others")
        return None
    if not server.argv:
        notes.append(f"{who}: not started by a command that can be read, so it is not part of the deployment")
        return None
    words = words_of(server.argv)
    try:
        launch = parse_command(words, source=who)
    except InputError as error:
        notes.append(
            f"{who}: {error.message}; it is not part of the deployment, and its memory counts as that of others"
        )
        return None
    env = _environment(proc, server, notes, who)
    if has_gpus and not server.gpus:
        notes.append(f"{who}: which GPUs it is on is not known (yet)")
    launch = replace(launch, env=env, gpus=server.gpus or None, engine=_engine(server, words))
    return _placed(launch, Paths(proc, server.pid, is_inside=server.container is not None), notes, who)


def _environment(proc: str, server: Server, notes: list[str], who: str) -> dict[str, str]:
    env = read_environ(proc, server.pid)
    if env is None:
        notes.append(f"{who}: its environment cannot be read; variables such as VLLM_USE_V1 are not known")
        return {}
    return {
        name: mask(value)
        for name, value in env.items()
        if (is_memory_variable(name) or name in _CACHES) and MASKED not in mask(value)
    }


def _engine(server: Server, words: list[str]) -> EngineSpec | None:
    if server.container is not None:
        kind, _, number = server.container.partition(" ")
        return EngineSpec(container=number) if kind == "docker" else None
    first = words[0]
    is_python = re.fullmatch(r"python[\d.]*", posixpath.basename(first)) is not None
    return EngineSpec(python=first) if is_python and first.startswith("/") else None


def _placed(launch: Launch, paths: Paths, notes: list[str], who: str) -> Launch:
    """Paths as this host has them; a hub id stays one."""

    def here(written: str, what: str) -> str:
        found = paths.of(written)
        if isinstance(found, Unknown):
            notes.append(f"{who}: {what} {quoted(written, 200)}: {found.reason}")
            return written
        return found

    args = {
        name: here(value, name)
        for name, value in launch.args.items()
        if name in FILE_ARGS | {"download-dir"} and isinstance(value, str) and value.startswith("/")
    }
    env = {name: here(value, name) if name in _CACHES else value for name, value in launch.env.items()}
    return replace(
        launch,
        model=here(launch.model, "its model"),
        args={**launch.args, **args},
        lora={name: here(path, f"the adapter {name}") for name, path in launch.lora.items()},
        env=env,
    )


def _named_apart(launches: list[Launch], servers: list[Server]) -> tuple[Launch, ...]:
    names = [one.name for one in launches]
    return tuple(
        launch if names.count(launch.name) == 1 else replace(launch, name=f"{launch.name}-{server.pid}")
        for launch, server in zip(launches, servers, strict=True)
    )


def _held(servers: list[Server]) -> dict[int, Fact]:
    parts: dict[int, list[Fact]] = {}
    for server in servers:
        for split in server.memory:
            parts.setdefault(split.gpu, []).append(split.used_gib)
    return {gpu: total_of(facts) for gpu, facts in sorted(parts.items())}
