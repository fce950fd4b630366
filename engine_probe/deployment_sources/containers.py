"""A container that starts vLLM → a launch on this host: its words, its GPUs, and paths mapped back to the host's."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.command_line import parse_command
from engine_probe.deployment import FILE_ARGS
from engine_probe.errors import InputError, nearest_word
from engine_probe.flags import flag_table
from engine_probe.launch import EngineSpec, Launch
from engine_probe.paths import is_there
from engine_probe.quoting import quoted
from engine_probe.redact import names_a_secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.arg_values import ArgValue

_OWN_IMAGE = re.compile(r"(?:.*/)?vllm-openai[\w.-]*(?::[^@\s/]+)?(?:@sha256:[0-9a-f]+)?", re.IGNORECASE)
_OWN_ENTRY = ("vllm", "serve")
_HUB_HOME = "/root/.cache/huggingface"
"""Inside of vLLM's own images, which run as root (docker/Dockerfile)."""
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh"))
_WRAPPERS = frozenset(("tini", "dumb-init", "exec", "--", "-s", "-g", "nohup", "setsid"))
_RUNNERS = frozenset(("vllm", "python", "python3"))


class Mount(NamedTuple):
    """`source`: a folder of the host; None: a volume that the container tool keeps."""

    source: str | None
    target: str


@dataclass(frozen=True)
class Container:
    """`entrypoint` None: the image's own. `devices` None: nobody says which GPUs it sees. `options`: of docker run."""

    name: str | None
    image: str | None
    command: tuple[str, ...]
    entrypoint: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    working_dir: str = "/"
    run: str = "docker"


def is_own_image(image: str | None) -> bool:
    """An image of vLLM's whose entry point is the server."""
    return image is not None and _OWN_IMAGE.fullmatch(image) is not None


def words_of(container: Container) -> tuple[str, ...]:
    """What it runs, as far as the source and the known images tell; empty: that is not known."""
    if container.entrypoint:
        return _without_wrappers((*container.entrypoint, *container.command))
    if container.entrypoint is None and is_own_image(container.image):
        return (*_OWN_ENTRY, *container.command)
    return _without_wrappers(container.command)


def _without_wrappers(words: tuple[str, ...]) -> tuple[str, ...]:
    at = 0
    while at < len(words) and posixpath.basename(words[at]) in _WRAPPERS:
        at += 1
    return words[at:]


def shell_text_of(words: Sequence[str]) -> str | None:
    """The text that a shell is given to run: of `bash -lc "vllm serve …"`."""
    if not words or posixpath.basename(words[0]) not in _SHELLS:
        return None
    for number, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and word.endswith("c"):
            return words[number + 1]
        if not word.startswith("-"):
            return None
    return None


def starts_vllm(words: Sequence[str]) -> bool:
    """Whether these words run a server of vLLM's; another program with such words among its own does not."""
    if not words:
        return False
    if (text := shell_text_of(words)) is not None:
        return re.search(r"\bvllm\s+serve\b|vllm\.entrypoints\.(?:openai\.)?api_server", text) is not None
    first = posixpath.basename(words[0])
    if first not in _RUNNERS and not re.fullmatch(r"python[\d.]+", first):
        return False
    if first == "vllm":
        return len(words) > 1 and words[1] == "serve"
    return any("vllm.entrypoints" in word or word.endswith("openai/api_server.py") for word in words[1:6])


def check_flags_known(launch: Launch, engine_flags: frozenset[str]) -> None:
    """Raises InputError, without a place, for a flag that no release of vLLM has; `engine_flags` are allowed too."""
    known = flag_table().flags.keys() | engine_flags
    for name in launch.args:
        base = name.partition(".")[0]
        if base not in known:
            raise InputError(f"vLLM has no flag --{quoted(base, 80)}", nearest=nearest_word(base, sorted(known)))


def launch_of(container: Container, words: Sequence[str], source: str) -> tuple[Launch, list[str]]:
    """The launch, and what of the container it cannot say. Raises InputError without a place."""
    launch = parse_command(list(words), container.name, source)
    return placed(container, launch)


def placed(container: Container, launch: Launch) -> tuple[Launch, list[str]]:
    """A launch that was read inside of the container, as this host sees it."""
    notes: list[str] = []
    env, secrets = _without_secrets({**container.env, **launch.env})
    if secrets:
        notes.append(f"{', '.join(secrets)}: secrets are left where they are; the launch does not hold them")
    gpus, more = _gpus(container, env, launch.gpus)
    notes += more
    mounts = _Mounts(container, notes)
    used = replace(launch, env=env, gpus=gpus)
    used = mounts.placed(used)
    options = (*_gpu_options(container), *container.options, *mounts.options())
    run = " ".join((container.run, *(shlex.quote(word) for word in options)))
    engine = EngineSpec(image=container.image, run=run) if container.image else None
    return replace(used, engine=engine), notes


def _without_secrets(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    secrets = [name for name, value in env.items() if names_a_secret(name) and value]
    return {name: value for name, value in env.items() if name not in secrets}, secrets


def _gpu_options(container: Container) -> tuple[str, ...]:
    return ("--gpus", "all") if container.devices else ()


def _gpus(
    container: Container, env: dict[str, str], inside: tuple[int, ...] | None
) -> tuple[tuple[int, ...] | None, list[str]]:
    """NVML's indices; those of CUDA_VISIBLE_DEVICES count among the GPUs that the container sees."""
    visible, notes = _visible(container, env)
    written = env.get("CUDA_VISIBLE_DEVICES")
    if written is not None and inside is None:
        inside = _indices(written.split(","))
        if inside is None:
            notes.append(
                f"CUDA_VISIBLE_DEVICES={quoted(written, 80)} is no list of indices; which GPUs these are is not known"
            )
            return None, notes
        del env["CUDA_VISIBLE_DEVICES"]
    if env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        del env["CUDA_DEVICE_ORDER"]
    if inside is None or visible is None:
        return visible if inside is None else inside, notes
    beyond = [one for one in inside if one >= len(visible)]
    if beyond:
        raise InputError(
            f"CUDA_VISIBLE_DEVICES names GPU {beyond[0]}, and the container sees only {len(visible)}, numbered from 0"
        )
    return tuple(visible[one] for one in inside), notes


def _visible(container: Container, env: dict[str, str]) -> tuple[tuple[int, ...] | None, list[str]]:
    devices = container.devices
    told = env.pop("NVIDIA_VISIBLE_DEVICES", None)
    if devices is None and told is not None:
        devices = tuple(one.strip() for one in told.split(","))
    if devices is None or devices in (("all",), ("",)):
        return None, []
    found = _indices(devices)
    if found is None:
        names = quoted(", ".join(devices), 120)
        return None, [f"the GPUs {names} are named, not numbered; which these are is not known"]
    return found, []


def _indices(words: Sequence[str]) -> tuple[int, ...] | None:
    plain = [word.strip() for word in words]
    if not plain or not all(word.isdecimal() and len(word) < 4 for word in plain):
        return None
    return tuple(dict.fromkeys(int(word) for word in plain))


class _Mounts:
    """Maps paths of the container to the host's, and keeps which mounts that took."""

    def __init__(self, container: Container, notes: list[str]) -> None:
        self.container = container
        self.notes = notes
        self.used: list[str] = []

    def placed(self, launch: Launch) -> Launch:
        args = {name: self.of_argument(name, value) for name, value in launch.args.items()}
        lora = {name: self.path(path, f"the adapter {name}") for name, path in launch.lora.items()}
        model = self.model(launch.model)
        env = self.hub_cache(launch.env) if model == launch.model else dict(launch.env)
        return replace(launch, model=model, args=args, lora=lora, env=env)

    def of_argument(self, name: str, value: ArgValue) -> ArgValue:
        if name in FILE_ARGS | {"download-dir"} and isinstance(value, str) and value.startswith("/"):
            return self.path(value, name)
        return value

    def model(self, written: str) -> str:
        if written.startswith("/"):
            return self.path(written, "the model")
        inside = posixpath.normpath(posixpath.join(self.container.working_dir, written))
        if written.startswith("."):
            return self.path(inside, "the model")
        found = self.host_path(inside)
        if found is not None and found.source is not None and is_there(Path(found.source)):
            self.used.append(found.target)
            return found.source
        return written

    def path(self, written: str, what: str) -> str:
        found = self.host_path(posixpath.normpath(written))
        if found is None:
            self.notes.append(f"{what} {quoted(written, 200)} lies in no folder of the host that is mounted")
            return written
        if found.source is None:
            self.notes.append(f"{what} {quoted(written, 200)} lies in a volume; where that is on the host is not known")
            return written
        self.used.append(found.target)
        return found.source

    def host_path(self, inside: str) -> Mount | None:
        """The path on the host, with the folder to mount for it; None: no mount holds it."""
        fitting = [one for one in self.container.mounts if _is_below(inside, one.target)]
        if not fitting:
            return None
        best = max(fitting, key=lambda one: len(one.target.rstrip("/")))
        if best.source is None:
            return Mount(None, best.target)
        rest = posixpath.relpath(inside, best.target)
        return Mount(best.source if rest == "." else posixpath.join(best.source, rest), best.source)

    def hub_cache(self, env: Mapping[str, str]) -> dict[str, str]:
        """A model by its hub id is looked for in the cache that the container uses, where that is the host's."""
        changed = dict(env)
        for name, default in (("HF_HUB_CACHE", None), ("HF_HOME", _HUB_HOME)):
            inside = env.get(name) or default
            found = self.host_path(inside) if inside and inside.startswith("/") else None
            if found is not None and found.source is not None:
                changed[name] = found.source
                self.used.append(found.target)
                return changed
        return changed

    def options(self) -> tuple[str, ...]:
        """Mounted where the host has them, so that one path is right inside and outside."""
        return tuple(word for path in dict.fromkeys(self.used) for word in ("-v", f"{path}:{path}"))


def _is_below(path: str, folder: str) -> bool:
    plain = folder.rstrip("/")
    return path == (plain or "/") or path.startswith(f"{plain}/")
