"""The moments of a past case, each as lines for a person and as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playbooks.report import (
    cause_lines,
    fix_lines,
    noted,
    one_fix_lines,
    symptom_lines,
    unproved_lines,
    verify_lines,
)
from playbooks.session import Step
from playbooks.session_json import cause_object, check_object, fix_object, symptom_object
from playbooks.way_back import is_changed

if TYPE_CHECKING:
    from playbooks.recorded import Moment
    from playbooks.session import FixOption


def heading(moment: Moment) -> str:
    """`3 Fix: fix serve-a-shorter-context`."""
    number = list(Step).index(moment.step) + 1
    return f"{number} {moment.step.value.capitalize()}: {moment.title}"


def lines_of(moment: Moment) -> list[str]:
    """What it shows, as in a report."""
    session = moment.session
    if moment.step is Step.SYMPTOM:
        return symptom_lines(session)
    if moment.step is Step.HYPOTHESES:
        told = session.symptom.evidence if session.symptom is not None else ()
        lines = [line for cause in session.causes for line in cause_lines(cause, told)]
        return lines or ["no playbook explains this failure"]
    if moment.step is Step.FIX:
        fix = _fix(moment)
        return one_fix_lines(fix) if fix is not None else fix_lines(session)
    return [*verify_lines(session), *_notes_at(moment)]


def _notes_at(moment: Moment) -> list[str]:
    """The last one says why a fix was undone; at the end all is said that was not proved."""
    session = moment.session
    if session.progress.phase == "done":
        return [*is_changed(session, from_anywhere=True), *unproved_lines(session), *noted(session)]
    return [f"note: {note}" for note in session.notes[-1:]]


def _fix(moment: Moment) -> FixOption | None:
    return next((one for one in moment.session.fixes if one.id == moment.fix), None)


def object_of(moment: Moment) -> dict[str, Any]:
    """Keys beside `step`, `title` and `time` are those of that step."""
    session = moment.session
    common = {"step": moment.step.value, "title": moment.title, "time": moment.time}
    if moment.step is Step.SYMPTOM:
        return {**common, "symptom": symptom_object(session.symptom) if session.symptom else None}
    if moment.step is Step.HYPOTHESES:
        return {**common, "causes": [cause_object(one) for one in session.causes]}
    fix = _fix(moment)
    if moment.step is Step.FIX:
        return {**common, "fix": fix_object(fix) if fix is not None else None}
    return {
        **common,
        "fix": moment.fix,
        "outcome": fix.outcome if fix is not None else None,
        "checks": [check_object(one) for one in session.checks],
        "verdict": session.verdict,
        "notes": list(session.notes),
    }
