"""A change under verification is noted in its case: what a killed console left unproved is taken back the next time.

The note is written before anything is touched: also what was half done is taken back.

note = Note(case.path); note.write(deployment.path, changes); note.clear()
for words in take_back(state, Path("deployment.yaml")): ...
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError, in_words
from engine_probe.outside.file_change import FileChange
from engine_probe.quoting import quoted
from engine_probe.revisions import Revision, put_back
from engine_probe.whole_file import write_whole
from playbooks.case_file import open_kept
from playbooks.outside_changes import of_json
from playbooks.outside_changes import take_back as take_back_outside
from playbooks.owning import is_alive, this_process
from playbooks.writing_lock import take

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playbooks.outside_changes import OutsideChange

_NAME = "unverified.json"
_MOST_BYTES = 4 << 20


class Note:
    """In the folder of a case; None: nothing is kept, and nothing can be taken back later."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / _NAME

    def write(self, file: Path | None, changes: Sequence[Revision | OutsideChange]) -> None:
        """`file`: the deployment's. The note is whole at each moment. Raises OSError."""
        if self._path is None:
            return
        revisions = [one for one in changes if isinstance(one, Revision)]
        content: dict[str, Any] = {
            **this_process(),
            "file": None if file is None else str(file.resolve()),
            "outside": [one.as_json() for one in changes if not isinstance(one, Revision)],
        }
        if revisions:
            content |= {
                "kept": [str(one.kept) for one in revisions],
                "digest_before": revisions[0].before.digest,
                "digests": [one.after.digest for one in revisions],
            }
        _write(self._path, content)

    def clear(self) -> None:
        """The change is undone, or it is verified and stays."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Unproved:
    """A note as it was read. `file` None: the session's deployment had none. `outside` as written, for what is left."""

    owner: Mapping[str, Any]
    file: Path | None
    kept: tuple[Path, ...]
    digest_before: str
    digests: tuple[str, ...]
    outside: tuple[dict[str, Any], ...]
    changes: tuple[OutsideChange, ...]


def take_back(state: Path, file: Path) -> tuple[str, ...]:
    """Put `file`, and what lies outside it, back where a console that is gone left a change unproved.

    What was done, in words. Changes of a session that had no file are taken back too. Raises InputError where another
    session works on `file`.
    """
    return tuple(words for note in sorted((state / "cases").glob(f"*/{_NAME}")) for words in _look(note, state, file))


def _look(note: Path, state: Path, file: Path) -> Iterator[str]:
    try:
        unproved = _read(note)
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        yield _pass_over(note, error)
        return
    if unproved.file in (None, Path(os.path.realpath(file))) and not is_alive(unproved.owner):
        lock = take(state, file)
        try:
            yield from _take_back_one(note, unproved)
        finally:
            lock.release()


def _pass_over(note: Path, error: Exception) -> str:
    """It is said once: then it has another name."""
    aside = note.with_name(f"{_NAME}.unreadable")
    with contextlib.suppress(OSError):
        note.replace(aside)
    why = quoted(f"{type(error).__name__}: {error}", 200)
    return f"case {note.parent.name} was cut off, and its note cannot be read ({why}): see {aside}, nothing was changed"


def _take_back_one(note: Path, unproved: Unproved) -> Iterator[str]:
    case = note.parent.name
    left = []
    for change, entry in reversed(tuple(zip(unproved.changes, unproved.outside, strict=True))):
        words, is_done = _take_back_outside(change, case)
        yield words
        left += [] if is_done else [entry]
    if unproved.kept and unproved.file is not None:
        yield _take_back_file(unproved.file, unproved, case)
    if left:  # the next start tries again
        file = None if unproved.file is None else str(unproved.file)
        _write(note, {**unproved.owner, "file": file, "outside": left[::-1]})
    else:
        note.unlink(missing_ok=True)


def _take_back_file(file: Path, unproved: Unproved, case: str) -> str:
    try:
        put_back(file, unproved.kept, unproved.digests, unproved.digest_before)
    except InputError as error:
        return f"case {case} was cut off while it verified a change of {file}, and it stays: {error}"
    return f"case {case} was cut off while it verified a change of {file}: the file is as it was before"


def _take_back_outside(change: OutsideChange, case: str) -> tuple[str, bool]:
    """What was done, in words, and whether nothing is left to be done."""
    is_file = isinstance(change, FileChange)
    what = f"{change.target}" if isinstance(change, FileChange) else f"{change.name} of {change.engine.label}"
    try:
        take_back_outside(change)
    except (InputError, OSError) as error:
        return f"case {case} was cut off while it changed or verified {what}, and it stays: {in_words(error)}", is_file
    was = "the packages are as they were before"
    if isinstance(change, FileChange):
        was = "the file is as it was before" if os.path.lexists(change.target) else "there is no such file now"
    return f"case {case} was cut off while it changed or verified {what}: {was}", True


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content).encode(), is_sure=True)


def _read(note: Path) -> Unproved:
    """Raises OSError, and ValueError, TypeError, KeyError, IndexError or RecursionError for what is no such note."""
    with open_kept(note) as stream:
        text = stream.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError("it is longer than any note")
    content = json.loads(text)
    if not isinstance(content, dict):
        raise TypeError("an object is wanted")
    file = None if content["file"] is None else Path(_text(content["file"]))
    kept = tuple(Path(one) for one in _texts(content.get("kept", [])))
    if kept and (file is None or any(one.parent != file.parent for one in kept)):
        raise ValueError("what is kept does not lie beside the file")
    outside = content.get("outside", [])
    if not isinstance(outside, list) or not all(isinstance(one, dict) for one in outside):
        raise TypeError("outside: a list of objects is wanted")
    return Unproved(
        {name: content[name] for name in ("pid", "since") if name in content},
        file,
        kept,
        _text(content["digest_before"]) if kept else "",
        _texts(content["digests"]) if kept else (),
        tuple(outside),
        tuple(map(of_json, outside)),
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("a list of texts is wanted")
    return tuple(map(_text, value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise TypeError("a text is wanted")
    return value
