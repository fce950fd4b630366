"""The playbooks that there are: the console's own, ready to match within milliseconds, and a person's.

Only files that were changed since they were compiled are read as YAML, which is slow (load.py).
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from engine_probe.errors import InputError, nearest_word
from engine_probe.literals import have_all
from engine_probe.locations import find_locations
from playbooks.compiled import Entry, digest_of, read_compiled
from playbooks.patterns import CompiledWording, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playbooks.schema import Playbook


class Loaded:
    """A checked playbook. What tells whether it may match is there at once; the rest is decoded when it is wanted."""

    def __init__(self, entry: Entry, path: Path, spec: Playbook | bytes) -> None:
        """`spec`: the playbook, or its JSON."""
        self.id = entry.id
        self.path = path
        self.entry = entry
        self._spec = spec
        self.vllm_range = entry.vllm
        self.is_general = entry.general

    @property
    def spec(self) -> Playbook:
        """The whole playbook."""
        if isinstance(self._spec, bytes):
            from playbooks.schema import Playbook  # noqa: PLC0415 - most logs want few playbooks, a healthy one none

            self._spec = msgspec.json.decode(self._spec, type=Playbook)
        return self._spec

    @cached_property
    def wordings(self) -> tuple[CompiledWording, ...]:
        needs = zip(self.spec.symptoms.any, self.entry.needs, strict=True)
        return tuple(CompiledWording(wording, one.literals, one.frames) for wording, one in needs)

    @cached_property
    def unless(self) -> tuple[Text, ...]:
        return tuple(map(Text, (other.log for other in self.spec.symptoms.unless), self.entry.unless_literals))

    def may_match(self, complaints: str, everything: str) -> bool:
        """False when no wording can match texts whose plain forms (engine_probe/literals.py) these are."""
        return any(have_all(one.literals, complaints if one.is_loud else everything) for one in self.entry.needs)


def library_folder() -> Path:
    """The playbooks that come with the console."""
    return Path(__file__).parent / "library"


def playbook_files(folder: Path) -> list[Path]:
    """Every playbook file under `folder`, in the order of their ids."""
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names if name.endswith(".yaml")]
    return sorted(found, key=lambda path: path.stem)


def own_folder() -> Path:
    """Where a person's own playbooks lie; the folder need not be there. Raises InputError without a home folder."""
    return find_locations().config / "playbooks"


def library_files() -> list[Path]:
    """The files of the console's own playbooks, then those of the person's own."""
    return [path for folder in (library_folder(), own_folder()) for path in playbook_files(folder)]


class ReadLibrary(NamedTuple):
    """`left_out`: why a person's own playbooks are not among them, one error a file."""

    playbooks: tuple[Loaded, ...]
    left_out: tuple[InputError, ...] = ()

    @property
    def left_out_words(self) -> tuple[str, ...]:
        """One line a file."""
        told = [str(error).partition("\n")[0] for error in self.left_out]
        return tuple(f"left out: {one} (vllm-console playbooks check tells all)" for one in told)


def load_library(folders: Sequence[Path] = ()) -> tuple[Loaded, ...]:
    """What `read_library` reads, where what is left out is said by somebody else."""
    return read_library(folders).playbooks


def read_library(folders: Sequence[Path] = ()) -> ReadLibrary:
    """The console's playbooks, the person's own, and those in `folders`; of one id, the last of them.

    One of the person's own that is wrong is left out: the others are no less true for it. Raises InputError for the
    first wrong file in `folders`, which somebody has named just now.
    """
    own = playbook_files(own_folder())
    named = [path for folder in folders for path in playbook_files(folder)]
    found = {one.id: one for one in own_library()}
    read, left_out = _read_own(own) if own else ((), ())
    found |= {one.id: one for one in (*read, *(_read_all(named) if named else ()))}
    return ReadLibrary(tuple(sorted(found.values(), key=lambda one: one.id)), left_out)


def own_library() -> tuple[Loaded, ...]:
    """The console's own playbooks: the compiled ones, and from YAML those that were changed since."""
    paths, compiled = playbook_files(library_folder()), read_compiled()
    ids = [path.stem for path in paths]
    found = []
    for path in paths:
        known = compiled.get(path.stem)
        if known is not None and known.entry.digest == digest_of(_content(path)):
            found.append(Loaded(known.entry, path, known.spec))
        else:
            found.append(_read(path, ids))
    return tuple(found)


def _content(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - two hundred files at every start
        return file.read()


def find(library: Sequence[Loaded], name: str) -> Loaded:
    """The playbook of that id. Raises InputError with the nearest id."""
    ids = tuple(one.id for one in library)
    for one in library:
        if one.id == name:
            return one
    raise InputError(f"there is no playbook {name!r}", allowed=ids, nearest=nearest_word(name, ids))


def _read(path: Path, known_ids: Sequence[str]) -> Loaded:
    from playbooks.load import load_file  # noqa: PLC0415 - reading YAML is slow to import and seldom needed

    return load_file(path, known_ids)


def _read_all(paths: Sequence[Path]) -> tuple[Loaded, ...]:
    from playbooks.load import load_files  # noqa: PLC0415 - as above

    return load_files(paths)


def _read_own(paths: Sequence[Path]) -> tuple[tuple[Loaded, ...], tuple[InputError, ...]]:
    from playbooks.load import load_right_ones  # noqa: PLC0415 - as above

    return load_right_ones(paths)
