"""Where a whole copy of a file of a model's folder is: given by a person, found on disk, or on the hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.model_files.headers import NoHeaderError, read_header
from engine_probe.outside.keys import HUB
from engine_probe.outside.look import trouble_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SNAPSHOT = re.compile(r"models--(?P<org>[^/]+?)--(?P<name>[^/]+)/snapshots/(?P<revision>[^/]+)$")
_MOST_BESIDE = 100
_MOST_COMPARED = 3
_LEAST_LEFT_BYTES = 1024
_COMPARED_WHOLE_BYTES = 256 << 20
_BLOCK_BYTES = 1 << 20
_BLOCKS = 64
"""Of files too large to compare as a whole: so many blocks, from the first to the last."""


class Copy(NamedTuple):
    """`source` as a fix takes it; None: none is known, and `why_not` completes "unknown, because …"."""

    source: str | None
    why_not: str = ""


def whole_copy(folder: Path, name: str, sources: Sequence[str] = (), *, look_around: bool = True) -> Copy:
    """The first that is whole and holds something else: `sources` as given, then what is found here, then the hub.

    `look_around`: also folders beside that are no snapshots; their files are read to know whose they are.
    """
    refused: list[str] = []
    found = (*other_snapshots(folder), *(_beside(folder, name) if look_around else ()))
    for source in (*sources, *map(str, found)):
        if source.startswith(HUB):
            return Copy(source)
        why_not = _why_not(folder / name, source_file(source, folder, name), name)
        if why_not is None:
            return Copy(source)
        refused.append(why_not)
    hub = hub_source(folder)
    if hub is not None:
        return Copy(hub)
    known = f" ({'; '.join(refused[:3])})" if refused else ""
    return Copy(None, f"no whole copy of {name} is known{known}: give the folder that holds one, --files-from DIR")


def not_used(folder: Path, name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Of the sources that a person gave: those of no use for this file, up to the first that is, and why."""
    said: list[str] = []
    for source in given:
        why_not = None if source.startswith(HUB) else _why_not(folder / name, source_file(source, folder, name), name)
        if why_not is None:
            break
        said.append(f"--files-from {source} was not used: {why_not}")
    return tuple(said)


def source_file(source: str, folder: Path, name: str) -> Path:
    """The file that `source`, a folder or a file of this host, means for `name` of `folder`."""
    place = Path(source).expanduser()
    if not place.is_dir():
        return place
    of_this_model = place / folder.name / name
    return of_this_model if not (place / name).is_file() and of_this_model.is_file() else place / name


def hub_source(folder: Path) -> str | None:
    """`hub:ORG/NAME@REVISION` of a snapshot in the hub's cache."""
    found = _SNAPSHOT.search(folder.absolute().as_posix())
    return None if found is None else f"{HUB}{found['org']}/{found['name']}@{found['revision']}"


def _why_not(target: Path, source: Path, name: str) -> str | None:
    if Path(name).name != source.name and source.is_file():
        return f"{source} is another file"
    if not source.is_file():
        return f"{source} is no regular file" if source.exists() else f"{source} is not there"
    trouble = trouble_with(source, name)
    if trouble is not None:
        return f"{source} {trouble}"
    return f"{source} holds the same" if same_content(target, source) else None


def same_content(one: Path, other: Path) -> bool:
    """Of very large files a sample is compared. False where one of them is not there or cannot be read."""
    try:
        size = one.stat().st_size
        if size != other.stat().st_size:
            return False
        return one.samefile(other) or _same_bytes(one, other, size)
    except OSError:
        return False


def _same_bytes(one: Path, other: Path, size: int) -> bool:
    """Of the first `size` bytes of both."""
    step = _BLOCK_BYTES if size <= _COMPARED_WHOLE_BYTES else max(_BLOCK_BYTES, (size - _BLOCK_BYTES) // _BLOCKS)
    with one.open("rb") as left, other.open("rb") as right:
        for start in (*range(0, size, step), max(0, size - _BLOCK_BYTES)):
            left.seek(start)
            right.seek(start)
            count = min(_BLOCK_BYTES, size - start)
            if left.read(count) != right.read(count):
                return False
    return True


def other_snapshots(folder: Path) -> tuple[Path, ...]:
    """Of the same repository in the hub's cache."""
    return tuple(_folders_beside(folder)) if hub_source(folder) is not None else ()


def _beside(folder: Path, name: str) -> Iterator[Path]:
    """Folders beside that hold the same model."""
    if hub_source(folder) is None:
        yield from (
            one for one in _folders_beside(folder) if (one / name).is_file() and _is_same_model(folder, one, name)
        )


def _folders_beside(folder: Path) -> list[Path]:
    try:
        found = sorted(one for one in folder.absolute().parent.iterdir() if one.is_dir() and one.name != folder.name)
    except OSError:
        return []
    return found[:_MOST_BESIDE]


def _is_same_model(folder: Path, other: Path, name: str) -> bool:
    """By the numbers themselves: models tuned from one base are alike in all but these.

    Other weight files are the same, or what is left of the damaged one is how the other one begins.
    """
    if _begins_like(folder / name, other / name):
        return True
    weights = [one for one in sorted(folder.glob("*.safetensors")) if one.name != name and trouble_with(one) is None]
    return bool(weights) and all(same_content(one, other / one.name) for one in weights[:_MOST_COMPARED])


def _begins_like(cut: Path, whole: Path) -> bool:
    """At least some of the tensors' bytes are there to be compared."""
    try:
        header = read_header(cut)
    except (NoHeaderError, OSError):
        return False
    size = header.file_bytes
    left_bytes = size - header.data_offset
    if not header.missing_bytes or left_bytes < _LEAST_LEFT_BYTES or whole.stat().st_size <= size:
        return False
    return _same_bytes(cut, whole, size)
