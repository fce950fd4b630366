"""The verification of a fix: what was promised beside what was measured, check by check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.events import BurstAnswered
from engine_probe.facts import Known
from engine_probe.requests import Request
from playbooks import proof, proof_answers, requests, wording
from playbooks.conditions import evaluate, parse
from playbooks.context import grade_to_verify, lookup_of
from playbooks.facts import lookup_for
from playbooks.session import Check, Outcome

if TYPE_CHECKING:
    from engine_probe.events import RequestAnswered
    from playbooks.conditions import Lookup, Result
    from playbooks.context import Context
    from playbooks.schema import Check as CheckSpec
    from playbooks.schema import Playbook
    from playbooks.session import Cause, FixOption, Session

LOADS = "loads"
_EXPECT = "expect-"
_START_TIMEOUT_S = 60.0


def cause_of_fix(session: Session, fix: str) -> Cause:
    """The cause whose playbook has the fix."""
    return next(cause for cause in session.causes if any(fix in one.fixes for one in cause.hypotheses))


def checks_of(playbook: Playbook, fix: FixOption, length: int, lookup: Lookup) -> tuple[Check, ...]:
    """The playbook's checks, none done: the load, what the fix promised, then the others, in order."""
    found = [Check(LOADS, "the model loads", "ready to serve")]
    found += [_check(one, length, lookup) for one in _logs(playbook)]
    found += [
        _wanting(Check(f"{_EXPECT}{n}", "what the fix promised", "", conditions=(text,)), lookup)
        for n, text in enumerate(fix.expect, 1)
    ]
    found += [_check(one, length, lookup) for one in _asked(playbook)]
    return tuple(found)


def wants_request(session: Session, playbook: Playbook) -> tuple[str, ...]:
    """Ids of the checks that send something to the mended model, in order: the playbook's, then the standard ones."""
    return (*(one.id for one in _asked(playbook)), *proof.to_ask(session.checks))


def _check(spec: CheckSpec, length: int, lookup: Lookup) -> Check:
    check = Check(spec.id, _words(spec.id), "the line comes", optional=spec.optional, conditions=tuple(spec.then))
    if spec.log is not None:
        return _wanting(check, lookup) if spec.then else check
    return replace(check, expected=_expected(spec, length))


def _wanting(check: Check, lookup: Lookup) -> Check:
    """The check with what its conditions want in words, as far as the values are known."""
    full = "; ".join(wording.expected(text, lookup) for text in check.conditions)
    brief = "; ".join(wording.expected(text, lookup, brief=True) for text in check.conditions)
    return replace(check, expected=full, brief=brief)


def judge_load(session: Session, context: Context) -> tuple[Check, ...]:
    """The checks that a finished load decides: it is there, the log says so, the promise holds."""
    assert session.applied_fix is not None
    cause = cause_of_fix(session, session.applied_fix)
    specs = {one.id: one for one in context.playbook(cause.id).verify}
    lookup, before = lookup_of(session, cause), _before(session)
    return tuple(_judge_at_start(check, specs.get(check.id), session, lookup, before) for check in session.checks)


def _judge_at_start(
    check: Check, spec: CheckSpec | None, session: Session, lookup: Lookup, before: Lookup | None
) -> Check:
    if check.id == LOADS:
        ready = session.progress.ready
        seconds = 0.0 if ready is None else ready.seconds
        return replace(check, measured=f"ready in {seconds:.1f} s ({grade_to_verify(session)})", outcome=Outcome.PASS)
    if check.id.startswith(_EXPECT):
        return with_conditions(check, lookup, before)
    if spec is None or spec.log is None:
        return check
    if check.id not in session.progress.log_checks:
        return replace(check, outcome=Outcome.FAIL, measured="the line did not come")
    if not check.conditions:
        return replace(check, outcome=Outcome.PASS, measured="the line came")
    return with_conditions(check, lookup, before)


def request_for(session: Session, check_id: str, context: Context) -> Request:
    """What to send for one check."""
    if proof.is_standard(check_id):
        return proof_answers.request_for(session, check_id, served_name(session), length_of(session))
    assert session.applied_fix is not None
    playbook = context.playbook(cause_of_fix(session, session.applied_fix).id)
    spec = next(one for one in playbook.verify if one.id == check_id)
    timeout_s = _START_TIMEOUT_S if spec.within == "start" else float(spec.within.removesuffix("s"))
    if spec.http is not None:
        return Request(id=check_id, path=spec.http.removeprefix("GET "), timeout_s=timeout_s)
    assert spec.request is not None
    request = requests.named(spec.request, pools=_pools(session), attempt=session.progress.attempt)
    return requests.build(request, check_id, served_name(session), length_of(session), timeout_s)


def served_name(session: Session) -> str:
    """The name by which the model that is looked at answers."""
    ready = session.progress.ready
    return ready.served_models[0] if ready is not None and ready.served_models else session.model


def _pools(session: Session) -> bool:
    return session.progress.files is not None and session.progress.files.pools


def judge_answer(session: Session, answer: RequestAnswered | BurstAnswered, context: Context) -> Check | None:
    """The check that `answer` decides; None: the request is to be sent to another path."""
    check = next(one for one in session.checks if one.id == answer.id)
    if proof.is_standard(answer.id) or isinstance(answer, BurstAnswered):
        return proof_answers.judge(session, check, answer, length_of(session))
    assert session.applied_fix is not None
    cause = cause_of_fix(session, session.applied_fix)
    spec = next(one for one in context.playbook(cause.id).verify if one.id == answer.id)
    if spec.request is not None:
        if proof_answers.is_elsewhere(session, answer):
            return None
        named = requests.named(spec.request, pools=_pools(session), attempt=session.progress.attempt)
        judged = named.judge(answer, length_of(session))
        outcome = {True: Outcome.PASS, False: Outcome.FAIL, None: Outcome.ABSTAIN}[judged.passed]
        check = replace(check, expected=judged.expected, measured=judged.measured, outcome=outcome)
    else:
        text = f"status {answer.status}" if answer.status is not None else f"no answer: {answer.error}"
        passed = answer.status == spec.status
        check = replace(check, measured=text, outcome=Outcome.PASS if passed else Outcome.FAIL)
    if check.outcome is not Outcome.PASS or not spec.then:
        return check
    judged_too = with_conditions(check, lookup_of(session, cause), _before(session))
    return replace(
        judged_too,
        brief="",
        expected=f"{check.expected}; {judged_too.expected}",
        measured=f"{check.measured}; {judged_too.measured}",
    )


def length_of(session: Session) -> int:
    """The length that the engine serves; 0 when nothing has said it."""
    fact = session.facts.get("engine.max_model_len")
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, int) else 0


def failed(checks: tuple[Check, ...]) -> Check | None:
    """The first check that keeps the fix from being verified."""
    return next((one for one in checks if one.outcome is Outcome.FAIL and not one.optional), None)


def undecided(checks: tuple[Check, ...]) -> Check | None:
    """The first check that must be answered and could not be."""
    unanswered = (one for one in checks if one.outcome is Outcome.ABSTAIN)
    return next((one for one in unanswered if not one.optional and not one.may_abstain), None)


def broken(checks: tuple[Check, ...]) -> bool:
    """Whether a check keeps the fix from being verified already."""
    return failed(checks) is not None or undecided(checks) is not None


def not_reached(checks: tuple[Check, ...], why: str) -> tuple[Check, ...]:
    """The checks with those that never came to be decided marked so."""
    open_outcomes = (Outcome.PENDING, Outcome.RUNNING)
    return tuple(
        replace(one, outcome=Outcome.ABSTAIN, reason=why) if one.outcome in open_outcomes else one for one in checks
    )


def with_conditions(check: Check, lookup: Lookup, before: Lookup | None) -> Check:
    """The check decided by its conditions; several values are told apart by their labels."""
    texts = check.conditions
    values = [wording.measured(text, lookup, before, beside_label=len(texts) > 1) for text in texts]
    if len(texts) > 1:
        labels = [wording.label_of(parse(text).fact) for text in texts]
        values = [f"{label} {value}" for label, value in zip(labels, values, strict=True)]
    check = _wanting(check, lookup)
    results = [evaluate(parse(text), lookup, before) for text in texts]
    return _from_results(check, results, "; ".join(values))


def _from_results(check: Check, results: list[Result], measured: str) -> Check:
    if any(one.holds is False for one in results):
        return replace(check, measured=measured, outcome=Outcome.FAIL)
    unknown = next((one for one in results if one.holds is None), None)
    if unknown is not None:
        return replace(
            check, measured=measured, outcome=Outcome.ABSTAIN, reason=wording.with_labels(unknown.reason or "")
        )
    return replace(check, measured=measured, outcome=Outcome.PASS)


def _before(session: Session) -> Lookup | None:
    deployment = session.progress.before
    if deployment is None:
        return None
    launch = next(one for one in deployment.models if one.name == session.model)
    return lookup_for(launch, session.progress.facts_before)


def _logs(playbook: Playbook) -> list[CheckSpec]:
    return [one for one in playbook.verify if one.log is not None]


def _asked(playbook: Playbook) -> list[CheckSpec]:
    return [one for one in playbook.verify if one.log is None]


def _words(check_id: str) -> str:
    return check_id.replace("-", " ")


def _expected(spec: CheckSpec, length: int) -> str:
    if spec.http is not None:
        return f"{spec.http}: status {spec.status}"
    assert spec.request is not None
    return requests.named(spec.request).expected(length)
