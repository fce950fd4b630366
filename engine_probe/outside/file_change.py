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
import uuid
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
    was: tuple[int, int, int] | None = None
    """The same of the file that is kept: what has the name `kept` and is another one is not ours to move."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "file",
            "target": str(self.target),
            "source": self.source,
            "temporary": str(self.temporary),
            "kept": None if self.kept is None else str(self.kept),
            "placed": None if self.placed is None else list(self.placed),
            "was": None if self.was is None else list(self.was),
        }


def change_of_json(content: dict[str, Any]) -> FileChange:
    """Raises KeyError, TypeError and ValueError where it is none."""
    target, temporary = Path(_text(content["target"])), Path(_text(content["temporary"]))
    kept = None if content["kept"] is None else Path(_text(content["kept"]))
    if not target.is_absolute() or ".." in target.parts:
        raise ValueError(f"{target} is no file in full")
    if temporary.parent != target.parent or not _temporary_name(target).fullmatch(temporary.name):
        raise ValueError(f"{temporary} is no temporary file of {target}")
    if kept is not None and (kept.parent != target.parent or not _kept_name(target).fullmatch(kept.name)):
        raise ValueError(f"{kept} is not where {target} is kept")
    numbers = [_numbers(content[name]) for name in ("placed", "was")]
    return FileChange(target, _text(content["source"]), temporary, kept, *numbers)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise TypeError("a text is wanted")
    return value


def _numbers(value: object) -> tuple[int, int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or any(type(one) is not int for one in value):
        raise TypeError("three numbers are wanted")
    inode, size, changed = value
    return inode, size, changed


def _temporary_name(target: Path) -> re.Pattern[str]:
    return re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{12}}\.vllm-console")


def _kept_name(target: Path) -> re.Pattern[str]:
    return re.compile(re.escape(target.name) + r"\.r(\d+)")


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
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.vllm-console")
    return FileChange(target, source, temporary, next_kept(target) if os.path.lexists(target) else None)


def next_kept(target: Path) -> Path:
    """`NAME.r1`, or the next number: no loader takes a file of such a name. Raises OSError."""
    pattern = _kept_name(target)
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
        change = replace(change, placed=_identity(change.temporary), was=_identity_of_old(change))
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
    change = replace(change, placed=_NOTHING, was=_identity(change.target))
    note(change)
    _keep(change.target, kept)
    change.target.unlink(missing_ok=True)
    _sync(change.target.parent)
    return change


def _bring(change: FileChange, work: Work, fetch: Callable[[Path], Path] | None) -> None:
    if fetch is None:
        folder = change.target.parent
        _copy(source_file(change.source, folder, change.target.name), change.temporary, work)
        return
    brought = change.temporary.with_name(f"{change.temporary.name}.d")
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
    with source.open("rb") as reading, target.open("xb") as writing:
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
        _keep(change.target, change.kept)
    elif os.path.lexists(change.target):
        raise InputError("has come there meanwhile: it was left as it is", file=str(change.target))
    change.temporary.replace(change.target)
    _sync(change.target.parent)


def _keep(target: Path, kept: Path) -> None:
    """Give the old file its second name, never that of another file. Raises InputError and OSError."""
    try:
        os.link(target, kept, follow_symlinks=False)
    except OSError as error:
        if os.path.lexists(kept):
            raise InputError("has come there meanwhile: nothing was changed", file=str(kept)) from error
        target.rename(kept)  # a file system without hard links


def _identity_of_old(change: FileChange) -> tuple[int, int, int] | None:
    return None if change.kept is None else _identity(change.target)


def differs(change: FileChange) -> str | None:
    """Why the file is not the one that was placed, or the old one is gone; None where all is so. Raises nothing."""
    try:
        now = _identity(change.target) if os.path.lexists(change.target) else _NOTHING
        if now != change.placed:
            return f"{change.target} was changed by somebody else meanwhile"
        if change.kept is not None and _identity(change.kept) != change.was:
            return f"{change.kept}, which is {change.target} as it was, was changed"
    except OSError as error:
        return f"{change.target} as it was cannot be found: {error.filename}: {error.strerror or error}"
    return None


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
        if change.was is not None and _identity(change.kept) != change.was:
            if is_there and _identity(change.target) == change.was:
                return  # it never came so far that the old file was kept
            raise InputError("is not the file that was kept; it stays where it is", file=str(change.kept))
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
