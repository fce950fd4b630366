"""A change under verification is noted in its case: what a killed console left unproved is taken back the next time.

The note is written before anything is touched: also what was half done is taken back.

note = Note(case.path); note.write(deployment.path, changes); note.clear()
for words in take_back(state, Path("deployment.yaml")): ...
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError
from engine_probe.outside.file_change import FileChange
from engine_probe.revisions import Revision, put_back
from playbooks.outside_changes import of_json
from playbooks.outside_changes import take_back as take_back_outside
from playbooks.owning import is_alive, this_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playbooks.outside_changes import OutsideChange

_NAME = "unverified.json"


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


def take_back(state: Path, file: Path) -> tuple[str, ...]:
    """Put `file`, and what lies outside it, back where a console that is gone left a change unproved.

    What was done, in words. Changes of a session that had no file are taken back too.
    """
    return tuple(words for note in _notes(state, file.resolve()) for words in _take_back_one(note))


def _notes(state: Path, file: Path) -> Iterator[Path]:
    for note in sorted((state / "cases").glob(f"*/{_NAME}")):
        content = _read(note)
        if content.get("file", "") in (None, str(file)) and not is_alive(content):
            yield note


def _take_back_one(note: Path) -> Iterator[str]:
    content, case = _read(note), note.parent.name
    left = []
    for entry in reversed(content.get("outside", [])):
        words, is_done = _take_back_outside(entry, case)
        yield words
        left += [] if is_done else [entry]
    if content.get("kept"):
        yield _take_back_file(content, case)
    if left:
        _write(note, {**content, "kept": [], "outside": left[::-1]})  # the next start tries again
    else:
        note.unlink(missing_ok=True)


def _take_back_file(content: dict[str, Any], case: str) -> str:
    file = Path(content["file"])
    try:
        put_back(file, [Path(one) for one in content["kept"]], _digests(content), content["digest_before"])
    except InputError as error:
        return f"case {case} was cut off while it verified a change of {file}, and it stays: {error}"
    return f"case {case} was cut off while it verified a change of {file}: the file is as it was before"


def _digests(content: dict[str, Any]) -> list[str]:
    """What the file may be by now; an older release noted the last one only."""
    return [str(one) for one in content.get("digests", [content.get("digest_now")])]


def _take_back_outside(entry: dict[str, Any], case: str) -> tuple[str, bool]:
    """What was done, in words, and whether nothing is left to be done."""
    try:
        change = of_json(entry)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        return f"case {case} was cut off, and its note cannot be read: {error}", True
    is_file = isinstance(change, FileChange)
    what = f"{change.target}" if isinstance(change, FileChange) else f"{change.name} of {change.engine.label}"
    try:
        take_back_outside(change)
    except (InputError, OSError) as error:
        return f"case {case} was cut off while it verified a change of {what}, and it stays: {error}", is_file
    was = "the file is as it was before" if is_file else "the packages are as they were before"
    return f"case {case} was cut off while it changed or verified {what}: {was}", True


def _write(path: Path, content: dict[str, Any]) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(content))
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)


def _read(note: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(note.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    return {}
