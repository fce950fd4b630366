"""What a standard check sends to the model, and what its answer says: about the fix, and as facts for playbooks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.events import BurstAnswered, RequestAnswered
from engine_probe.facts import Known
from engine_probe.requests import Burst, Request
from playbooks import proof, requests
from playbooks.context import with_progress
from playbooks.proof_words import burst_measured, grown
from playbooks.session import Check, Outcome, Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Fact, Value

_OK, _NOT_FOUND = 200, 404
_TIMEOUT_S = 60.0
_LENGTH_TIMEOUT_S = 300.0
_BURST_TOKENS = 8
_SAME = 1e-4
"""Log probabilities nearer than this are the same: batches of other sizes add up in another order."""
_NO_NUMBER = re.compile(r"not JSON compliant|\bnan\b|\bNaNs?\b|`inf`")
_NO_TEMPLATE = re.compile(
    r"chat template.{0,80}(?:no longer allowed|not set|not defined)|no chat template|chat_template is not set",
    re.I | re.S,
)


def request_for(session: Session, check_id: str, model: str, length: int) -> Request:
    """`model` is the name that is served, `length` what it serves at most."""
    pools, attempt = _pools(session), session.progress.attempt
    if check_id == proof.HEALTH:
        return Request(check_id, "/health", timeout_s=_TIMEOUT_S)
    if check_id == proof.BURST:
        return _burst(session, model)
    if check_id.startswith(proof.ADAPTER):
        name = requests.LOGPROBS
        model = check_id.removeprefix(proof.ADAPTER)
    else:
        name = proof.NAMED[check_id]
    request = requests.named(name, pools=pools, attempt=attempt)
    timeout_s = _LENGTH_TIMEOUT_S if name == requests.LENGTH else _TIMEOUT_S
    return requests.build(request, check_id, model, length, timeout_s)


def _pools(session: Session) -> bool:
    return session.progress.files is not None and session.progress.files.pools


def _burst(session: Session, model: str) -> Request:
    proof_, pools = session.proof, _pools(session)
    one = requests.named(requests.COMPLETION, pools=pools, attempt=_answering(session))
    body = one.body(model, 0) if pools else {**one.body(model, 0), "max_tokens": _BURST_TOKENS, "ignore_eos": True}
    burst = Burst(proof_.concurrent, proof_.burst_seconds)
    return Request(proof.BURST, one.path, body, timeout_s=_LENGTH_TIMEOUT_S, burst=burst)


def _answering(session: Session) -> int:
    """The path at which a model that pools has answered."""
    fact = session.facts.get("answers.path")
    paths = requests.POOLING_PATHS
    return paths.index(str(fact.value)) if isinstance(fact, Known) and fact.value in paths else 0


def judge(session: Session, check: Check, answer: RequestAnswered | BurstAnswered, length: int) -> Check | None:  # noqa: PLR0911 - one a kind
    """The check that `answer` decides; None: another path is to be tried."""
    if isinstance(answer, BurstAnswered):
        return _judge_burst(check, answer)
    if is_elsewhere(session, answer):
        return None
    if check.id == proof.BURST:
        return proof.abstained(check, "the probe did not count the answers")
    if check.id == proof.HEALTH:
        outcome = Outcome.PASS if answer.status == _OK else Outcome.FAIL
        return replace(check, measured=requests.status_words(answer), outcome=outcome)
    if check.id.startswith(proof.ADAPTER):
        return _judge_adapter(session, check, answer)
    if check.id == proof.CHAT and (reason := _why_no_chat(session, answer)) is not None:
        return proof.abstained(check, reason, requests.status_words(answer))
    request = requests.named(proof.NAMED[check.id], pools=_pools(session), attempt=session.progress.attempt)
    judged = request.judge(answer, length)
    outcome = {True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.ABSTAIN}[judged.passed]
    reason = judged.measured if judged.passed is None else None
    return replace(check, expected=judged.expected, measured=judged.measured, outcome=outcome, reason=reason)


def is_elsewhere(session: Session, answer: RequestAnswered) -> bool:
    """A model that pools does not answer at this path, and there is another to try."""
    more = session.progress.attempt + 1 < len(requests.POOLING_PATHS)
    return _pools(session) and more and answer.path in requests.POOLING_PATHS and answer.status in requests.NOT_HERE


def _why_no_chat(session: Session, answer: RequestAnswered) -> str | None:
    """Why a refused chat says nothing against the model: it was never made for one."""
    if answer.status not in requests.NOT_HERE:
        return None
    if answer.status == _NOT_FOUND:
        return "this server has no /v1/chat/completions"
    files = session.progress.files
    template = files.template if files is not None else None
    # A fix is not to blame for a template that was lost before; whoever mends that asks for a chat by itself.
    is_wrong = template == "given" or (template == "lost" and session.progress.phase != "verifying")
    if not is_wrong and _NO_TEMPLATE.search(answer.error or answer.text):
        return "the model has no chat template"
    return None


def _judge_adapter(session: Session, check: Check, answer: RequestAnswered) -> Check:
    if answer.status != _OK:
        return replace(check, measured=requests.status_words(answer), outcome=Outcome.FAIL)
    if answer.not_finite:
        return replace(check, measured=f"{answer.not_finite:,} numbers are not finite", outcome=Outcome.FAIL)
    difference = _difference(session.progress.numbers, answer.numbers)
    if difference is None:
        return proof.abstained(check, "there are no numbers of both to compare", "status 200")
    if difference > _SAME:
        return replace(check, measured=f"log probabilities differ by up to {difference:.3g}", outcome=Outcome.PASS)
    files = session.progress.files
    doubt = files.adapters.get(check.id.removeprefix(proof.ADAPTER)) if files is not None else None
    measured = "the same numbers as without it" + (f": {doubt.text}" if doubt is not None else "")
    return replace(check, measured=measured, outcome=Outcome.FAIL)


def _difference(without: tuple[float | None, ...] | None, with_it: list[float | None]) -> float | None:
    pairs = [
        (one, two) for one, two in zip(without or (), with_it, strict=False) if one is not None and two is not None
    ]
    return max((abs(one - two) for one, two in pairs), default=None)


def _judge_burst(check: Check, answer: BurstAnswered) -> Check:
    measured = burst_measured(answer)
    if answer.error is not None or answer.failed or not answer.answered:
        text = f"{measured}; {answer.error}" if answer.error else measured
        return replace(check, measured=text, outcome=Outcome.FAIL)
    too_much = grown(answer)
    if too_much is not None:
        return replace(check, measured=f"{measured}; {too_much}", outcome=Outcome.FAIL)
    return replace(check, measured=measured, outcome=Outcome.PASS)


def taken_in(session: Session, check: Check, answer: RequestAnswered | BurstAnswered) -> Session:
    """The session with what `answer`, which decided `check`, tells beside: facts, and numbers to compare with."""
    if isinstance(answer, BurstAnswered):
        return session
    if check.id == proof.LOGPROBS:
        session = with_progress(session, numbers=tuple(answer.numbers))
    values = _facts_of(check, answer)
    found: Mapping[str, Fact] = {
        name: Known(value, "measured", f"POST {answer.path}") for name, value in values.items()
    }
    return replace(session, facts={**session.facts, **found})


def _facts_of(check: Check, answer: RequestAnswered) -> dict[str, Value]:
    is_decided = check.outcome in (Outcome.PASS, Outcome.FAIL)
    found: dict[str, Value] = {}
    if check.id == proof.CHAT and answer.status is not None:
        found["answers.chat_status"] = answer.status
        refusal = "" if answer.status == _OK else answer.error or answer.text
        found["answers.no_chat_template"] = _NO_TEMPLATE.search(refusal) is not None
    tells = answer.status == _OK or _NO_NUMBER.search(answer.error or "") is not None
    if check.id == proof.LOGPROBS and is_decided and tells:
        found["answers.logprobs_finite"] = check.outcome is Outcome.PASS
    if check.id.startswith(proof.ADAPTER) and is_decided and answer.status == _OK:
        found["adapter.changes_output"] = check.outcome is Outcome.PASS
    if answer.path in requests.POOLING_PATHS and answer.status == _OK:
        found["answers.path"] = answer.path
    return found
