"""Writes down what a session is fed, enough to rebuild every session of the case, and no more of a flood than that.

A line of output that changes nothing in the session is only counted: it stands in load-N.log. Of memory samples
one in five seconds is kept, and the last before anything else happens.
"""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING

import msgspec

from engine_probe.events import Event, LogRecord, MemorySample, Text
from playbooks.case_secrets import CaseSecrets
from playbooks.context import with_progress
from playbooks.decisions import ApplyFix
from playbooks.effects import RevisionWritten
from playbooks.focus import seen_of
from playbooks.happenings import At, Begun, Kept, Left, Lines, line_of
from playbooks.owning import this_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playbooks.case import CaseFolder
    from playbooks.decisions import Decision
    from playbooks.effects import Done
    from playbooks.happenings import Line
    from playbooks.session import Session

_SECONDS_BETWEEN_SAMPLES = 5.0
_MOST_LINES_OF_A_LOAD = 2_000


class Recorder:
    """Of one case. Raises OSError where the case cannot be written."""

    def __init__(self, case: CaseFolder) -> None:
        self._case = case
        self._secrets = CaseSecrets()
        self._counted: dict[str | None, Lines] = {}
        self._sample: MemorySample | None = None
        self._sampled = 0.0
        self._taken: dict[int, int] = {}
        """Lines of output that were kept, by load."""
        self._playbooks: set[str] = set()

    def begin(self, session: Session, *, is_resumed: bool) -> None:
        """From where the case begins, or goes on."""
        path = session.deployment.path
        self._secrets.learn(session.deployment)
        file = None if path is None else str(path.resolve())
        self._write(Begun(session, **this_process(), file=file, is_resumed=is_resumed))

    def take(self, before: Session, happening: Event | Decision | Done, after: Session) -> None:
        """`after` is what became of `before` by `happening`."""
        if isinstance(happening, (Text, LogRecord)) and self._is_only_counted(before, happening, after):
            return
        if isinstance(happening, MemorySample) and happening.time < self._sampled + _SECONDS_BETWEEN_SAMPLES:
            self._sample = happening
            return
        if isinstance(happening, MemorySample):
            self._sampled, self._sample = happening.time, None
        self._flush()
        if isinstance(happening, Event):
            self._write(happening)
            return
        if isinstance(happening, RevisionWritten):
            self._secrets.learn(happening.deployment)
        if isinstance(happening, ApplyFix):
            self._learn_value(before, happening)
        for one in _playbooks_of(happening):
            if one.id not in self._playbooks:
                self._playbooks.add(one.id)
                self._write(one)
        self._write(At(time.time(), happening))

    def leave(self) -> None:
        """It does not come to its end here: whoever opens it next may go on."""
        self._flush()
        self._write(Left(time.time()))

    def _is_only_counted(self, before: Session, event: Text | LogRecord, after: Session) -> bool:
        told_something = not _is_same_but_for_lines(before, after)
        number = after.progress.load_number
        is_too_much = self._taken.get(number, 0) >= _MOST_LINES_OF_A_LOAD
        if told_something and not is_too_much:
            self._taken[number] = self._taken.get(number, 0) + 1
            return False
        count = 0
        if event.model is not None:
            count = seen_of(after, event.model).lines - seen_of(before, event.model).lines
        if count or told_something:
            so_far = self._counted.get(event.model, Lines(event.model, 0))
            are_lost = so_far.are_lost or told_something
            self._counted[event.model] = Lines(event.model, so_far.count + count, are_lost)
        return True

    def _learn_value(self, session: Session, decision: ApplyFix) -> None:
        fix = next((one for one in session.fixes if one.id == decision.fix), None)
        if fix is not None and decision.value is not None:
            self._secrets.learn_value(fix.key.rpartition(".")[2], decision.value)

    def _flush(self) -> None:
        counted, self._counted = self._counted, {}
        sample, self._sample = self._sample, None
        for one in counted.values():
            self._write(one)
        if sample is not None:
            self._sampled = sample.time
            self._write(sample)

    def _write(self, line: Line) -> None:
        self._case.append_event(line_of(line, self._secrets.masked), is_sure=not isinstance(line, Event))


def _playbooks_of(happening: Decision | Done) -> Iterator[Kept]:
    """The playbooks of a diagnosis, as they are now."""
    diagnosis = getattr(happening, "diagnosis", None)
    for one in diagnosis.causes if diagnosis is not None else ():
        if one.playbook is not None:
            yield Kept(one.playbook.id, json.loads(msgspec.json.encode(one.playbook.spec)))


def _is_same_but_for_lines(before: Session, after: Session) -> bool:
    """By identity first: what an event does not touch is handed on as it is, but for several loads at once."""
    if before is after:
        return True
    if before.progress.aside is not after.progress.aside:
        return _without_lines(before) == _without_lines(after)
    fields = (one.name for one in dataclasses.fields(before) if one.name != "progress")
    if not all(getattr(before, name) is getattr(after, name) for name in fields):
        return False
    old, new = before.progress, after.progress
    fields = (one.name for one in dataclasses.fields(old) if one.name != "lines")
    return all(getattr(old, name) is getattr(new, name) for name in fields)


def _without_lines(session: Session) -> Session:
    aside = {name: dataclasses.replace(one, lines=0) for name, one in session.progress.aside.items()}
    return with_progress(session, lines=0, aside=aside)
