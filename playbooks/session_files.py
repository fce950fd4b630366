"""The file side of a session: revisions written and undone, a change under verification noted, the report."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.deployment import change
from engine_probe.errors import InputError
from engine_probe.revisions import Revision, undo_revision, write_revision
from playbooks.effects import EffectFailed, ReportWritten, RevisionUndone, RevisionWritten, UndoRevision, WriteRevision
from playbooks.patterns import to_value
from playbooks.unverified import Note

if TYPE_CHECKING:
    from playbooks.case import CaseFolder
    from playbooks.effects import Done, Effect
    from playbooks.session import Session


@dataclass
class SessionFiles:
    """`case` None: nothing is kept."""

    case: CaseFolder | None
    revisions: list[Revision] = field(default_factory=list)
    """Written and not undone, in order."""
    is_noted: bool = False

    def perform(self, effect: Effect, session: Session) -> Done:
        try:
            if isinstance(effect, WriteRevision):
                return self._write(effect)
            if isinstance(effect, UndoRevision):
                return self._undo(effect)
            return self._report(session)
        except (InputError, OSError) as error:
            return EffectFailed(effect, str(error))

    def _write(self, effect: WriteRevision) -> Done:
        value = to_value(effect.value)
        path = effect.before.path
        if path is None:
            return RevisionWritten(0, change(effect.before, effect.launch, effect.key, value))
        revision = write_revision(path, effect.before, effect.launch, effect.key, value)
        self.revisions.append(revision)
        self._note()
        return RevisionWritten(revision.number, revision.after, str(revision.kept))

    def _undo(self, effect: UndoRevision) -> Done:
        while self.revisions and self.revisions[-1].after.digest != effect.before.digest:
            undo_revision(self.revisions[-1].path, self.revisions[-1])
            self.revisions.pop()
            self._note()
        return RevisionUndone(effect.before)

    def _note(self) -> None:
        """On a full disk nothing is noted, and the change is taken back by this console or by hand."""
        note = Note(None if self.case is None else self.case.path)
        with suppress(OSError):
            note.write(self.revisions) if self.revisions else note.clear()
            self.is_noted = bool(self.revisions)

    def settle(self) -> None:
        """The change is proved and stays."""
        if self.is_noted:
            self.is_noted = False
            with suppress(OSError):
                Note(None if self.case is None else self.case.path).clear()

    def _report(self, session: Session) -> Done:
        if self.case is None:
            return ReportWritten("")
        self.case.keep_deployment(session.deployment, "after")
        return ReportWritten(str(self.case.write_report(session)))
