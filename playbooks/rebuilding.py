"""A past case offline: every session of it again, by the same pure step that made them, from what the case recorded.

recording = read_recording(folder, context)
for moment in moments(recording): ...   # what is worth stopping at, in order
recording.trouble                       # why it goes no further, None where it is whole
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from playbooks.case import EVENTS
from playbooks.case_file import read_kept
from playbooks.compiled import entry_of
from playbooks.context import with_progress
from playbooks.diagnose import step
from playbooks.happenings import At, Begun, Kept, Left, Lines, read_line
from playbooks.library import Loaded
from playbooks.plain import UnreadableError
from playbooks.schema import Playbook

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.events import Event
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.effects import Done, Effect
    from playbooks.happenings import Line
    from playbooks.session import Session

_CUT = "the recording ends in the middle of a line: the console was killed, or the disk was full"
_LOST = "a load printed more than a case keeps: some of its numbers may not be in this recording"


@dataclass(frozen=True)
class Taken:
    """`session` is what became of `before` by `happening`; None: it began, or went on, here."""

    before: Session
    happening: Event | Decision | Done | None
    session: Session
    time: float


@dataclass(frozen=True)
class Recording:
    """`taken` as far as it goes; `trouble` says why not further."""

    folder: Path
    taken: tuple[Taken, ...]
    begun: Begun | None
    """Where it last began or went on; None in a case of an older release."""
    trouble: str | None = None

    @property
    def session(self) -> Session | None:
        """The last one."""
        return self.taken[-1].session if self.taken else None


def read_recording(folder: Path, context: Context) -> Recording:
    """All that the case in `folder` tells. What cannot be read ends it, and is said."""
    from playbooks.rebuilding_older import older_recording  # noqa: PLC0415 -- old cases only, and it needs this file

    try:
        content = read_kept(folder / EVENTS)
    except OSError as error:
        return Recording(folder, (), None, f"it kept no events: {error.strerror or error}")
    lines = content.split(b"\n")
    if b'"event":"begun"' not in lines[0][:40]:
        return older_recording(folder, lines, context)
    rebuilding = Rebuilding(folder, context)
    trouble = rebuilding.take_all(lines)
    return Recording(folder, tuple(rebuilding.taken), rebuilding.begun, trouble)


class Rebuilding:
    """Takes the lines of a recording in order."""

    def __init__(self, folder: Path, context: Context) -> None:
        self.taken: list[Taken] = []
        self.begun: Begun | None = None
        self.session: Session | None = None
        self.wanted: tuple[Effect, ...] = ()
        """What the last step wanted done."""
        self._folder = folder
        self._context = context
        self._time = 0.0

    def take_all(self, lines: list[bytes]) -> str | None:
        """All of them, the last one without its end; why it goes no further. A cut line before a resumption is none."""
        trouble = None
        for number, line in enumerate(lines, 1):
            begun = self.begun
            why = self.take(line) if line else None
            if self.begun is not begun:
                trouble = None
            if why is not None and line.endswith(b"}"):
                return f"{EVENTS}:{number}: {why}"
            trouble = _CUT if why is not None else trouble
        return trouble

    def take(self, line: bytes) -> str | None:
        """Why the line could not be taken; None where it could."""
        try:
            one = read_line(line.decode("utf-8", "replace"), self._playbook)
        except UnreadableError as error:
            return str(error)
        return self._take(one)

    def _take(self, one: Line) -> str | None:
        if isinstance(one, Begun):
            self._begin(one)
        elif isinstance(one, Kept):
            return self._keep(one)
        elif isinstance(one, Left):
            return None
        elif self.session is None:
            return "it does not say from where it began"
        elif isinstance(one, Lines):
            self._count(self.session, one)
        else:
            self._time = one.time
            return self.feed(one.one if isinstance(one, At) else one)
        return None

    def _begin(self, one: Begun) -> None:
        self.begun, self._time = one, one.time
        self.begin_at(one.session)

    def begin_at(self, session: Session) -> None:
        """It begins, or goes on, with `session`."""
        before = self.session
        self.session = replace(session, case=self._folder.name, case_folder=str(self._folder))
        self.taken.append(Taken(before or self.session, None, self.session, self._time))

    def _count(self, session: Session, one: Lines) -> None:
        aside = session.progress.aside
        if one.model is not None and one.model in aside and one.model != session.progress.loading:
            seen = replace(aside[one.model], lines=aside[one.model].lines + one.count)
            session = with_progress(session, aside={**aside, one.model: seen})
        else:
            session = with_progress(session, lines=session.progress.lines + one.count)
        is_new = one.are_lost and _LOST not in session.notes
        self.session = replace(session, notes=(*session.notes, _LOST)) if is_new else session

    def feed(self, happening: Event | Decision | Done) -> str | None:
        """One step of the state machine."""
        assert self.session is not None
        before = self.session
        try:
            self.session, self.wanted = step(before, happening, self._context)
        except Exception as error:  # of another release's case anything may be missing: it is said
            return f"this release cannot follow it: {type(error).__name__}: {error}"
        self.taken.append(Taken(before, happening, self.session, self._time))
        return None

    def _keep(self, one: Kept) -> str | None:
        """The playbook as it was then, where this release can still read it."""
        try:
            spec = msgspec.convert(one.spec, Playbook)
        except msgspec.ValidationError as error:
            known = self._playbook(one.id)
            return None if known is not None else f"its playbook {one.id} cannot be read: {error}"
        path = self._folder / f"{one.id}.yaml"
        kept = Loaded(entry_of(spec, b""), path, spec)
        others = (other for other in self._context.library if other.id != one.id)
        self._context = replace(self._context, library=(*others, kept))
        return None

    def _playbook(self, name: str) -> Loaded | None:
        return next((one for one in self._context.library if one.id == name), None)
