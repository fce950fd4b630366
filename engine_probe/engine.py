"""An engine: one way to start the Python that has vLLM, here, in a container, in a pod or on another host."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class EngineError(Exception):
    """The engine cannot be found, installed or run. str() is the full message for a person."""


@dataclass(frozen=True)
class Engine:
    """`prefix` ends with the engine's Python; `argv` makes the whole command."""

    prefix: tuple[str, ...]
    label: str
    """Short and unique, such as `/opt/vllm/bin/python` or `container:vllm`; `--engine LABEL` names it again."""
    found_by: str
    """Completes "found by …"."""
    env: Mapping[str, str] = field(default_factory=dict)
    joined_by_shell: bool = False
    """True for ssh: the far side joins the words with spaces and gives them to a shell."""

    @property
    def python(self) -> str:
        return self.prefix[-1]

    @property
    def is_local(self) -> bool:
        """Runs as a plain process of this host, so that its pid, files and ports are those seen here."""
        return len(self.prefix) == 1

    def argv(self, *rest: str) -> list[str]:
        """The command that runs the engine's Python with `rest`, quoted for the way it travels.

        `env` travels inside the command, because a container or another host does not inherit ours.
        """
        variables = ("env", *(f"{name}={value}" for name, value in self.env.items())) if self.env else ()
        words = (*variables, self.python, *rest)
        way = self.prefix[:-1]
        return [*way, shlex.join(words)] if self.joined_by_shell else [*way, *words]


def local_engine(python: str, found_by: str) -> Engine:
    return Engine(prefix=(python,), label=python, found_by=found_by)


def container_engine(name: str, found_by: str, python: str = "python3") -> Engine:
    """A running container, entered with `docker exec`."""
    prefix = ("docker", "exec", "-i", name, python)
    return Engine(prefix=prefix, label=f"container:{name}", found_by=found_by)


def image_engine(image: str, found_by: str, python: str = "python3", run: str = "docker") -> Engine:
    """A new container of `image`, removed afterwards: for one that dies at start and cannot be entered.

    `run` is the tool with options for its `run`, such as `docker --gpus all`. The entry point becomes `env`,
    because that of vLLM's own images is `vllm serve`.
    """
    tool, *options = shlex.split(run)
    prefix = (tool, "run", "--rm", "-i", *options, "--entrypoint", "env", image, python)
    return Engine(prefix=prefix, label=f"image:{image}", found_by=found_by)


def pod_engine(name: str, found_by: str, python: str = "python3") -> Engine:
    """A running Kubernetes pod; `name` may be `NAMESPACE/POD`."""
    namespace, _, pod = name.rpartition("/")
    where = ("-n", namespace) if namespace else ()
    prefix = ("kubectl", "exec", "-i", *where, pod, "--", python)
    return Engine(prefix=prefix, label=f"pod:{name}", found_by=found_by)


def ssh_engine(host: str, found_by: str, python: str = "python3") -> Engine:
    """Another host; BatchMode makes a missing key an error instead of a question for a password."""
    prefix = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, python)
    return Engine(prefix=prefix, label=f"ssh:{host}", found_by=found_by, joined_by_shell=True)
