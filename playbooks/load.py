"""Reads playbook files: strict shape, then every check. An error names the file and the line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine_probe.locations import find_locations
from engine_probe.strict_yaml import InputError, decode_file, nearest_word
from playbooks.check import problems
from playbooks.compiled import Entry, digest_of, entry_of, read_compiled
from playbooks.patterns import CompiledWording, Text
from playbooks.schema import Playbook
from playbooks.template import unfilled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.strict_yaml import Lines


class Loaded:
    """A checked playbook. What matching needs is there at once; `spec` is decoded when it is first asked for."""

    def __init__(self, entry: Entry, path: Path, spec: Playbook | None = None) -> None:
        self.id = entry.id
        self.path = path
        self.entry = entry
        self._spec = spec
        self.wordings = tuple(map(CompiledWording, entry.wordings, entry.literals))
        self.vllm_range = entry.vllm
        self.unless = tuple(Text(other.log) for other in entry.unless)

    @property
    def spec(self) -> Playbook:
        """The whole playbook."""
        if self._spec is None:
            self._spec = msgspec.json.decode(self.entry.spec, type=Playbook)
        return self._spec


def library_folder() -> Path:
    """The playbooks that come with the console."""
    return Path(__file__).parent / "library"


def playbook_files(folder: Path) -> list[Path]:
    """Every playbook file under `folder`, in the order of their ids."""
    return sorted(folder.rglob("*.yaml"), key=lambda path: path.stem)


def own_folder() -> Path:
    """Where a person's own playbooks lie; the folder need not be there. Raises InputError without a home folder."""
    return find_locations().config / "playbooks"


def library_files() -> list[Path]:
    """The files of the console's own playbooks, then those of the person's own."""
    return [path for folder in (library_folder(), own_folder()) for path in playbook_files(folder)]


def load_library(folders: Sequence[Path] = ()) -> tuple[Loaded, ...]:
    """The console's playbooks, the person's own, and those in `folders`; of one id, the last of them.

    Raises InputError for the first wrong file.
    """
    own = [path for folder in (own_folder(), *folders) for path in playbook_files(folder)]
    found = {one.id: one for one in own_library()}
    found |= {one.id: one for one in load_files(own)} if own else {}
    return tuple(sorted(found.values(), key=lambda one: one.id))


def own_library() -> tuple[Loaded, ...]:
    """The console's own playbooks: the compiled ones, and from YAML those that were changed since."""
    paths, compiled = playbook_files(library_folder()), read_compiled()
    ids = [path.stem for path in paths]
    found = []
    for path in paths:
        entry = compiled.get(path.stem)
        is_fresh = entry is not None and entry.digest == digest_of(path.read_bytes())
        found.append(Loaded(entry, path) if entry is not None and is_fresh else load_file(path, ids))
    return tuple(found)


def load_files(paths: Sequence[Path]) -> tuple[Loaded, ...]:
    """These files, which may name each other. Raises InputError with every problem of the first wrong file."""
    known_ids = [path.stem for path in (*library_files(), *paths)]
    seen: dict[str, Path] = {}
    for path in paths:
        if path.stem in seen and seen[path.stem].resolve() != path.resolve():
            raise InputError(f"the id {path.stem!r} is also that of {seen[path.stem]}", file=str(path), line=1)
        seen[path.stem] = path
    return tuple(load_file(path, known_ids) for path in seen.values())


def load_file(path: Path, known_ids: Sequence[str]) -> Loaded:
    """One file. Raises InputError with every problem in it."""
    spec, lines = decode_file(path, Playbook)
    errors = _errors(spec, path, lines, known_ids)
    if errors:
        first, *rest = errors
        first.more = tuple(rest)
        raise first
    return Loaded(entry_of(spec, path.read_bytes()), path, spec)


def check_file(path: Path) -> None:
    """One file as its author wants it checked: all that loading checks, and that nothing of a draft is left."""
    load_files([path])
    spec, lines = decode_file(path, Playbook)
    errors = unfilled(spec, lines)
    if errors:
        first, *rest = errors
        first.more = tuple(rest)
        raise first


def _errors(spec: Playbook, path: Path, lines: Lines, known_ids: Sequence[str]) -> list[InputError]:
    found = problems(spec, path.stem, known_ids)
    return [lines.error(one.text, one.at, allowed=one.allowed, nearest=one.nearest) for one in found]


def find(library: Sequence[Loaded], name: str) -> Loaded:
    """The playbook of that id. Raises InputError with the nearest id."""
    ids = tuple(one.id for one in library)
    for one in library:
        if one.id == name:
            return one
    raise InputError(f"there is no playbook {name!r}", allowed=ids, nearest=nearest_word(name, ids))


def schema_json() -> str:
    """JSON Schema of a playbook, for editors; `playbooks/schema.json` is this text."""
    schema = msgspec.json.schema(Playbook)
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2).decode() + "\n"
