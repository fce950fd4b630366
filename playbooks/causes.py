"""From a load that failed, or that answers wrongly, to its symptom and its causes, best first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.redact import mask
from playbooks.context import with_progress
from playbooks.exceptions import exception_line, layer_of_exception, make_evidence
from playbooks.observe import log_file
from playbooks.session import Outcome, Session, Symptom
from playbooks.symptom_sources import sources_of
from playbooks.symptom_words import codes_of, key_words_of

if TYPE_CHECKING:
    from typing import Literal

    from engine_probe.logs.attempts import Attempt
    from playbooks.diagnosis import Diagnosis
    from playbooks.session import Evidence

_COMPARED = 300


def symptom_of(session: Session, diagnosis: Diagnosis | None = None) -> Symptom:
    """What is wrong, before anything is said about why. `diagnosis` knows the lines of the log."""
    progress = session.progress
    failed = next((one.stage for one in session.stages if one.state == "failed"), None)
    running = next((one.stage for one in session.stages if one.state == "running"), None)
    kind: Literal["does-not-start", "crashes-while-running", "answers-are-wrong"] = "does-not-start"
    if progress.ready is not None:
        kind = "crashes-while-running" if progress.failure is not None else "answers-are-wrong"
    evidence = _root_evidence(session, diagnosis) or _told_by(session)
    reason = progress.failure.reason if progress.failure is not None else "the load ended"
    headline = evidence[0].text if evidence else reason
    layer = layer_of_exception(progress.root) if progress.root is not None else None
    if kind == "answers-are-wrong" and session.causes:
        layer = session.causes[0].layer
    texts = (headline, *(one.text for one in evidence))
    end = progress.failure
    return Symptom(
        kind,
        session.model,
        failed or running,
        layer,
        headline,
        evidence,
        sources_of(session, log_file(session, session.model)),
        codes_of(texts, None if end is None else end.exit_code, None if end is None else end.signal),
        key_words_of(texts),
    )


def _told_by(session: Session) -> tuple[Evidence, ...]:
    """Of a model that serves, the check that did not hold, and what its log says all the same."""
    if session.progress.failure is not None:
        return ()
    wrong = next((one for one in session.checks if one.outcome is Outcome.FAIL), None)
    asked = () if wrong is None else (make_evidence("requests", None, f"{wrong.title}: {wrong.measured}"),)
    return (*asked, *(session.causes[0].evidence[:1] if session.causes else ()))


def _root_evidence(session: Session, diagnosis: Diagnosis | None) -> tuple[Evidence, ...]:
    """The root exception, with the line of the log that shows it."""
    root = session.progress.root
    if root is None:
        return ()
    told = [one for one in diagnosis.attempts if one.root is not None] if diagnosis is not None else []
    line = next((_line_of_root(one) for one in told if _is_same(one, str(root.get("message", "")))), None)
    return (make_evidence(log_file(session, session.model), line, exception_line(root)),)


def _line_of_root(attempt: Attempt) -> int | None:
    if attempt.root is None or attempt.root_record is None:
        return None
    return attempt.root_record.first_line + attempt.root.at


def _is_same(attempt: Attempt, message: str) -> bool:
    """The log's root is the one that the probe was told."""
    first = mask(message.partition("\n")[0].strip()[:_COMPARED])
    return attempt.root is not None and first in attempt.root.text


def with_diagnosis(session: Session, diagnosis: Diagnosis) -> Session:
    """The session with the causes of its ended load, and the facts that name them. `unexplained` is no cause."""
    found = {one.cause.id: one for one in reversed(diagnosis.causes) if one.playbook is not None}
    causes = tuple(found[one.cause.id].cause for one in diagnosis.causes if one is found.get(one.cause.id))
    facts = {**session.facts, **diagnosis.facts}
    captured = {name: one.captured for name, one in found.items()}
    session = replace(session, facts=facts, causes=causes)
    return with_progress(session, captured=captured, facts_before=dict(facts), stages_before=session.stages)
