"""Reads playbook files: strict shape, then every check. An error names the file and the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from engine_probe.strict_yaml import InputError, decode_file
from playbooks.check import problems
from playbooks.compiled import entry_of
from playbooks.library import Loaded, library_files
from playbooks.schema import Playbook
from playbooks.template import unfilled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine_probe.strict_yaml import Lines


def load_files(paths: Sequence[Path]) -> tuple[Loaded, ...]:
    """These files, which may name each other. Raises InputError with every problem of the first wrong file."""
    loaded, wrong = load_right_ones(paths)
    if wrong:
        raise wrong[0]
    return loaded


def load_right_ones(paths: Sequence[Path]) -> tuple[tuple[Loaded, ...], tuple[InputError, ...]]:
    """Those of these files that are right, and why the others are not. Of two with one id the first is taken."""
    known_ids = [path.stem for path in (*library_files(), *paths)]
    seen: dict[str, Path] = {}
    loaded, wrong = [], []
    for path in paths:
        first = seen.setdefault(path.stem, path)
        one = _load_one(path, known_ids, first)
        if isinstance(one, InputError):
            wrong.append(one)
        else:
            loaded.append(one)
    return tuple({one.id: one for one in loaded}.values()), tuple(wrong)


def _load_one(path: Path, known_ids: Sequence[str], first: Path) -> Loaded | InputError:
    """`first`: the one that has this id."""
    if first.resolve() != path.resolve():
        return InputError(f"the id {path.stem!r} is also that of {first}", file=str(path), line=1)
    try:
        return load_file(path, known_ids)
    except InputError as error:
        return error


def load_file(path: Path, known_ids: Sequence[str]) -> Loaded:
    """One file. Raises InputError with every problem in it."""
    spec, lines = decode_file(path, Playbook)
    _raise_all(_errors(spec, path, lines, known_ids))
    return Loaded(entry_of(spec, path.read_bytes()), path, spec)


def check_file(path: Path) -> None:
    """One file as its author wants it checked: all that loading checks, and that nothing of a draft is left."""
    spec, lines = decode_file(path, Playbook)
    _raise_all(_errors(spec, path, lines, [one.stem for one in (*library_files(), path)]))
    _raise_all(unfilled(spec, lines))


def _raise_all(errors: list[InputError]) -> None:
    if errors:
        first, *rest = errors
        first.more = tuple(rest)
        raise first


def _errors(spec: Playbook, path: Path, lines: Lines, known_ids: Sequence[str]) -> list[InputError]:
    found = problems(spec, path.stem, known_ids)
    return [lines.error(one.text, one.at, allowed=one.allowed, nearest=one.nearest) for one in found]


def schema_json() -> str:
    """JSON Schema of a playbook, for editors; `playbooks/schema.json` is this text."""
    schema = msgspec.json.schema(Playbook)
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2).decode() + "\n"
