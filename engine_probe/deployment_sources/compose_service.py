"""One service of a compose file as far as it matters to vLLM, each part with its place."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.deployment_sources.compose_keys import DEVICE, SERVICE
from engine_probe.deployment_sources.compose_variables import filled, read_env_file
from engine_probe.deployment_sources.containers import Mount
from engine_probe.errors import InputError, nearest_word
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.deployment_sources.places import At


class Words(NamedTuple):
    words: tuple[str, ...]
    at: At


class Devices(NamedTuple):
    """`ids` empty: all GPUs."""

    ids: tuple[str, ...]
    at: At


class Needs(NamedTuple):
    """What a service waits for; `until_healthy`: until it answers, not only until it was started."""

    name: str
    until_healthy: bool
    at: At


@dataclass(frozen=True)
class Service:
    """None and empty: not written. `unset`: variables without a value, each with the place where it is used."""

    name: str
    at: At
    image: str | None = None
    entrypoint: Words | None = None
    command: Words | None = None
    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: Devices | None = None
    ports: tuple[str, ...] = ()
    needs: tuple[Needs, ...] = ()
    shm_size: str | None = None
    ipc: str | None = None
    working_dir: str | None = None
    copies: int = 1
    profiles: tuple[str, ...] = ()
    unset: tuple[tuple[str, At], ...] = ()
    notes: tuple[str, ...] = ()

    def over(self, base: Service) -> Service:
        """As `extends` merges: mappings key by key, lists one behind the other, everything else replaced."""
        mounts = {one.target: one for one in (*base.mounts, *self.mounts)}
        return replace(
            self,
            image=self.image or base.image,
            entrypoint=self.entrypoint or base.entrypoint,
            command=self.command or base.command,
            env=tuple({**dict(base.env), **dict(self.env)}.items()),
            mounts=tuple(mounts.values()),
            devices=self.devices or base.devices,
            ports=tuple(dict.fromkeys((*base.ports, *self.ports))),
            needs=(*base.needs, *self.needs),
            shm_size=self.shm_size or base.shm_size,
            ipc=self.ipc or base.ipc,
            working_dir=self.working_dir or base.working_dir,
            copies=max(self.copies, base.copies),
            profiles=self.profiles or base.profiles,
            unset=(*base.unset, *self.unset),
            notes=(*base.notes, *self.notes),
        )


def read_service(name: str, value: Any, at: At, values: Mapping[str, str]) -> Service:
    """Raises InputError for a key or a value that Compose would refuse."""
    return _Reader(name, _mapping(value, at), at, values).service()


class _Reader:
    def __init__(self, name: str, value: dict[str, Any], at: At, values: Mapping[str, str]) -> None:
        self.name = name
        self.value = value
        self.at = at
        self.values = values
        self.folder = Path(at.lines.file).parent
        self.unset: list[tuple[str, At]] = []
        self.notes: list[str] = []

    def service(self) -> Service:
        for key in self.value:
            if key not in SERVICE and not key.startswith("x-"):
                nearest = nearest_word(key, sorted(SERVICE))
                raise self.at.child(key).error(
                    f'unknown key "{quoted(key, 80)}" of the service {self.name}', nearest=nearest
                )
        return Service(
            name=self.name,
            at=self.at,
            image=self.text("image"),
            entrypoint=self.words("entrypoint"),
            command=self.words("command"),
            env=tuple(self.environment().items()),
            mounts=tuple(self.mounts()),
            devices=self.devices(),
            ports=tuple(self.port(one) for one in self.items("ports")),
            needs=tuple(self.needs()),
            shm_size=self.text("shm_size"),
            ipc=self.text("ipc"),
            working_dir=self.text("working_dir"),
            copies=self.copies(),
            profiles=tuple(self.fill(one) for one in self.items("profiles")),
            unset=tuple(self.unset),
            notes=tuple(self.notes),
        )

    def fill(self, at: At) -> str:
        """The scalar there, with its variables filled in."""
        written = at.lines.text_of(at.path)
        if written is None:
            raise at.error(f"{at.path[-1]}: one word is wanted")
        try:
            found = filled(written, self.values)
        except InputError as error:
            raise at.error(error.message) from None
        self.unset += [(name, at) for name in found.missing]
        return found.text

    def text(self, key: str) -> str | None:
        value = self.value.get(key)
        return None if value is None else self.fill(self.at.child(key)) or None

    def items(self, key: str) -> list[At]:
        value = self.value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.at.child(key).error(f"{key}: a list is wanted")
        return [self.at.child(key, number) for number in range(len(value))]

    def words(self, key: str) -> Words | None:
        value, at = self.value.get(key), self.at.child(key)
        if value is None:
            return None
        if isinstance(value, list):
            return Words(tuple(self.fill(one) for one in self.items(key)), at)
        text = self.fill(at).replace("\\\r\n", " ").replace("\\\n", " ")
        try:
            return Words(tuple(shlex.split(text)), at)
        except ValueError:
            raise at.error(f"{key}: a quote is never closed") from None

    def environment(self) -> dict[str, str]:
        env = self.env_files()
        value, at = self.value.get("environment"), self.at.child("environment")
        if isinstance(value, dict):
            for name, one in value.items():
                self.set(env, name, None if one is None else at.child(name), "", at.child(name))
        elif value is not None:
            for place in self.items("environment"):
                name, equals, _ = (place.lines.text_of(place.path) or "").partition("=")
                self.set(env, name.strip(), place if equals else None, f"{name}=", place)
        return env

    def set(self, env: dict[str, str], name: str, written: At | None, before: str, at: At) -> None:
        """A name alone stands for the variable of whoever starts the file; what has no value here is not set."""
        known = len(self.unset)
        told = self.values.get(name) if written is None else self.fill(written).removeprefix(before)
        if told is None:
            self.unset.append((name, at))
        if told is None or len(self.unset) > known:
            env.pop(name, None)
        else:
            env[name] = told

    def env_files(self) -> dict[str, str]:
        value = self.value.get("env_file")
        if value is None:
            return {}
        places = self.items("env_file") if isinstance(value, list) else [self.at.child("env_file")]
        env: dict[str, str] = {}
        for number, at in enumerate(places):
            item = value[number] if isinstance(value, list) else value
            is_mapping = isinstance(item, dict)
            is_needed = not (is_mapping and item.get("required") is False)
            path = self.folder / Path(self.fill(at.child("path") if is_mapping else at)).expanduser()
            try:
                env.update(read_env_file(path))
            except (OSError, ValueError) as error:
                if is_needed:
                    why = getattr(error, "strerror", None) or error
                    self.notes.append(f"{at}: the env_file {quoted(path.name, 100)} cannot be read: {why}")
        return env

    def mounts(self) -> list[Mount]:
        found = []
        for at in self.items("volumes"):
            value = self.value["volumes"][at.path[-1]]
            found.append(self.long_mount(value, at) if isinstance(value, dict) else self.short_mount(self.fill(at), at))
        return found

    def short_mount(self, text: str, at: At) -> Mount:
        source, colon, rest = text.partition(":")
        target = rest.partition(":")[0] if colon else source
        if not target.startswith("/"):
            raise at.error(f'volumes: "{quoted(text, 100)}" is none; SOURCE:/path/in/the/container is wanted')
        return Mount(self.host_folder(source) if colon else None, target)

    def long_mount(self, value: dict[str, Any], at: At) -> Mount:
        if "target" not in value:
            raise at.error("volumes: target: is missing")
        target = self.fill(at.child("target"))
        is_bind = value.get("type", "volume") == "bind" and value.get("source") is not None
        return Mount(self.host_folder(self.fill(at.child("source"))) if is_bind else None, target)

    def host_folder(self, source: str) -> str | None:
        """None: the name of a volume."""
        if source.startswith("~"):
            return str(Path(source).expanduser()) if source == "~" or source.startswith("~/") else None
        if source.startswith("/"):
            return source.rstrip("/") or "/"
        is_path = source.startswith((".", "$"))
        return str((self.folder / source).absolute().resolve()) if is_path and "$" not in source else None

    def port(self, at: At) -> str:
        value = self.value["ports"][at.path[-1]]
        if not isinstance(value, dict):
            return self.fill(at)
        parts = [self.fill(at.child(key)) for key in ("published", "target") if key in value]
        return ":".join(parts)

    def needs(self) -> list[Needs]:
        value, at = self.value.get("depends_on"), self.at.child("depends_on")
        if isinstance(value, dict):
            return [
                Needs(name, isinstance(how, dict) and how.get("condition") == "service_healthy", at.child(name))
                for name, how in value.items()
            ]
        return [Needs(self.fill(one), until_healthy=False, at=one) for one in self.items("depends_on")]

    def copies(self) -> int:
        deploy = self.value.get("deploy")
        places = [self.at.child("scale")] if "scale" in self.value else []
        places += [self.at.child("deploy", "replicas")] if isinstance(deploy, dict) and "replicas" in deploy else []
        return max((self.count(one) for one in places), default=1)

    def count(self, at: At) -> int:
        text = self.fill(at).strip()
        if not text.isdecimal() or len(text) > 4:
            raise at.error(f"{at.path[-1]}: a whole number is wanted")
        return int(text)

    def devices(self) -> Devices | None:
        gpus = self.value.get("gpus")
        if gpus is not None:
            at = self.at.child("gpus")
            if isinstance(gpus, str):
                if self.fill(at) != "all":
                    raise at.error("gpus: `all` or a list is wanted", nearest="all")
                return Devices((), at)
            return self.requested(gpus, at)
        at, value = self.at, self.value
        for key in ("deploy", "resources", "reservations", "devices"):
            at = at.child(key)
            inner = value.get(key)
            if inner is None:
                return None
            if key != "devices":
                value = _mapping(inner, at)
        return self.requested(inner, at)

    def requested(self, value: Any, at: At) -> Devices | None:
        if not isinstance(value, list):
            raise at.error(f"{at.path[-1]}: a list is wanted")
        ids: list[str] = []
        found = False
        for number, one in enumerate(value):
            place = at.child(number)
            request = _mapping(one, place)
            for key in request.keys() - DEVICE:
                raise place.child(key).error(
                    f'unknown key "{quoted(key, 80)}"', nearest=nearest_word(key, sorted(DEVICE))
                )
            if not _is_for_gpus(request):
                continue
            found = True
            wanted = self.ids_of(request, place)
            if not wanted:
                return Devices((), at)
            ids += wanted
        return Devices(tuple(dict.fromkeys(ids)), at) if found else None

    def ids_of(self, request: dict[str, Any], at: At) -> list[str]:
        """A number of GPUs means the first ones."""
        if "device_ids" in request:
            if "count" in request:
                raise at.child("count").error("count and device_ids exclude each other")
            ids = request["device_ids"]
            if not isinstance(ids, list) or not ids:
                raise at.child("device_ids").error("device_ids: a list is wanted, such as ['0', '1']")
            return [self.fill(at.child("device_ids", number)) for number in range(len(ids))]
        if request.get("count") in (None, "all", -1):
            return []
        place = at.child("count")
        text = self.fill(place)
        if text == "all":
            return []
        if not text.isdecimal() or not 0 < int(text[:9]) <= 1024:
            raise place.error("count: a number of GPUs or `all` is wanted", nearest=nearest_word(text, ("all",)))
        return [str(number) for number in range(int(text))]


def _is_for_gpus(request: dict[str, Any]) -> bool:
    wanted = request.get("capabilities")
    words = wanted if isinstance(wanted, list) else []
    return request.get("driver") == "nvidia" or "gpu" in words or "nvidia" in words


def _mapping(value: Any, at: At) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise at.error(f"{at.path[-1]}: a mapping is wanted")
    return value
