"""What a fault's loads find around them, by the names that its file uses: a port taken, little memory, a full disk.

Each is a context manager that gets the `Scene`, makes its part, and yields what the loads are to get (`Around`);
leaving it takes all away. `CannotMake` says why this host cannot: the fault is then skipped, with that reason.
To add one: write the function, put it into `SURROUNDINGS`. What must be done inside the load's own process, such
as a mount that nobody else sees, is a `LoadConditions`.
"""

from __future__ import annotations

import resource
import shutil
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.engine import local_engine
from engine_probe.load_conditions import LoadConditions, Tmpfs
from playbooks.lab.cgroups import memory_cgroup
from playbooks.lab.engine_copy import copy_engine
from playbooks.lab.mounts import why_no_mounts
from playbooks.lab.registry import Registry
from playbooks.lab.unmade import CannotMake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.engine import Engine


@dataclass(frozen=True)
class Scene:
    """`folder`: of this fault alone; its models will lie there. Nothing of it is made yet."""

    folder: Path
    engine: Engine


@dataclass(frozen=True)
class Around:
    """`words` replace `{NAME}` in the arguments and the environment of the fault's models."""

    words: Mapping[str, str] = field(default_factory=dict)
    conditions: LoadConditions = field(default_factory=LoadConditions)
    engine: Engine | None = None
    """Another one, for this fault alone."""


@contextmanager
def listen(_scene: Scene, *, port: int = 0, host: str = "127.0.0.1") -> Iterator[Around]:
    """Somebody listens on a port (0: any free one) and never answers; `{port}` is its number."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host, port))
        except OSError as error:
            raise CannotMake(f"port {port} of {host} cannot be listened on: {error.strerror}") from None
        taken.listen(1)
        yield Around({"port": str(taken.getsockname()[1])}, LoadConditions(port_stays=True))


@contextmanager
def free_port(_scene: Scene) -> Iterator[Around]:
    """Nobody listens on `{free_port}`, whose number is another each time."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        number = asked.getsockname()[1]
    yield Around({"free_port": str(number)})


@contextmanager
def memory_limit(_scene: Scene, *, extra_mib: int) -> Iterator[Around]:
    """All loads together may take so much more memory than a warm process has; the kernel ends what wants more."""
    with memory_cgroup(extra_mib * 2**20) as joins:
        yield Around(conditions=LoadConditions(cgroups=(joins,)))


@contextmanager
def process_limit(_scene: Scene, *, name: str, value: int) -> Iterator[Around]:
    """A limit of each process, such as NOFILE, DATA, NPROC or CORE (setrlimit)."""
    if not hasattr(resource, f"RLIMIT_{name}"):
        raise CannotMake(f"this system has no limit {name}")
    yield Around(conditions=LoadConditions(rlimits={name: value}))


@contextmanager
def small_disk(
    scene: Scene, *, folder: str = "small", kib: int = 4, at: str | None = None, read_only: bool = False
) -> Iterator[Around]:
    """A disk of a few KiB, each load's own: at `at`, or in the fault's folder, which `{FOLDER}` then names."""
    reason = why_no_mounts()
    if reason is not None:
        raise CannotMake(reason)
    place = Path(at) if at is not None else scene.folder / folder
    is_new = not place.is_dir()
    place.mkdir(parents=True, exist_ok=True)
    try:
        words = {} if at is not None else {folder: str(place)}
        yield Around(words, LoadConditions(tmpfs=(Tmpfs(str(place), kib * 1024, read_only),)))
    finally:
        if is_new:
            with suppress(OSError):
                place.rmdir()  # what loads wrote there went with them


@contextmanager
def engine_copy(
    scene: Scene,
    *,
    without: list[str] = [],  # noqa: B006 -- never changed
    broken: dict[str, str] = {},  # noqa: B006
) -> Iterator[Around]:
    """A copy of the engine made of links, without some packages, or with others whose code is this."""
    python = copy_engine(scene.engine, scene.folder / "engine", without, broken)
    yield Around(engine=local_engine(str(python), "the lab"))


@contextmanager
def few_tools(scene: Scene, *, tools: list[str]) -> Iterator[Around]:
    """A folder with these tools of the host alone; `{tools}` is its place, for PATH."""
    folder = scene.folder / "tools"
    folder.mkdir(parents=True)
    for name in tools:
        place = shutil.which(name)
        if place is None:
            raise CannotMake(f"this host has no {name}")
        (folder / name).symlink_to(place)
    yield Around({"tools": str(folder)})


SURROUNDINGS = Registry(
    "surrounding", (listen, free_port, memory_limit, process_limit, small_disk, engine_copy, few_tools)
)
