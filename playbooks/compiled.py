"""The console's own playbooks in one file that is read in some milliseconds: YAML of all of them would take seconds.

`compiled.json` is made from the YAML files by docs/generate.py and holds a digest of each: a playbook that was changed
since is read from its YAML.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine_probe.literals import literals_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playbooks.schema import Playbook

COMPILED = Path(__file__).parent / "compiled.json"


class Needs(msgspec.Struct, frozen=True, array_like=True):
    """What must occur for one wording to match: asked of hundreds of them before anything else is decoded."""

    is_loud: bool
    """Only complaints are looked at."""
    literals: list[str]
    """See engine_probe/literals.py."""
    frames: list[str] = []
    """The same of the pattern for frames."""


class Entry(msgspec.Struct, frozen=True):
    """What tells whether a playbook may match, and the whole of it as JSON that is decoded when it may."""

    id: str
    digest: str
    needs: list[Needs]
    """Of each wording."""
    unless_literals: list[list[str]]
    vllm: str
    """Release range of the whole playbook."""
    general: bool
    spec: msgspec.Raw


def digest_of(content: bytes) -> str:
    """Tells an edited file from what it was; it guards against nothing else, so that it costs next to nothing."""
    return f"{len(content)}-{zlib.crc32(content):08x}"


def entry_of(spec: Playbook, content: bytes) -> Entry:
    """`content` is that of the playbook's file."""
    return Entry(
        id=spec.playbook,
        digest=digest_of(content),
        needs=[
            Needs(not (one.quiet or one.at_end), list(literals_of(one.log)), list(literals_of(one.frames or "")))
            for one in spec.symptoms.any
        ],
        unless_literals=[list(literals_of(other.log)) for other in spec.symptoms.unless],
        vllm=spec.applies_to.vllm,
        general=spec.general,
        spec=msgspec.Raw(msgspec.json.encode(spec)),
    )


def compiled_text(entries: Iterable[Entry]) -> str:
    """The content of `compiled.json`: one playbook a line, in the order of their ids."""
    lines = [msgspec.json.encode(entry).decode() for entry in sorted(entries, key=lambda one: one.id)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def read_compiled(path: Path = COMPILED) -> dict[str, Entry]:
    """By id; empty where the file is missing or of another version of the console."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[Entry])
    except (OSError, msgspec.DecodeError):
        return {}
    return {entry.id: entry for entry in entries}
