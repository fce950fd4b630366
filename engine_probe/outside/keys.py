"""What a fix may name outside the deployment file, and the values that it takes.

files.model.safetensors: /models/copy           engine.packages.numpy: 2.1.3
files.config.json: hub:acme/chat@main           engine.packages.torchvision: remove
files.model.safetensors.index.json: remove      (it is moved away)
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from engine_probe.errors import InputError
from engine_probe.quoting import quoted

FILES, PACKAGES = "files.", "engine.packages."
REMOVE = "remove"
HUB = "hub:"
_BETWEEN = ", "
_LONGEST = 200
# PEP 508, names of distributions.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
# PEP 440: a version, and clauses such as `>=2.1`, `<3`.
_VERSION = (
    r"v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?"
)
_CLAUSE = rf"(?:~=|==|!=|<=|>=|<|>)\s*{_VERSION}(?:\.\*)?"
_REPO = r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?"
# Compiled when a key or value is read (re keeps them): most diagnoses read none.


class FilesKey(NamedTuple):
    """Files of the model's folder, by their names relative to it."""

    names: tuple[str, ...]


class PackageKey(NamedTuple):
    """One package of the engine."""

    name: str


class HubPlace(NamedTuple):
    """A repository of the hub; `revision` None: its main branch."""

    repo: str
    revision: str | None


def is_outside(key: str) -> bool:
    """Whether a fix that sets `key` changes something else than the deployment file, and the console may do it."""
    return key.startswith((FILES, PACKAGES))


def outside_key(key: str) -> FilesKey | PackageKey:
    """Reads a key of which `is_outside` is true. Raises InputError."""
    if key.startswith(PACKAGES):
        name = key.removeprefix(PACKAGES)
        if not re.fullmatch(_NAME, name) or len(name) > _LONGEST:
            raise InputError(f"{quoted(name, 80)} is no name of a package: letters, digits, dots, dashes (PEP 508)")
        return PackageKey(name)
    names = tuple(name.strip() for name in key.removeprefix(FILES).split(_BETWEEN))
    for name in names:
        if not _is_inside(name):
            raise InputError(f"{quoted(name, 80)} is no file of a model's folder: a name relative to it is wanted")
    return FilesKey(names)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    is_plain = bool(name) and len(name) <= _LONGEST and all(letter.isprintable() for letter in name)
    return is_plain and not path.is_absolute() and name == str(path) and not {"..", ".", "?"} & set(path.parts)


def checked_outside(key: str, value: str) -> str:
    """`value` as `key` takes it. Raises InputError with what is wanted and an example."""
    word = value.strip()
    if isinstance(outside_key(key), PackageKey):
        is_fine = word == REMOVE or re.fullmatch(_VERSION, word, re.IGNORECASE) or is_range(word)
        if not is_fine:
            raise InputError(f"{quoted(word, 80)} cannot be used for {key}: {WANTED_VERSION}")
        return word
    if not word or not word.isprintable():
        raise InputError(f"{quoted(word, 80)} cannot be used for {key}: {WANTED_SOURCE}")
    if word.startswith(HUB):
        hub_place(word)
    return word


WANTED_VERSION = f"a version such as 2.1.3, a range such as >=2.1,<3, or {REMOVE}"
WANTED_SOURCE = f"the folder or file that holds a whole one, hub:ORG/NAME@REVISION, or {REMOVE}"


def is_range(text: str) -> bool:
    """`>=2.1,<3`."""
    return all(re.fullmatch(_CLAUSE, clause.strip(), re.IGNORECASE) for clause in text.split(","))


def hub_place(text: str) -> HubPlace:
    """`hub:ORG/NAME[@REV]`. Raises InputError."""
    found = re.fullmatch(_REPO, text.removeprefix(HUB))
    parts = [] if found is None else [*found["repo"].split("/"), *(found["revision"] or "").split("/")]
    if found is None or {".", ".."} & set(parts):
        raise InputError(f"{quoted(text, 80)} names no repository: hub:ORG/NAME or hub:ORG/NAME@REVISION is wanted")
    return HubPlace(found["repo"], found["revision"])
