"""A shell script that starts vLLM → the deployment: its servers in the order in which it starts them.

Nothing is run. What stands in a loop or a condition, or is computed, is named with its line and never guessed.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine_probe.deployment import digest_of
from engine_probe.deployment_sources.shell_commands import read_text_of_shell
from engine_probe.deployment_sources.shell_found import Context
from engine_probe.errors import InputError
from engine_probe.launch import Deployment
from engine_probe.strict_yaml import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.deployment_sources.shell_found import Found, Server
    from engine_probe.launch import Launch


def read_script(
    path: Path, env: Mapping[str, str] | None = None, engine_flags: frozenset[str] = frozenset()
) -> Deployment:
    """`env`: variables that the script may use without setting them; none by default but HOME. Raises InputError."""
    text = read_text(path)
    found = launches_in(text, str(path), env or {}, path.parent, engine_flags)
    if not found.servers:
        why = "".join(f"\n  {note}" for note in found.notes[:10])
        raise InputError(
            f"starts no vLLM that can be understood: a line like `vllm serve MODEL …` is wanted{why}", file=str(path)
        )
    start, more = _start_of(found.servers)
    launches = _named_apart([one.launch for one in found.servers])
    notes = tuple(dict.fromkeys((*found.notes, *more)))
    return Deployment(launches, None, start, path, digest_of(text.encode("utf-8")), notes)


def launches_in(
    text: str, source: str, env: Mapping[str, str], folder: Path, engine_flags: frozenset[str] = frozenset()
) -> Found:
    """What a text of a shell starts; of a container's, `env` is that of the container. Raises InputError."""
    home = {} if "HOME" in env else {"HOME": str(Path("~").expanduser())}
    return read_text_of_shell(text, Context(source, folder, {**home, **env}, engine_flags))


def _named_apart(launches: list[Launch]) -> tuple[Launch, ...]:
    taken: set[str] = set()
    named: list[Launch] = []
    for launch in launches:
        name, number = launch.name, 1
        while name in taken:
            number += 1
            name = f"{launch.name}-{number}"
        taken.add(name)
        named.append(replace(launch, name=name))
    return tuple(named)


def _start_of(servers: list[Server]) -> tuple[Literal["sequential", "parallel"], list[str]]:
    """One after another where the script waits for each to answer before it starts the next."""
    notes: list[str] = []
    for one, after in itertools.pairwise(servers):
        if not one.is_in_background:
            notes.append(
                f"{after.place}: it starts only when the server of {one.place} has ended: there is no & behind that one"
            )
        elif one.waited == "sleep":
            notes.append(
                f"{after.place}: the script sleeps before it, which is no sign that {one.launch.name} is loaded by then"
            )
    waits = [not one.is_in_background or one.waited is not None for one in servers[:-1]]
    if all(waits):
        return "sequential", notes
    if any(waits):
        notes.append("the script waits between some of its servers only: they are taken as started at the same time")
    return "parallel", notes
