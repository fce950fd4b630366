"""Follows a log file while others write to it: growth, cuts, rotation, removal. Nothing is ever waited for here."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from engine_probe.errors import InputError
from engine_probe.logs.index_blocks import read_at
from engine_probe.logs.line_ends import has_bare_returns
from engine_probe.logs.opening import open_file
from engine_probe.logs.unpacking import is_packed

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.logs.index import LogIndex

Kind = Literal["cut", "rotated", "gone", "back", "ended"]
WORDS: dict[Kind, str] = {
    "cut": "the file was cut and begins anew here",
    "rotated": "the file was rotated; a new one begins here",
    "gone": "the file was removed; what is written to it is still read",
    "back": "the file is there again",
    "ended": "nothing more comes from here",
}
_REMEMBERED_BYTES = 64


@dataclass(frozen=True)
class Break:
    """Where a log does not simply go on: before `line`."""

    line: int
    kind: Kind
    source: str = ""
    """Its name, where there are several."""
    why: str = ""
    """In place of the kind's own words."""

    @property
    def words(self) -> str:
        words = self.why or WORDS[self.kind]
        return f"{self.source}: {words}" if self.source else words


class Follower(Protocol):
    """Says what happens to one log while it is looked at."""

    @property
    def breaks(self) -> list[Break]: ...

    @property
    def has_begun(self) -> bool:
        """Whether what was there before it was looked at has come."""

    def poll(self) -> list[Break]: ...

    def close(self) -> None: ...


class Watch:
    """What happened to one open file and to its name since the last look."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._is_gone = False
        self._before_end = (0, b"")
        self._is_copied = is_packed(path) or has_bare_returns(path)

    def look(self, position: int) -> Kind | None:
        """Compare the file with what was read of it, up to `position`. After `rotated`: `newer`, and a new watch."""
        if self._is_copied:  # nothing is written to it, and the file that has the name is another
            return None
        size = os.fstat(self._file).st_size
        end, remembered = self._before_end
        was_rewritten = read_at(self._file, end - len(remembered), len(remembered)) != remembered
        if size < position or was_rewritten:
            self._before_end = (0, b"")
            return "cut"
        start = max(0, position - _REMEMBERED_BYTES)
        self._before_end = (position, read_at(self._file, start, position - start))
        return self._look_at_name()

    def _look_at_name(self) -> Kind | None:
        mine = os.fstat(self._file)
        try:
            named = self._path.stat()
        except OSError:
            was_gone, self._is_gone = self._is_gone, True
            return None if was_gone else "gone"
        if (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            return "rotated"
        was_gone, self._is_gone = self._is_gone, False
        return "back" if was_gone else None

    def newer(self) -> int | None:
        """A descriptor of the file that now has the name; None when it cannot be opened (yet)."""
        with suppress(InputError):
            return open_file(self._path)
        return None


class FollowedLog:
    """A log that goes on. Call `poll` a few times a second; it costs some system calls when nothing has happened."""

    def __init__(self, path: Path, log: LogIndex) -> None:
        self.log = log
        self.breaks: list[Break] = []
        self._path = path
        self._watch = Watch(path, log.file)

    @property
    def has_begun(self) -> bool:
        return True

    def close(self) -> None:
        self.log.close()

    def poll(self) -> list[Break]:
        """Look at the file; what is new is indexed by `log.advance` afterwards. Returns the breaks that are new.

        After a cut `log` has no lines and the breaks before are gone with them.
        """
        kind = self._watch.look(self.log.indexed_bytes)
        if kind is None:
            return []
        if kind == "cut":
            self.log.forget()
            self._watch = Watch(self._path, self.log.file)
            self.breaks.clear()
        elif kind == "rotated":
            newer = self._watch.newer() if self.log.is_complete else None
            if newer is None:
                return []  # the old file is read to its end first
            self.log.continue_with(newer)
            self._watch = Watch(self._path, newer)
        happened = Break(self.log.line_count, kind)
        self.breaks.append(happened)
        return [happened]
