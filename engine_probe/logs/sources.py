"""Where a log comes from: a file, standard input, or a program that prints what a container, unit, pod or host has."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = ("docker", "unit", "pod", "ssh")
_FORMS = {"ssh": "ssh:HOST:FILE"}


class Source(NamedTuple):
    """`kind` is `file`, `stdin`, `docker`, `unit`, `pod` or `ssh`; `name` is what follows the colon, or the path."""

    kind: str
    name: str

    @property
    def label(self) -> str:
        if self.kind == "stdin":
            return "-"
        return self.name if self.kind == "file" else f"{self.kind}:{self.name}"

    def argv(self, *, follow: bool) -> list[str]:
        """The command that prints this log, all of it, and what comes later with `follow`."""
        if self.kind == "ssh":
            return _far_file(self.name, follow=follow)
        if self.kind == "docker":
            return ["docker", "logs", *(["-f"] if follow else []), self.name]
        if self.kind == "unit":
            lines = ["-f", "--no-tail"] if follow else []
            return ["journalctl", "--no-pager", "-q", "-o", "short", *lines, "-u", self.name]
        space, _, pod = self.name.rpartition("/")
        where = ["-n", space] if space else []
        return ["kubectl", "logs", *(["-f"] if follow else []), *where, pod]


def _far_file(name: str, *, follow: bool) -> list[str]:
    """A file of another host. The far shell takes the words apart; BatchMode makes a missing key an error."""
    host, _, path = name.partition(":")
    # -F goes on when the log is rotated; a home folder is the far shell's to find, so `~/` stays outside the quotes.
    words = ("tail", "-n", "+1", "-F", "--") if follow else ("cat", "--")
    home, quoted = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    command = f"{shlex.join(words)} {home}{shlex.quote(quoted)}"
    return ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, command]


def parse_source(word: str) -> Source:
    """A source from the command line: `-`, `docker:NAME`, `unit:NAME`, `pod:[NAMESPACE/]NAME`, `ssh:HOST:FILE`, a path.

    A file whose name looks like one of the others is written with a path: `./docker:x`. Raises InputError.
    """
    if word == "-":
        return Source("stdin", "-")
    kind, colon, name = word.partition(":")
    if not colon or kind not in _KINDS:
        return Source("file", word)
    if not _is_name(kind, name):
        what = "file of another host" if kind == "ssh" else kind
        raise InputError(f"{word}: {name!r} is no name of a {what}; write {_FORMS.get(kind, f'{kind}:NAME')}")
    return Source(kind, name)


def _is_name(kind: str, name: str) -> bool:
    """Whether no tool can take it for one of its options."""
    if kind == "ssh":
        host, _, path = name.partition(":")
        return bool(host and path) and not host.startswith("-") and "/" not in host
    return bool(name) and not any(part.startswith("-") or not part for part in name.split("/"))


def path_of(source: Source) -> Path:
    return Path(source.name).expanduser()


def short_names(sources: Sequence[Source]) -> list[str]:
    """A short name for each: a path's last part, with the folder before it where two are the same."""
    names = ["stdin" if source.kind == "stdin" else PurePath(source.name).name or source.name for source in sources]
    longer = ["/".join(PurePath(source.name).parts[-2:]) for source in sources]
    names = [long if names.count(name) > 1 else name for name, long in zip(names, longer, strict=True)]
    return [source.label if names.count(name) > 1 else name for name, source in zip(names, sources, strict=True)]
