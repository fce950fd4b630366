"""`docker run …` as a script has it → the container that it starts."""

from __future__ import annotations

import posixpath
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.deployment_sources.compose_variables import read_env_file
from engine_probe.deployment_sources.containers import Container, Mount
from engine_probe.errors import InputError, nearest_word
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOOLS = frozenset(("docker", "podman", "nerdctl"))
_SWITCHES = frozenset(
    """
    -d --detach -i --interactive -t --tty --rm --init --privileged --read-only -P --publish-all --no-healthcheck
    --oom-kill-disable --disable-content-trust --sig-proxy -q --quiet --replace --tls-verify --use-api-socket
    """.split()  # noqa: SIM905 - a list of words
)
_WITH_VALUE = frozenset(
    """
    -a --attach --add-host --annotation --blkio-weight --blkio-weight-device --cap-add --cap-drop
    --cgroup-parent --cgroupns --cidfile -c --cpu-shares --cpus --cpu-period --cpu-quota --cpuset-cpus
    --cpuset-mems --detach-keys --device --device-cgroup-rule --dns --dns-option --dns-search --domainname
    --entrypoint -e --env --env-file --expose --gpus --group-add --health-cmd --health-interval --health-retries
    --health-start-period --health-timeout -h --hostname --ip --ip6 --ipc --isolation -l --label --label-file
    --link --link-local-ip --log-driver --log-opt --mac-address -m --memory --memory-reservation --memory-swap
    --memory-swappiness --mount --name --network --net --network-alias --net-alias --oom-score-adj --pid
    --pids-limit --platform -p --publish --pull --restart --runtime --security-opt --shm-size --stop-signal
    --stop-timeout --storage-opt --sysctl --tmpfs --ulimit -u --user --userns --uts -v --volume --volume-driver
    --volumes-from -w --workdir
    """.split()  # noqa: SIM905 - a list of words
)
_SHORT = {"-v": "--volume", "-e": "--env", "-w": "--workdir", "-d": "--detach"}


class Run(NamedTuple):
    container: Container
    is_detached: bool
    notes: tuple[str, ...]


def read_run(words: Sequence[str], env: Mapping[str, str], folder: Path) -> Run:
    """`words` from the tool on, with its `run`. Raises InputError without a place."""
    reader = _Reader(env, folder)
    at = list(words).index("run") + 1
    while at < len(words) and words[at].startswith("-"):
        at = reader.option(words, at)
    if at >= len(words):
        raise InputError("docker run: no image is named")
    container = Container(
        name=reader.one.get("--name"),
        image=words[at],
        command=tuple(words[at + 1 :]),
        entrypoint=tuple(shlex.split(reader.one["--entrypoint"])) if "--entrypoint" in reader.one else None,
        env=reader.env,
        mounts=tuple(reader.mounts),
        devices=reader.devices(),
        options=tuple(f"{name}={reader.one[name]}" for name in ("--shm-size", "--ipc") if name in reader.one),
        working_dir=reader.one.get("--workdir", "/"),
        run=posixpath.basename(words[0]),
    )
    return Run(container, reader.is_detached, tuple(reader.notes))


class _Reader:
    def __init__(self, outer: Mapping[str, str], folder: Path) -> None:
        self.outer = outer
        self.folder = folder
        self.one: dict[str, str] = {}
        self.env: dict[str, str] = {}
        self.mounts: list[Mount] = []
        self.notes: list[str] = []
        self.is_detached = False

    def option(self, words: Sequence[str], at: int) -> int:
        name, equals, value = words[at].partition("=")
        if name in _WITH_VALUE:
            if not equals:
                if at + 1 >= len(words):
                    raise InputError(f"docker run: {name} needs a value")
                value = words[at + 1]
            self.take(_SHORT.get(name, name), value)
            return at + (1 if equals else 2)
        if name in _SWITCHES:
            self.is_detached |= name in ("-d", "--detach")
            return at + 1
        return self.short(words, at)

    def short(self, words: Sequence[str], at: int) -> int:
        """-itd, -p8000:8000, -v/a:/b."""
        word = words[at]
        if not word.startswith("--"):
            for number, letter in enumerate(word[1:], 1):
                if f"-{letter}" in _WITH_VALUE:
                    value = word[number + 1 :]
                    if not value and at + 1 >= len(words):
                        break
                    self.take(_SHORT.get(f"-{letter}", f"-{letter}"), value or words[at + 1])
                    return at + (1 if value else 2)
                if f"-{letter}" not in _SWITCHES:
                    break
                self.is_detached |= letter == "d"
            else:
                return at + 1
        known = sorted(_SWITCHES | _WITH_VALUE)
        raise InputError(f'docker run: unknown option "{quoted(word, 60)}"', nearest=nearest_word(word, known))

    def take(self, name: str, value: str) -> None:
        if name == "--env":
            key, equals, text = value.partition("=")
            if equals:
                self.env[key] = text
            elif key in self.outer:
                self.env[key] = self.outer[key]
            else:
                self.notes.append(f"the variable {quoted(key, 80)} has no value here")
        elif name == "--env-file":
            self.env_file(self.folder / value)
        elif name == "--volume":
            source, colon, rest = value.partition(":")
            self.mount(source if colon else None, rest.partition(":")[0] if colon else value)
        elif name == "--mount":
            parts = dict(one.partition("=")[::2] for one in value.split(","))
            target = next((parts[key] for key in ("target", "dst", "destination") if key in parts), "")
            folder = parts.get("source", parts.get("src"))
            self.mount(folder if parts.get("type") == "bind" else None, target)
        else:
            self.one[name] = value

    def mount(self, source: str | None, target: str) -> None:
        if not target.startswith("/"):
            raise InputError(
                f'docker run: "{quoted(target, 80)}" is no path in the container; -v SOURCE:/path is wanted'
            )
        if source is not None and source.startswith("~/"):
            source = str(Path(source).expanduser())
        elif source is not None and source.startswith("."):
            source = str((self.folder / source).absolute().resolve())
        is_path = source is not None and source.startswith("/")
        self.mounts.append(Mount(source.rstrip("/") or "/" if is_path and source else None, target))

    def env_file(self, path: Path) -> None:
        try:
            self.env.update(read_env_file(path))
        except OSError as error:
            self.notes.append(
                f"the file of variables {quoted(path.name, 100)} cannot be read: {error.strerror or error}"
            )

    def devices(self) -> tuple[str, ...] | None:
        """`--gpus all`, `2`, `device=0,1`, `"device=0,1"`."""
        told = self.one.get("--gpus")
        if told is None:
            return None
        plain = told.strip().strip("'\"")
        if plain == "all":
            return ("all",)
        if plain.isdecimal() and 0 < int(plain[:6]) <= 1024:
            return tuple(str(number) for number in range(int(plain)))
        if plain.startswith("device="):
            return tuple(one.strip() for one in plain.removeprefix("device=").strip("'\"").split(","))
        raise InputError(f"docker run: --gpus {quoted(told, 60)}: all, a number or device=0,1 is wanted")
