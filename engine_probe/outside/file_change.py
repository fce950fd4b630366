"""One file of a model's folder is replaced by a whole one or moved away, and put back byte for byte, mode and link.

Copy beside, sync, keep the old one as NAME.rN, rename: at each moment the old file or the new one has the name.
What is replaced is the name in the folder: of a link into the hub's cache only the link, never what it leads to.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError
from engine_probe.outside.keys import HUB, REMOVE
from engine_probe.outside.look import trouble_with
from engine_probe.outside.whole_copies import same_content, source_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.outside.work import Work

_CHUNK_BYTES = 8 << 20
_SPARE_BYTES = 16 << 20
"""Room left on the disk beside the copy, for logs and the case."""
_GIB = 2**30
_NOTHING = (0, 0, 0)
"""What is placed where a file is only moved away: no file is that."""


@dataclass(frozen=True)
class FileChange:
    """`kept` None: there was no file. `placed` is known from the moment before the new one gets the name.

    With the source `remove` nothing comes in its place.
    """

    target: Path
    source: str
    temporary: Path
    kept: Path | None
    placed: tuple[int, int, int] | None = None
    """Inode, size and time of change in nanoseconds of the new file: by these it is known again."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "file",
            "target": str(self.target),
            "source": self.source,
            "temporary": str(self.temporary),
            "kept": None if self.kept is None else str(self.kept),
            "placed": None if self.placed is None else list(self.placed),
        }


def change_of_json(content: dict[str, Any]) -> FileChange:
    """Raises KeyError and TypeError where it is none."""
    kept, placed = content["kept"], content["placed"]
    return FileChange(
        Path(content["target"]),
        str(content["source"]),
        Path(content["temporary"]),
        None if kept is None else Path(kept),
        None if placed is None else (int(placed[0]), int(placed[1]), int(placed[2])),
    )


def planned(folder: Path, name: str, source: str) -> FileChange:
    """What will be done; nothing is done yet. Raises InputError where the source cannot be used."""
    target = folder / name
    if target.is_dir():
        raise InputError("is a folder: only files are replaced", file=str(target))
    if not target.parent.is_dir():
        raise InputError("is not there: the file has no place to go to", file=str(target.parent))
    if source == REMOVE and not os.path.lexists(target):
        raise InputError("is not there: there is nothing to move away", file=str(target))
    if source != REMOVE and not source.startswith(HUB):
        _check_source(target, name, source_file(source, folder, name))
    temporary = target.with_name(f".{target.name}.vllm-console")
    return FileChange(target, source, temporary, next_kept(target) if os.path.lexists(target) else None)


def next_kept(target: Path) -> Path:
    """`NAME.r1`, or the next number: no loader takes a file of such a name. Raises OSError."""
    pattern = re.compile(re.escape(target.name) + r"\.r(\d+)")
    taken = [int(found[1]) for one in target.parent.iterdir() if (found := pattern.fullmatch(one.name))]
    return target.with_name(f"{target.name}.r{max(taken, default=0) + 1}")


def _check_source(target: Path, name: str, source: Path) -> None:
    if not source.exists():
        raise InputError("is not there", file=str(source))
    trouble = trouble_with(source, Path(name).name)
    if trouble is not None:
        raise InputError(f"{trouble}; a whole file is wanted", file=str(source))
    if os.path.lexists(target) and target.exists() and target.samefile(source):
        raise InputError("is the file itself: another copy of it is wanted", file=str(source))
    need_bytes = source.stat().st_size + _SPARE_BYTES
    free_bytes = shutil.disk_usage(target.parent).free
    if free_bytes < need_bytes:
        lack = f"{need_bytes / _GIB:,.2f} GiB are needed and {free_bytes / _GIB:,.2f} GiB are free"
        raise InputError(f"there is not enough room for a copy of {source}: {lack}", file=str(target.parent))


def place(
    change: FileChange,
    note: Callable[[FileChange], None],
    work: Work,
    fetch: Callable[[Path], Path] | None = None,
) -> FileChange:
    """Do it. `note` is called with what is known before each step that must be taken back. Raises InputError, OSError.

    `fetch` brings the file from where it is not to be copied from into the folder that it is given.
    """
    if change.source == REMOVE:
        return _move_away(change, note)
    note(change)
    try:
        _bring(change, work, fetch)
        trouble = trouble_with(change.temporary, change.target.name)
        if trouble is not None:
            raise InputError(f"{trouble}: it was not put in place", file=f"{change.target.name} of {change.source}")
        if same_content(change.target, change.temporary):
            raise InputError(f"holds the same as that of {change.source}: nothing to change", file=str(change.target))
        _like_the_old(change)
        change = replace(change, placed=_identity(change.temporary))
        note(change)
        _give_name(change)
    except BaseException:
        with contextlib.suppress(InputError, OSError):
            put_back(change)
        raise
    return change


def _move_away(change: FileChange, note: Callable[[FileChange], None]) -> FileChange:
    kept = change.kept
    assert kept is not None
    change = replace(change, placed=_NOTHING)
    note(change)
    change.target.rename(kept)
    _sync(change.target.parent)
    return change


def _bring(change: FileChange, work: Work, fetch: Callable[[Path], Path] | None) -> None:
    if fetch is None:
        folder = change.target.parent
        _copy(source_file(change.source, folder, change.target.name), change.temporary, work)
        return
    brought = change.temporary.with_name(f"{change.temporary.name}.d")
    shutil.rmtree(brought, ignore_errors=True)
    brought.mkdir()
    try:
        fetch(brought).replace(change.temporary)
        with change.temporary.open("rb") as stream:
            os.fsync(stream.fileno())
    finally:
        shutil.rmtree(brought, ignore_errors=True)


def _copy(source: Path, target: Path, work: Work) -> None:
    total = source.stat().st_size
    done = 0
    with source.open("rb") as reading, target.open("wb") as writing:
        while True:
            work.go_on(f"copying {source.name}: {done / _GIB:,.2f} of {total / _GIB:,.2f} GiB")
            block = reading.read(_CHUNK_BYTES)
            if not block:
                break
            writing.write(block)
            done += len(block)
        writing.flush()
        os.fsync(writing.fileno())


def _like_the_old(change: FileChange) -> None:
    """The mode of the file whose name it gets."""
    if change.target.is_file():
        change.temporary.chmod(stat.S_IMODE(change.target.stat().st_mode) | stat.S_IRUSR)


def _give_name(change: FileChange) -> None:
    if change.kept is not None:
        try:
            os.link(change.target, change.kept, follow_symlinks=False)
        except OSError:  # a file system without hard links
            change.target.rename(change.kept)
    elif os.path.lexists(change.target):
        raise InputError("has come there meanwhile: it was left as it is", file=str(change.target))
    change.temporary.replace(change.target)
    _sync(change.target.parent)


def put_back(change: FileChange) -> None:
    """Undo it, however far it came; doing so twice changes nothing. Raises InputError, and then nothing was changed."""
    change.temporary.unlink(missing_ok=True)
    shutil.rmtree(change.temporary.with_name(f"{change.temporary.name}.d"), ignore_errors=True)
    if change.placed is None:
        return  # it was not named yet
    is_there = os.path.lexists(change.target)
    is_ours = is_there and _identity(change.target) == change.placed
    if change.kept is None:
        if is_ours:
            change.target.unlink()
    elif os.path.lexists(change.kept):
        _move_back(change.target, change.kept, may_replace=is_ours or not is_there)
    elif is_ours:
        raise InputError(f"{change.kept} is gone: the file as it was cannot be put back", file=str(change.target))
    _sync(change.target.parent)


def _move_back(target: Path, kept: Path, *, may_replace: bool) -> None:
    if os.path.lexists(target) and _same_inode(target, kept):
        kept.unlink()  # of two names of one file a rename would leave both
        return
    if not may_replace:
        raise InputError(f"has changed since it was put there; as it was before: {kept}", file=str(target))
    kept.replace(target)


def _same_inode(one: Path, other: Path) -> bool:
    left, right = one.lstat(), other.lstat()
    return (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
