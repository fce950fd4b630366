"""A change under verification is noted in its case: what a killed console left unproved is taken back the next time.

note = Note(case.path); note.write(revisions); note.clear()
for words in take_back(state, Path("deployment.yaml")): ...
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from engine_probe.errors import InputError
from engine_probe.revisions import put_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine_probe.revisions import Revision

_NAME = "unverified.json"


class Note:
    """In the folder of a case; None: nothing is kept, and nothing can be taken back later."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / _NAME

    def write(self, revisions: Sequence[Revision]) -> None:
        """Raises OSError."""
        if self._path is None:
            return
        first, last = revisions[0], revisions[-1]
        content = {
            "pid": psutil.Process().pid,
            "since": psutil.Process().create_time(),
            "file": str(first.path.resolve()),
            "kept": [str(one.kept) for one in revisions],
            "digest_before": first.before.digest,
            "digest_now": last.after.digest,
        }
        self._path.write_text(json.dumps(content), encoding="utf-8")

    def clear(self) -> None:
        """The change is undone, or it is verified and stays."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def take_back(state: Path, file: Path) -> tuple[str, ...]:
    """Put `file` back as it was where a console that is gone left a change unproved; what was done, in words."""
    return tuple(_take_back_one(note, file.resolve()) for note in _notes(state, file.resolve()))


def _notes(state: Path, file: Path) -> Iterator[Path]:
    for note in sorted((state / "cases").glob(f"*/{_NAME}")):
        content = _read(note)
        if content.get("file") == str(file) and not _is_alive(content):
            yield note


def _take_back_one(note: Path, file: Path) -> str:
    content, case = _read(note), note.parent.name
    kept = [Path(one) for one in content["kept"]]
    try:
        put_back(file, kept, content["digest_now"], content["digest_before"])
    except InputError as error:
        return f"case {case} was cut off while it verified a change of {file}, and it stays: {error}"
    finally:
        note.unlink(missing_ok=True)
    return f"case {case} was cut off while it verified a change of {file}: the file is as it was before"


def _read(note: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(note.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    return {}


def _is_alive(content: dict[str, Any]) -> bool:
    """The console that verifies still runs: another process may have its number by now."""
    try:
        return bool(abs(psutil.Process(content["pid"]).create_time() - content["since"]) < 1.0)
    except (psutil.Error, KeyError, TypeError, ValueError):
        return False
