"""A model that came up and may still be wrong: some standard checks, once, before its log is read.

They take less than a second of a small model. What does not hold is evidence: facts that playbooks of answers that are
wrong decide by, and lines of the log that only a request makes. What cannot be decided is left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.events import RequestAnswered
from engine_probe.facts import Known
from playbooks import proof, proof_answers, requests, verifying
from playbooks.context import launch_named, with_progress
from playbooks.effects import LookAtFiles, SendRequest, StopLoad
from playbooks.focus import looking_at
from playbooks.session import Session

if TYPE_CHECKING:
    from engine_probe.events import BurstAnswered
    from engine_probe.facts import Fact
    from playbooks.effects import Effect, FilesSeen
    from playbooks.session import Check

Answer = tuple[Session, tuple["Effect", ...]]
_ASKED = (proof.MODELS, proof.CHAT, proof.LOGPROBS, proof.TENSORS, proof.VALUES)
_OF_ANSWERS = ("answers.", "adapter.changes_output", "adapter.doubt")
_OK = 200


def begin(session: Session, model: str) -> Answer:
    """`model` serves. Where another one is being asked it comes after it."""
    waiting = (*session.progress.asking, model)
    session = with_progress(session, asking=waiting)
    return look(session) if len(waiting) == 1 else (session, ())


def look(session: Session) -> Answer:
    """Begin with the files of the first that waits."""
    model = session.progress.asking[0]
    session = replace(looking_at(session, model), model=model)
    launch = launch_named(session.deployment, model)
    checks = tuple(one for one in proof.standard_checks(launch, session.proof) if _is_asked(one))
    facts = {name: fact for name, fact in session.facts.items() if not name.startswith(_OF_ANSWERS)}
    session = replace(session, checks=proof.with_ready(checks, launch, session.progress.ready), facts=facts)
    session = with_progress(session, files=None, numbers=(), attempt=0, requests=())
    return replace(session, running=f"looking at the files of {model}"), (LookAtFiles(launch, session.deployment),)


def _is_asked(check: Check) -> bool:
    return check.id in _ASKED or check.id.startswith(proof.ADAPTER)


def on_files_seen(session: Session, seen: FilesSeen) -> Answer:
    """What the files tell; then the first request."""
    session = replace(session, checks=proof.with_files(session.checks, seen))
    session = replace(session, facts={**session.facts, **_facts_of(seen)})
    session = with_progress(session, files=seen, requests=proof.to_ask(session.checks))
    return send(session)


def send(session: Session) -> Answer:
    """Ask for the first check that still wants it; without effects where none is left."""
    if not session.progress.requests:
        return session, ()
    check_id = session.progress.requests[0]
    name, length = verifying.served_name(session), verifying.length_of(session)
    request = proof_answers.request_for(session, check_id, name, length)
    model = session.progress.asking[0]
    title = next((one.title for one in session.checks if one.id == check_id), "is it alive")
    return replace(session, running=f"asking {model}: {title}"), (SendRequest(model, request),)


def on_answer(session: Session, answer: RequestAnswered | BurstAnswered) -> Answer:
    """One more answer, of the model that is asked."""
    progress = session.progress
    if progress.stopping or progress.failed is not None or progress.requests[:1] != (answer.id,):
        return session, ()
    if answer.id == proof.HEALTH:
        return _if_it_lives(session, answer)
    check = next(one for one in session.checks if one.id == answer.id)
    judged = proof_answers.judge(session, check, answer, verifying.length_of(session))
    if judged is None:
        return send(with_progress(session, attempt=progress.attempt + 1))
    checks = tuple(judged if one.id == judged.id else one for one in session.checks)
    session = proof_answers.taken_in(replace(session, checks=checks), judged, answer)
    rest = progress.requests[1:]
    if isinstance(answer, RequestAnswered) and (answer.status is None or answer.status >= requests.SERVER_ERROR):
        rest = (proof.HEALTH, *rest)
    return send(with_progress(session, attempt=0, requests=rest))


def _if_it_lives(session: Session, answer: RequestAnswered | BurstAnswered) -> Answer:
    """After an error: an engine that died of a request has crashed while running, and its end tells why."""
    if isinstance(answer, RequestAnswered) and answer.status == _OK:
        return send(with_progress(session, requests=session.progress.requests[1:]))
    wrong = verifying.failed(session.checks)
    reason = "it stopped answering" + (f" when it was asked for {wrong.title}" if wrong is not None else "")
    return session, (StopLoad(session.progress.asking[0], reason=reason),)


def is_over(session: Session) -> bool:
    """Whether all has been asked of the model that is asked."""
    progress = session.progress
    return bool(progress.asking) and progress.files is not None and not progress.requests


def _facts_of(seen: FilesSeen) -> dict[str, Fact]:
    origin = f"the files of {seen.model}"
    found: dict[str, Fact] = {}
    if seen.tensors and (seen.missing_count or seen.unknown_class is None):
        found["files.missing_tensors"] = Known(seen.missing_count, "measured", origin)
    if seen.template is not None:
        found["files.chat_template"] = Known(seen.template, "measured", origin)
    doubt = next(iter(seen.adapters.values()), None)
    if doubt is not None:
        found["adapter.doubt"] = Known(doubt.kind, "measured", f"{origin}: {doubt.text}")
    return found
