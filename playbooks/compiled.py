"""The console's own playbooks in one file that is read in some milliseconds: YAML of all of them would take seconds.

`compiled.tsv` is made from the YAML files by docs/generate.py and holds a digest of each: a playbook that was changed
since is read from its YAML. A line is a playbook: its entry and, after a tab, the whole of it, both as JSON.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from engine_probe.literals import all_literals_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playbooks.schema import Playbook

COMPILED = Path(__file__).parent / "compiled.tsv"


class Needs(msgspec.Struct, frozen=True, array_like=True):
    """What must occur for one wording to match: asked of hundreds of them before anything else is decoded."""

    is_loud: bool
    """Only complaints are looked at."""
    literals: list[list[str]]
    """Of each list one is in every text that matches, see engine_probe/literals.py."""
    frames: list[list[str]] = []
    """The same of the pattern for frames."""


class Entry(msgspec.Struct, frozen=True):
    """What tells whether a playbook may match, decoded at every start."""

    id: str
    digest: str
    needs: list[Needs]
    """Of each wording."""
    unless_literals: list[list[list[str]]]
    vllm: str
    """Release range of the whole playbook."""
    general: bool


class Compiled(NamedTuple):
    """A playbook as it is kept."""

    entry: Entry
    spec: bytes
    """JSON of the `Playbook`, decoded when a log may match it."""


def digest_of(content: bytes) -> str:
    """Tells an edited file from what it was; it guards against nothing else, so that it costs next to nothing."""
    return f"{len(content)}-{zlib.crc32(content):08x}"


def entry_of(spec: Playbook, content: bytes) -> Entry:
    """`content` is that of the playbook's file."""
    return Entry(
        id=spec.playbook,
        digest=digest_of(content),
        needs=[
            Needs(not (one.quiet or one.at_end), _sets(one.log), _sets(one.frames or "")) for one in spec.symptoms.any
        ],
        unless_literals=[_sets(other.log) for other in spec.symptoms.unless],
        vllm=spec.applies_to.vllm,
        general=spec.general,
    )


def _sets(pattern: str) -> list[list[str]]:
    return [list(one) for one in all_literals_of(pattern)]


def compiled_text(playbooks: Iterable[tuple[Entry, Playbook]]) -> str:
    """The content of `compiled.tsv`, in the order of the ids."""
    encode = msgspec.json.encode
    lines = [encode(entry) + b"\t" + encode(spec) for entry, spec in sorted(playbooks, key=lambda one: one[0].id)]
    return b"\n".join([*lines, b""]).decode()


def read_compiled(path: Path = COMPILED) -> dict[str, Compiled]:
    """By id; empty where the file is missing or of another version of the console."""
    decode = msgspec.json.Decoder(Entry).decode
    try:
        lines = (line.partition(b"\t") for line in path.read_bytes().splitlines())
        found = [Compiled(decode(entry), spec) for entry, _, spec in lines]
    except (OSError, msgspec.DecodeError):
        return {}
    return {one.entry.id: one for one in found}
