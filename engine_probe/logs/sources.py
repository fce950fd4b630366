"""Where a log comes from: a file, standard input, or a program that prints a container's, unit's or pod's log."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = ("docker", "unit", "pod")


class Source(NamedTuple):
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


def path_of(source: Source) -> Path:
    return Path(source.name).expanduser()


def short_names(sources: Sequence[Source]) -> list[str]:
    """A short name for each: a path's last part, with the folder before it where two are the same."""
    names = ["stdin" if source.kind == "stdin" else PurePath(source.name).name or source.name for source in sources]
    longer = ["/".join(PurePath(source.name).parts[-2:]) for source in sources]
    names = [long if names.count(name) > 1 else name for name, long in zip(names, longer, strict=True)]
    return [source.label if names.count(name) > 1 else name for name, source in zip(names, sources, strict=True)]
