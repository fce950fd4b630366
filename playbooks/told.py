"""What a session decides and does, as JSON objects: `replay --json` prints them between the events of the probe.

for found in told(before, happening, after): print(json.dumps(found))
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.events import Event
from engine_probe.redact import mask, mask_deep
from playbooks.effects import (
    AppliedDiffers,
    EffectFailed,
    Examined,
    FilesSeen,
    ReportWritten,
    RevisionUndone,
    RevisionWritten,
)
from playbooks.happenings import is_decision
from playbooks.session import Outcome
from playbooks.session_json import cause_object, check_object, fix_object, hypothesis_object, symptom_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playbooks.decisions import Decision
    from playbooks.effects import Done
    from playbooks.session import Session

    Happening = Event | Decision | Done
    Object = dict[str, Any]


class Kind(NamedTuple):
    """`keys` beside `event`, `time` and `model`."""

    event: str
    means: str
    keys: tuple[str, ...]


_FIX = (
    "id",
    "launch",
    "key",
    "old_value",
    "new_value",
    "title",
    "diff",
    "steps",
    "commands",
    "way_back",
    "expect",
    "you_lose",
    "risk",
)
KINDS = (
    Kind("resumed", "A case that was cut off goes on; `words` say from what.", ("case", "words")),
    Kind(
        "decision",
        "What is done next: `Begin`, `RunExperiment`, `ApplyFix`, `Undo`, `Finish`, `Stop`; what is not of it is null.",
        ("decision", "cause", "hypothesis", "fix", "value"),
    ),
    Kind("diagnosed", "What is wrong (null: nothing), and its causes, best first.", ("symptom", "causes")),
    Kind(
        "hypothesis",
        "An experiment has decided, or could not: `verdict` is `confirmed`, `refuted` or `inconclusive`.",
        ("cause", "id", "claim", "experiment", "cost", "verdict", "because"),
    ),
    Kind("examined", "What an experiment measured beside the loads.", ("name", "facts", "why_not")),
    Kind("fix_applied", "The fix that is tried from here on, as it will be written.", _FIX),
    Kind(
        "revision_written",
        "One change is written: `number` is N of `kept_file` (FILE.rN), FILE as it was; 0 where there is no file. "
        "`outside`: what is changed beside FILE, and how to go back.",
        ("number", "file", "kept_file", "outside"),
    ),
    Kind("revision_undone", "All changes of the fix are taken back: FILE is as it was.", ("file",)),
    Kind("files_seen", "The model's files were looked at for the proof.", ("why_not",)),
    Kind(
        "check",
        "One check of the verification is decided: `outcome` is `pass`, `fail` or `abstain`.",
        ("id", "title", "expected", "measured", "outcome", "reason", "conditions"),
    ),
    Kind("fix_outcome", "What a fix came to: `verified`, `did not hold`, `not tried` (undone).", ("id", "outcome")),
    Kind("effect_failed", "Something could not be done; `text` says what and why.", ("text",)),
    Kind("report_written", "The report of the case.", ("path",)),
    Kind("note", "What the session says beside its steps.", ("text",)),
)


def told(before: Session, happening: Happening, after: Session) -> Iterator[Object]:
    """What one step has brought, in order."""
    for event, content in (*_of_happening(happening, after), *_of_sessions(before, after)):
        yield {"event": event, "time": time.time(), "model": after.model, **mask_deep(content)}


def resumed(session: Session, words: str) -> Object:
    """The first line of a case that goes on."""
    return {
        "event": "resumed",
        "time": time.time(),
        "model": session.model,
        "case": session.case,
        "words": mask(words),
    }


def _of_happening(one: Happening, after: Session) -> Iterator[tuple[str, Object]]:
    file = str(after.deployment.path) if after.deployment.path is not None else None
    if isinstance(one, Event):
        return
    if is_decision(one):
        keys = ("cause", "hypothesis", "fix", "value")
        yield "decision", {"decision": type(one).__name__, **{key: getattr(one, key, None) for key in keys}}
    elif isinstance(one, RevisionWritten):
        yield (
            "revision_written",
            {
                "number": one.number,
                "file": file,
                "kept_file": one.kept,
                "outside": list(one.outside),
            },
        )
    elif isinstance(one, RevisionUndone):
        yield "revision_undone", {"file": file}
    elif isinstance(one, Examined):
        yield "examined", {"name": one.name, "facts": _values(one), "why_not": one.why_not}
    elif isinstance(one, FilesSeen):
        yield "files_seen", {"why_not": one.why_not}
    elif isinstance(one, ReportWritten):
        yield "report_written", {"path": one.path or None}
    elif isinstance(one, (EffectFailed, AppliedDiffers)):
        yield "effect_failed", {"text": one.text}


def _values(one: Examined) -> Object:
    return {name: getattr(fact, "value", None) for name, fact in one.facts.items()}


def _of_sessions(before: Session, after: Session) -> Iterator[tuple[str, Object]]:
    if after.symptom is not None and after.symptom is not before.symptom:
        causes = [cause_object(one) for one in after.causes]
        yield "diagnosed", {"symptom": symptom_object(after.symptom), "causes": causes}
    elif after.causes is not before.causes:
        yield from _hypotheses(before, after)
    elif after.verdict == "healthy" != before.verdict:
        yield "diagnosed", {"symptom": None, "causes": []}
    if after.applied_fix is not None and after.applied_fix != before.applied_fix:
        yield "fix_applied", fix_object(next(one for one in after.fixes if one.id == after.applied_fix))
    yield from _checks(before, after)
    outcomes = {one.id: one.outcome for one in before.fixes}
    for fix in after.fixes:
        if fix.outcome != outcomes.get(fix.id, "not tried"):
            yield "fix_outcome", {"id": fix.id, "outcome": fix.outcome}
    for note in after.notes[len(before.notes) :]:
        yield "note", {"text": note}


def _hypotheses(before: Session, after: Session) -> Iterator[tuple[str, Object]]:
    verdicts = {(cause.id, one.id): one.verdict for cause in before.causes for one in cause.hypotheses}
    for cause in after.causes:
        for one in cause.hypotheses:
            if one.verdict.value not in ("untested", "running", verdicts.get((cause.id, one.id))):
                yield "hypothesis", {"cause": cause.id, **hypothesis_object(one)}


def _checks(before: Session, after: Session) -> Iterator[tuple[str, Object]]:
    if after.checks is before.checks:
        return
    outcomes = {one.id: one.outcome for one in before.checks} if after.applied_fix == before.applied_fix else {}
    for check in after.checks:
        if check.outcome not in (Outcome.PENDING, Outcome.RUNNING, outcomes.get(check.id)):
            yield "check", {"title": check.title, **check_object(check)}
