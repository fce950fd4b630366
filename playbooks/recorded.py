"""What is worth stopping at in a past case: its symptom, its hypotheses, each experiment, each fix, what came of it.

past = past_case(folder, context)
for moment in past.moments: ...     # moment.session is what the screens and the reports draw
past.trouble                        # why it goes no further, None where it is whole
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbooks.claims import Verdict
from playbooks.context import read_context
from playbooks.rebuilding import Recording, read_recording
from playbooks.session import Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playbooks.context import Context
    from playbooks.rebuilding import Taken
    from playbooks.session import Session

_NOT_JUDGED = (Verdict.UNTESTED, Verdict.RUNNING)


@dataclass(frozen=True)
class Moment:
    """`step` is the one that shows it; `fix` the one that it is about."""

    session: Session
    title: str
    step: Step
    time: float
    """In seconds since the epoch."""
    fix: str | None = None


@dataclass(frozen=True)
class PastCase:
    """`moments` is empty where nothing can be shown, and `trouble` then says why."""

    folder: Path
    moments: tuple[Moment, ...]
    recording: Recording

    @property
    def trouble(self) -> str | None:
        """Why the recording goes no further; None where it is whole."""
        return self.recording.trouble

    @property
    def session(self) -> Session | None:
        """How it ended, as far as is known."""
        return self.recording.session


def past_case(folder: Path, context: Context | None = None) -> PastCase:
    """The case in `folder`. Takes no engine, and reads nothing outside that folder but playbooks. Never raises."""
    recording = read_recording(folder, context or read_context())
    return PastCase(folder, tuple(_moments(recording)), recording)


def moments(folder: Path, context: Context | None = None) -> list[Moment]:
    """Those of the case in `folder`, in order."""
    return list(past_case(folder, context).moments)


def _moments(recording: Recording) -> Iterator[Moment]:
    for taken in recording.taken:
        fix = taken.session.applied_fix or taken.before.applied_fix
        for title, step in _news(taken):
            yield Moment(taken.session, title, step, taken.time, fix if step in (Step.FIX, Step.VERIFY) else None)
    last = recording.taken[-1] if recording.taken else None
    if last is not None and last.session.progress.phase != "done":
        doing = last.session.running or last.session.progress.phase
        yield Moment(
            last.session, f"here it was cut off: {doing}", last.session.step, last.time, last.session.applied_fix
        )


def _news(taken: Taken) -> Iterator[tuple[str, Step]]:
    """What is new by this one happening, each with its step."""
    before, after = taken.before, taken.session
    if taken.happening is None:
        if before is not after:
            is_left = before.progress.phase == "done"
            yield "it goes on" if is_left else "it goes on after it was cut off", after.step
            yield from _outcomes(before, after)
        return
    if after.symptom is not None and after.symptom is not before.symptom:
        yield f"{after.symptom.model} {after.symptom.kind.replace('-', ' ')}", Step.SYMPTOM
        yield _causes(after), Step.HYPOTHESES
    else:
        yield from _judged(before, after)
    if after.applied_fix is not None and after.applied_fix != before.applied_fix:
        yield f"fix {after.applied_fix}", Step.FIX
    yield from _outcomes(before, after)
    if after.progress.phase == "done" and before.progress.phase != "done":
        is_new = after.verdict != "verified"
        yield (
            (f"the end: {after.verdict}", Step.VERIFY if after.checks else after.step)
            if is_new
            else (
                "the end: verified, and the report is written",
                Step.VERIFY,
            )
        )
    elif after.verdict == "healthy" != before.verdict:
        yield f"{after.model} loads, and nothing is wrong", Step.SYMPTOM


def _causes(session: Session) -> str:
    if not session.causes:
        return "no playbook explains it"
    others = len(session.causes) - 1
    return session.causes[0].title + (f", and {others} less likely" if others else "")


def _judged(before: Session, after: Session) -> Iterator[tuple[str, Step]]:
    if before.causes is after.causes:
        return
    told = {(cause.id, one.id): one.verdict for cause in before.causes for one in cause.hypotheses}
    for cause in after.causes:
        for one in cause.hypotheses:
            if one.verdict not in _NOT_JUDGED and told.get((cause.id, one.id)) is not one.verdict:
                yield f"{one.verdict.value}: {one.claim}", Step.HYPOTHESES


def _outcomes(before: Session, after: Session) -> Iterator[tuple[str, Step]]:
    told = {one.id: one.outcome for one in before.fixes}
    for one in after.fixes:
        if one.outcome != "not tried" and told.get(one.id, "not tried") != one.outcome:
            yield f"{one.id}: {one.outcome}", Step.VERIFY
    if before.applied_fix is not None and after.applied_fix is None and len(after.notes) > len(before.notes):
        was = told.get(before.applied_fix)
        now = next((one.outcome for one in after.fixes if one.id == before.applied_fix), None)
        if now in ("not tried", was):
            yield f"{before.applied_fix}: undone", Step.VERIFY
