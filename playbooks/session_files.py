"""What a session changes: revisions, files, packages; each noted while it is unproved, each undone. And the report."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.deployment import change
from engine_probe.errors import InputError, in_words
from engine_probe.outside import file_change
from engine_probe.outside.file_change import FileChange
from engine_probe.outside.keys import is_outside
from engine_probe.outside.work import StoppedError, Work
from engine_probe.revisions import Revision, revision_differs, undo_revision, write_revision
from playbooks.effects import (
    EffectFailed,
    ReportWritten,
    RevisionUndone,
    RevisionWritten,
    UndoRevision,
    WriteReport,
    WriteRevision,
)
from playbooks.outside_changes import OutsideChange, make, take_back
from playbooks.patterns import to_value
from playbooks.unverified import Note
from playbooks.writing_lock import take

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.engine import Engine
    from engine_probe.launch import Deployment
    from playbooks.case import CaseFolder
    from playbooks.effects import Done, Effect
    from playbooks.session import Session
    from playbooks.writing_lock import WritingLock

_NOT_MADE = (
    "the change is not made, because a console that is killed would leave it unproved and nobody would know: "
    "make room there, or give another place by XDG_STATE_HOME"
)


@dataclass
class SessionFiles:
    """`case` None: nothing is kept. `engine` None: none of its packages can be changed."""

    case: CaseFolder | None
    engine: Engine | None = None
    changes: list[Revision | OutsideChange] = field(default_factory=list)
    """Written and not undone, in order."""
    is_noted: bool = False
    unnoted_changes: bool = True
    """As the session has it."""
    locks: dict[Path, WritingLock] = field(default_factory=dict)
    """Of the models' folders that were changed: until the session is over."""
    work: Work = field(default_factory=Work)
    """What takes long, now or last: to stop it, and to read what it does."""

    def takes_long(self, effect: Effect) -> bool:
        """It is to be done in a thread: files may be large, and pip takes its time."""
        if isinstance(effect, WriteRevision):
            return is_outside(effect.key)
        return isinstance(effect, UndoRevision) and any(not isinstance(one, Revision) for one in self.changes)

    def perform(self, effect: Effect, session: Session) -> Done:
        try:
            if isinstance(effect, WriteRevision):
                self.unnoted_changes = session.unnoted_changes
                return self._write_outside(effect, session) if is_outside(effect.key) else self._write(effect)
            if isinstance(effect, UndoRevision):
                return self._undo(effect)
            return self._report(session)
        except StoppedError as stopped:
            return EffectFailed(effect, str(stopped), was_stopped=True)
        except (InputError, OSError) as error:
            return EffectFailed(effect, f"{_what_failed(effect)}{in_words(error)}")

    def _write(self, effect: WriteRevision) -> Done:
        value = to_value(effect.value)
        path = effect.before.path
        if path is None:
            return RevisionWritten(0, change(effect.before, effect.launch, effect.key, value))
        try:
            revision = write_revision(
                path,
                effect.before,
                effect.launch,
                effect.key,
                value,
                announce=lambda coming: self._note_first(effect.before, (coming,)),
            )
        except BaseException:
            self._note(effect.before)
            raise
        self.changes.append(revision)
        return RevisionWritten(revision.number, revision.after, str(revision.kept))

    def _write_outside(self, effect: WriteRevision, session: Session) -> Done:
        self.work = Work()
        try:
            made = make(
                effect,
                self.engine,
                session.file_sources,
                lambda pending: self._note_first(effect.before, pending),
                self.work,
                self._lock,
            )
        except BaseException:
            self._note(effect.before)
            raise
        self.changes += made.changes
        self._note(effect.before)
        return RevisionWritten(session.revision + 1, effect.before, outside=made.told, facts=made.facts)

    def _lock(self, folder: Path) -> None:
        """Raises InputError where another session changes that folder."""
        if self.case is not None and folder.resolve() not in self.locks:
            self.locks[folder.resolve()] = take(self.case.path.parent.parent, folder, self.case.name)

    def close(self) -> None:
        """What was changed is proved or undone: others may change it again."""
        while self.locks:
            self.locks.popitem()[1].release()

    def _undo(self, effect: UndoRevision) -> Done:
        while self.changes:
            last = self.changes[-1]
            if not isinstance(last, Revision):
                take_back(last)
            elif last.after.digest == effect.before.digest:
                break
            else:
                undo_revision(last.path, last)
            self.changes.pop()
            self._note(effect.before)
        return RevisionUndone(effect.before)

    def _note_first(self, deployment: Deployment, pending: tuple[Revision | OutsideChange, ...]) -> None:
        """Before something is changed. Raises InputError where it cannot be noted and has to be."""
        if self.unnoted_changes:
            self._note(deployment, pending)
            return
        if self.case is None:
            raise InputError(f"nothing can be kept of this case, {_NOT_MADE}")
        try:
            self._write_note(deployment, (*self.changes, *pending))
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"cannot be written: {why}; {_NOT_MADE}", file=str(self.case.path)) from None

    def _note(self, deployment: Deployment, pending: tuple[Revision | OutsideChange, ...] = ()) -> None:
        """On a full disk nothing is noted, and the change is taken back by this console or by hand."""
        with suppress(OSError):
            self._write_note(deployment, (*self.changes, *pending))

    def _write_note(self, deployment: Deployment, changes: tuple[Revision | OutsideChange, ...]) -> None:
        note = Note(None if self.case is None else self.case.path)
        note.write(deployment.path, changes) if changes else note.clear()
        self.is_noted = bool(changes)

    def settle(self) -> None:
        """The change is proved and stays."""
        if self.is_noted:
            self.is_noted = False
            with suppress(OSError):
                Note(None if self.case is None else self.case.path).clear()

    def differs(self) -> str | None:
        """Why what is there is not what was verified, or cannot be taken back any more; None where all is so."""
        written = [one for one in self.changes if isinstance(one, Revision)]
        found = [revision_differs(written)] if written else []
        found += [file_change.differs(one) for one in self.changes if isinstance(one, FileChange)]
        return next((one for one in found if one is not None), None)

    def _report(self, session: Session) -> Done:
        if self.case is None:
            return ReportWritten("")
        self.case.keep_deployment(session.deployment, "after")
        return ReportWritten(str(self.case.write_report(session)))


def _what_failed(effect: Effect) -> str:
    """Of a revision the error itself says what it is about."""
    return "the report of the case cannot be kept: " if isinstance(effect, WriteReport) else ""
