"""Where a log comes from: a file, standard input, or a program that prints a container's, unit's or pod's log."""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_POLITE_SECONDS = 2.0
_KINDS = ("docker", "unit", "pod")


@dataclass(frozen=True)
class Source:
    """`kind` is `file`, `stdin`, `docker`, `unit` or `pod`; `name` is what stands behind the colon, or the path."""

    kind: str
    name: str

    @property
    def label(self) -> str:
        if self.kind == "stdin":
            return "-"
        return self.name if self.kind == "file" else f"{self.kind}:{self.name}"

    def argv(self, *, follow: bool) -> list[str]:
        """The command that prints this log, all of it, and what comes later with `follow`."""
        if self.kind == "docker":
            return ["docker", "logs", *(["-f"] if follow else []), self.name]
        if self.kind == "unit":
            lines = ["-f", "--no-tail"] if follow else []
            return ["journalctl", "--no-pager", "-q", "-o", "short", *lines, "-u", self.name]
        space, _, pod = self.name.rpartition("/")
        where = ["-n", space] if space else []
        return ["kubectl", "logs", *(["-f"] if follow else []), *where, pod]


def parse_source(word: str) -> Source:
    """A source from the command line: `-`, `docker:NAME`, `unit:NAME`, `pod:[NAMESPACE/]NAME`, or a file's path.

    A file whose name looks like one of the others is written with a path: `./docker:x`. Raises InputError.
    """
    if word == "-":
        return Source("stdin", "-")
    kind, colon, name = word.partition(":")
    if not colon or kind not in _KINDS:
        return Source("file", word)
    if not name or name.startswith("-") or any(part.startswith("-") or not part for part in name.split("/")):
        raise InputError(f"{word}: {name!r} is no name of a {kind}; write {kind}:NAME")
    return Source(kind, name)


class Child:
    """A program that prints a log, from `start` to `end` or as a block. It ends with this process however that ends."""

    def __init__(self, source: Source, *, follow: bool) -> None:
        self.source = source
        self._argv = source.argv(follow=follow)
        if shutil.which(self._argv[0]) is None:
            raise InputError(f"{source.label}: {self._argv[0]} is not on PATH")

    def __enter__(self) -> Child:
        self.start()
        return self

    def start(self) -> None:
        """Raises InputError where it cannot be run. Call it on the main thread: it ends with the calling one."""
        # Both streams: vLLM logs to stdout, tracebacks go to stderr, and `docker logs` keeps them apart.
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 -- one system call, no lock is taken
            )
        except OSError as error:
            raise InputError(f"{self.source.label}: cannot run {self._argv[0]}: {error.strerror or error}") from error

    @property
    def command(self) -> str:
        return " ".join(self._argv)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def output(self) -> int:
        """The descriptor to read from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def failure(self) -> str | None:
        """Once its output has ended: why it failed, None when it did not."""
        code = self._process.wait()
        return f"{self.source.label}: {self.command} ended with exit code {code}" if code else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_POLITE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def path_of(source: Source) -> Path:
    return Path(source.name).expanduser()


def short_names(sources: Sequence[Source]) -> list[str]:
    """A short name for each: a path's last part, with the folder before it where two are the same."""
    names = ["stdin" if source.kind == "stdin" else PurePath(source.name).name or source.name for source in sources]
    longer = ["/".join(PurePath(source.name).parts[-2:]) for source in sources]
    names = [long if names.count(name) > 1 else name for name, long in zip(names, longer, strict=True)]
    return [source.label if names.count(name) > 1 else name for name, source in zip(names, sources, strict=True)]
