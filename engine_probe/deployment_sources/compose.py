"""A docker compose file → the deployment of its services that start vLLM, in the order in which they start."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.deployment import digest_of
from engine_probe.deployment_sources.compose_keys import TOP
from engine_probe.deployment_sources.compose_service import read_service
from engine_probe.deployment_sources.compose_variables import read_env_file
from engine_probe.deployment_sources.containers import (
    Container,
    check_flags_known,
    is_own_image,
    launch_of,
    placed,
    shell_text_of,
    starts_vllm,
    words_of,
)
from engine_probe.deployment_sources.places import At
from engine_probe.deployment_sources.shell_script import launches_in
from engine_probe.errors import InputError, nearest_word
from engine_probe.flags import flag_for
from engine_probe.launch import Deployment
from engine_probe.quoting import quoted
from engine_probe.strict_yaml import read_text
from engine_probe.yaml_nodes import Lines, build, compose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.deployment_sources.compose_service import Service
    from engine_probe.launch import Launch

_MOST_CHARACTERS = 200_000
_MOST_EXTENDED = 20
_MOST_COPIES = 64
_NUMBERS = ("int", "float", "size")


def read_compose(
    path: Path, env: Mapping[str, str] | None = None, engine_flags: frozenset[str] = frozenset()
) -> Deployment:
    """`env`: variables of whoever would start it, those of this process by default. Raises InputError."""
    text = read_text(path)
    files = _Files(_values(path.parent, os.environ if env is None else env))
    services = files.services_of(path, text)
    notes = list(files.notes)
    beside = [path.with_name(f"{path.stem}.override{suffix}") for suffix in (".yaml", ".yml")]
    notes += [f"{one.name} beside it is not read; Compose would merge it" for one in beside if one.exists()]
    ordered = _ordered(services)
    found = [one for one in ordered if _is_vllm(one)]
    if not found:
        names = ", ".join(one.name for one in ordered)[:200]
        raise InputError(f"none of its services starts vLLM: {names or 'it has none'}", file=str(path))
    launches: list[Launch] = []
    for service in found:
        made, more = _launches(service, engine_flags)
        launches += made
        notes += more
    start, more = _start_of(found, {one.name: one for one in services.values()})
    notes += more
    digest = digest_of(text.encode("utf-8"))
    return Deployment(tuple(launches), None, start, path, digest, tuple(dict.fromkeys(notes)))


def _values(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The environment wins over `.env`."""
    path = folder / ".env"
    try:
        of_file = read_env_file(path) if path.is_file() else {}
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    return {**of_file, **env}


class _Files:
    """Reads a file and those that its services extend, each once."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.notes: list[str] = []
        self.read: dict[Path, tuple[dict[str, Any], Lines]] = {}

    def services_of(self, path: Path, text: str) -> dict[str, Service]:
        written, lines = self.content(path, text)
        return {name: self.service(path, name, At(lines, ("services", name)), ()) for name in written}

    def content(self, path: Path, text: str | None = None) -> tuple[dict[str, Any], Lines]:
        if path not in self.read:
            self.read[path] = self.parsed(path, read_text(path) if text is None else text)
        return self.read[path]

    def parsed(self, path: Path, text: str) -> tuple[dict[str, Any], Lines]:
        if len(text) > _MOST_CHARACTERS:
            raise InputError("is larger than 200 kB; that is no compose file written by hand", file=str(path))
        lines = Lines(str(path), text)
        node = compose(text, str(path))
        value = None if node is None else build(node, lines)
        top = At(lines, ())
        if not isinstance(value, dict):
            raise top.error("a compose file is wanted, with `services:`")
        for key in value:
            if key not in TOP and not key.startswith("x-"):
                raise top.child(key).error(f'unknown key "{quoted(key, 80)}"', nearest=nearest_word(key, sorted(TOP)))
        services = value.get("services")
        if not isinstance(services, dict):
            raise top.child("services").error("services: a mapping from name to service is wanted")
        if "include" in value:
            self.notes.append(f"{top.child('include')}: the files that it includes are not read")
        return services, lines

    def service(self, path: Path, name: str, at: At, chain: tuple[tuple[Path, str], ...]) -> Service:
        """Extended ones first; a chain that comes back to itself is an error."""
        if (path, name) in chain or len(chain) > _MOST_EXTENDED:
            way = quoted(" → ".join(one for _, one in chain), 200)
            raise at.error(f"the service {quoted(name)} extends itself: {way} → {quoted(name)}")
        services, lines = self.content(path)
        own = At(lines, ("services", name))
        if name not in services:
            raise at.error(f"there is no service {quoted(name, 80)}", nearest=nearest_word(name, services))
        value = services[name]
        extends = value.get("extends") if isinstance(value, dict) else None
        read = read_service(name, value, own, self.values)
        if extends is None:
            return read
        place = own.child("extends")
        base, file = (extends, None) if isinstance(extends, str) else _extended(extends, place)
        other = path if file is None else (path.parent / file).resolve()
        return read.over(self.service(other, base, place, (*chain, (path, name))))


def _extended(value: Any, at: At) -> tuple[str, str | None]:
    if not isinstance(value, dict) or not isinstance(value.get("service"), str):
        raise at.error("extends: `service:` is wanted")
    for key in value.keys() - {"service", "file"}:
        raise at.child(key).error(f'unknown key "{quoted(key, 80)}"', nearest=nearest_word(key, ("service", "file")))
    file = value.get("file")
    if file is not None and (not isinstance(file, str) or "\0" in file):
        raise at.child("file").error("file: a path is wanted")
    return value["service"], file


def _ordered(services: Mapping[str, Service]) -> list[Service]:
    """What a service depends on comes before it; else as they are written."""
    done: dict[str, Service] = {}
    for name in services:
        waiting: list[tuple[str, list[str]]] = [(name, [])]
        while waiting:
            one, chain = waiting.pop()
            if one in done:
                continue
            service = services[one]
            open_needs = [need for need in service.needs if need.name not in done]
            if not open_needs:
                done[one] = service
                continue
            waiting.append((one, chain))
            for need in reversed(open_needs):
                if need.name not in services:
                    message = f"depends_on: there is no service {quoted(need.name, 80)}"
                    raise need.at.error(message, nearest=nearest_word(need.name, services))
                if need.name == one or need.name in chain:
                    raise need.at.error(
                        f"depends_on: {quoted(one, 80)} and {quoted(need.name, 80)} wait for each other"
                    )
                waiting.append((need.name, [*chain, one]))
    return list(done.values())


def _is_vllm(service: Service) -> bool:
    if is_own_image(service.image) and (service.entrypoint is None or not service.entrypoint.words):
        return True
    return starts_vllm(words_of(_container(service, [])))


def _container(service: Service, notes: list[str]) -> Container:
    devices = service.devices
    env = dict(service.env)
    if devices is not None and "NVIDIA_VISIBLE_DEVICES" in env:
        del env["NVIDIA_VISIBLE_DEVICES"]
        notes.append(f"{devices.at}: the GPUs that are reserved count, not NVIDIA_VISIBLE_DEVICES")
    options = [
        word
        for key, value in (("shm-size", service.shm_size), ("ipc", service.ipc))
        if value
        for word in (f"--{key}", value)
    ]
    return Container(
        name=service.name,
        image=service.image,
        command=service.command.words if service.command else (),
        entrypoint=service.entrypoint.words if service.entrypoint else None,
        env=env,
        mounts=service.mounts,
        devices=None if devices is None else (devices.ids or ("all",)),
        options=tuple(options),
        working_dir=service.working_dir or "/",
    )


def _launches(service: Service, engine_flags: frozenset[str]) -> tuple[list[Launch], list[str]]:
    notes: list[str] = []
    container = _container(service, notes)
    written = service.command or service.entrypoint
    at = service.at if written is None else written.at
    try:
        launch, more = _launch(container, at)
        check_flags_known(launch, engine_flags)
    except InputError as error:
        raise at.error(f"{service.name}: {error.message}", nearest=error.nearest) from None
    notes += [f"{at}: {service.name}: {one}" for one in more]
    notes += list(service.notes)
    notes += _unset_notes(service, launch, at)
    if service.devices is None and container.env.get("NVIDIA_VISIBLE_DEVICES") is None:
        notes.append(f"{service.at}: {service.name} reserves no GPU; which it sees is up to Docker's runtime")
    notes += _port_notes(service, launch)
    if service.profiles:
        notes.append(
            f"{service.at}: {service.name} starts only with the profile {quoted(service.profiles[0])}; it counts here"
        )
    if not 0 < service.copies <= _MOST_COPIES:
        raise service.at.error(f"{service.name}: {service.copies} copies of it; 1 to {_MOST_COPIES} can be planned for")
    if service.copies == 1:
        return [launch], notes
    return [replace(launch, name=f"{launch.name}-{number}") for number in range(1, service.copies + 1)], notes


def _launch(container: Container, at: At) -> tuple[Launch, list[str]]:
    words = words_of(container)
    text = shell_text_of(words)
    if text is None:
        return launch_of(container, words, at.lines.file)
    found = launches_in(text, "its shell command", {**container.env}, Path(container.working_dir))
    if len(found.launches) != 1:
        why = found.notes[0] if found.notes else f"{len(found.launches)} servers are started in one container"
        raise InputError(f"what its shell runs is not understood: {why}")
    launch, notes = placed(container, replace(found.launches[0], name=container.name or found.launches[0].name))
    return launch, [*found.notes, *notes]


def _unset_notes(service: Service, launch: Launch, at: At) -> list[str]:
    """A variable without a value is an error where a number or the model hangs on it."""
    used = {"model": launch.model, **launch.args}
    for name in dict.fromkeys(one for one, _ in service.unset):
        forms = (f"${name}", f"${{{name}")
        for argument, value in used.items():
            flag = flag_for(argument)
            matters = argument == "model" or (flag is not None and flag.type in _NUMBERS)
            if matters and isinstance(value, str) and any(form in value for form in forms):
                message = f"{service.name}: {argument} is {quoted(value, 80)}, and {name} has no value here"
                raise at.error(f"{message}; set it in .env beside the file, or in the environment")
    return [
        f"{place}: {service.name}: the variable {quoted(name, 80)} has no value here" for name, place in service.unset
    ]


def _port_notes(service: Service, launch: Launch) -> list[str]:
    port = str(launch.arg("port") or 8000)
    published = [
        one.rpartition(":")[0].rpartition(":")[2]
        for one in service.ports
        if one.rpartition(":")[2].split("/")[0] == port
    ]
    return [
        f"{service.at.child('ports')}: {service.name}: its port {port} is published as {quoted(one, 40)}"
        for one in published
        if one and one != port
    ]


def _start_of(found: list[Service], services: Mapping[str, Service]) -> tuple[Any, list[str]]:
    """Compose starts all at once but for what depends on another; only a health check waits for a model to load."""
    if len(found) == 1 and found[0].copies == 1:
        return "sequential", []
    waits = all(
        before.name in _waited_for(after.name, services) for before, after in itertools.pairwise(found)
    ) and all(one.copies == 1 for one in found)
    if waits:
        return "sequential", []
    if any(one.needs for one in found):
        why = "depends_on without `condition: service_healthy` waits for a container to run, not for its model to load"
    else:
        why = "nothing makes one service wait for another"
    return "parallel", [f"{why}: the models load at the same time"]


def _waited_for(name: str, services: Mapping[str, Service]) -> set[str]:
    """Services that have answered before this one starts."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        one = services[waiting.pop()]
        for need in one.needs:
            if need.until_healthy:
                found.add(need.name)
            if need.name not in seen and need.name in services:
                seen.add(need.name)
                waiting.append(need.name)
    return found
