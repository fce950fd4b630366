"""The standard checks: which a fix gets, what decides each, and what they come to together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.events import BurstAnswered, Ready, RequestAnswered
from engine_probe.launch import Deployment, Launch
from engine_probe.model_files.adapters import Doubt
from playbooks import proof, proof_answers
from playbooks.context import new_session, read_context, with_progress
from playbooks.effects import FilesSeen
from playbooks.session import Check, Outcome, Proof, Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playbooks.context import Context

GIB = 2**30
POOLED = "the model gives embeddings, scores or classes, and no text"
WELL = FilesSeen("tiny", tensors=39, template="given")
LAUNCH = Launch("tiny", "/m/tiny", lora={"poet": "/m/poet"})
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the "
    "tokenizer does not define one."
)


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


def session_with(seen: FilesSeen = WELL, **changes: Any) -> Session:
    session = new_session("case", Deployment((LAUNCH,)), "warm", "cold")
    checks = proof.with_files(proof.standard_checks(LAUNCH, Proof()), seen)
    return replace(with_progress(session, files=seen, **changes), checks=checks)


def ids(checks: Sequence[Check]) -> list[str]:
    return [one.id.removeprefix("proof-") for one in checks]


def by_id(checks: Sequence[Check], name: str) -> Check:
    return next(one for one in checks if one.id == "proof-" + name)


def answered(session: Session, name: str, **answer: Any) -> Check:
    given = {"status": 200, "path": "/v1/completions", **answer}
    event = RequestAnswered("tiny", id="proof-" + name, **given)
    judged = proof_answers.judge(session, by_id(session.checks, name), event, 256)
    assert judged is not None
    return judged


def test_the_standard_checks_come_in_a_fixed_order() -> None:
    assert ids(proof.standard_checks(LAUNCH, Proof())) == [
        "health", "models", "completion", "chat", "logprobs", "tensors", "values", "adapter-poet", "full-length",
        "load-test",
    ]  # fmt: skip


def test_what_the_playbook_asks_is_not_asked_twice(context: Context) -> None:
    """Its checks are /health, a completion, and one at full length."""
    playbook = context.playbook("kv-cache-too-small-for-max-model-len")
    left = ids(proof.standard_checks(LAUNCH, Proof(), playbook))
    assert left == ["models", "chat", "logprobs", "tensors", "values", "adapter-poet", "load-test"]


def test_a_load_test_that_is_left_out_is_said() -> None:
    check = by_id(proof.standard_checks(LAUNCH, Proof(concurrent=0)), "load-test")
    assert (check.outcome, check.reason) == (Outcome.ABSTAIN, "it was left out")


@pytest.mark.parametrize(
    ("seen", "name", "outcome", "words"),
    [
        (WELL, "tensors", Outcome.PASS, "39 tensors, none is missing"),
        (WELL, "values", Outcome.PASS, "39 tensors, all finite"),
        (replace(WELL, missing=("a.weight",), missing_count=1), "tensors", Outcome.FAIL, "1 are in no file: a.weight"),
        (replace(WELL, unknown_class="no such class"), "tensors", Outcome.ABSTAIN, "no such class"),
        (
            replace(WELL, not_finite=("a", "b", "c", "d"), not_finite_count=4),
            "values",
            Outcome.FAIL,
            "NaN or infinity in 4: a, b, c and 1 more",
        ),
        (FilesSeen("tiny", why_not="far away"), "tensors", Outcome.ABSTAIN, "far away"),
        (FilesSeen("tiny", why_not="far away"), "values", Outcome.ABSTAIN, "far away"),
        (replace(WELL, template="none"), "chat", Outcome.ABSTAIN, "the model has no chat template"),
        (replace(WELL, template="lost"), "chat", Outcome.PENDING, "None"),
        (
            replace(WELL, pools=True),
            "chat",
            Outcome.ABSTAIN,
            POOLED,
        ),
        (replace(WELL, adapters={"poet": Doubt("shapes", "too wide")}), "adapter-poet", Outcome.FAIL, "too wide"),
        (replace(WELL, adapters={"poet": Doubt("zero", "zero")}), "adapter-poet", Outcome.PENDING, "None"),
    ],
)
def test_what_the_files_decide(seen: FilesSeen, name: str, outcome: Outcome, words: str) -> None:
    check = by_id(session_with(seen).checks, name)
    assert (check.outcome, str(check.measured or check.reason)) == (outcome, words)


def test_the_models_list_must_name_the_model_and_its_adapters() -> None:
    def judged(*served: str) -> Check:
        checks = proof.standard_checks(LAUNCH, Proof())
        return by_id(proof.with_ready(checks, LAUNCH, Ready("tiny", served_models=list(served))), "models")

    assert judged("/m/tiny", "poet").outcome is Outcome.PASS
    assert judged("/m/tiny").outcome is Outcome.FAIL
    assert judged("/m/tiny").measured == "lists /m/tiny; not poet"
    assert judged().outcome is Outcome.ABSTAIN


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"numbers": [-1.0, -2.0], "not_finite": 0, "completion_tokens": 2}, Outcome.PASS),
        ({"numbers": [-1.0, None], "not_finite": 1, "completion_tokens": 2}, Outcome.FAIL),
        ({"numbers": [0.5, -2.0], "not_finite": 0, "completion_tokens": 2}, Outcome.FAIL),
        ({"numbers": [-9999.0], "not_finite": 0, "completion_tokens": 1}, Outcome.FAIL),
        ({"numbers": [], "not_finite": None, "completion_tokens": 1}, Outcome.ABSTAIN),
        ({"status": 500, "error": "Out of range float values are not JSON compliant: nan"}, Outcome.FAIL),
        ({"status": None, "error": "connection refused"}, Outcome.FAIL),
    ],
)
def test_log_probabilities_must_be_finite_numbers(answer: dict[str, Any], outcome: Outcome) -> None:
    assert answered(session_with(), "logprobs", **answer).outcome is outcome


@pytest.mark.parametrize(
    ("template", "answer", "outcome"),
    [
        ("given", {"completion_tokens": 4}, Outcome.PASS),
        ("given", {"completion_tokens": 0}, Outcome.FAIL),
        ("given", {"status": 400, "error": "unexpected '}'"}, Outcome.FAIL),
        ("lost", {"status": 400, "error": NO_TEMPLATE}, Outcome.FAIL),
        (None, {"status": 400, "error": NO_TEMPLATE}, Outcome.ABSTAIN),
        (None, {"status": 404, "error": "Not Found"}, Outcome.ABSTAIN),
        (None, {"status": 500, "error": "x"}, Outcome.FAIL),
    ],
)
def test_a_chat_fails_only_where_the_model_was_made_for_one(
    template: str | None, answer: dict[str, Any], outcome: Outcome
) -> None:
    session = session_with(replace(WELL, template=template))
    assert answered(session, "chat", path="/v1/chat/completions", **answer).outcome is outcome


@pytest.mark.parametrize(
    ("without", "with_it", "outcome"),
    [
        ((-1.0, -2.0), [-1.0, -2.5], Outcome.PASS),
        ((-1.0, -2.0), [-1.0, -2.00001], Outcome.FAIL),
        ((), [-1.0], Outcome.ABSTAIN),
        ((-1.0,), [], Outcome.ABSTAIN),
    ],
)
def test_an_adapter_must_change_the_numbers(
    without: tuple[float, ...], with_it: list[float | None], outcome: Outcome
) -> None:
    session = session_with(replace(WELL, adapters={"poet": Doubt("zero", "all B are zero")}), numbers=without)
    check = answered(session, "adapter-poet", numbers=with_it, not_finite=0)
    assert check.outcome is outcome
    if outcome is Outcome.FAIL:
        assert check.measured == "the same numbers as without it: all B are zero"


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({}, Outcome.PASS, "40 answered"),
        ({"failed": 2, "errors": [{"text": "status 503: no", "count": 2}]}, Outcome.FAIL, "2 failed (status 503: no)"),
        ({"answered": 0}, Outcome.FAIL, "0 answered"),
        ({"error": "the load ended"}, Outcome.FAIL, "the load ended"),
        ({"rss_last_bytes": 3 * GIB}, Outcome.FAIL, "host memory grew by 1.00 GiB"),
        ({"rss_last_bytes": int(2.1 * GIB)}, Outcome.PASS, "host memory 2.00 → 2.10 GiB"),
        ({"gpu_first_bytes": 60 * GIB, "gpu_last_bytes": 70 * GIB}, Outcome.FAIL, "GPU memory grew by 10.00 GiB"),
        ({"rss_first_bytes": None}, Outcome.PASS, "too short to tell how memory moves"),
    ],
)
def test_many_at_once_must_all_be_answered_and_take_no_more_memory(
    changes: dict[str, Any], outcome: Outcome, words: str
) -> None:
    event = BurstAnswered("tiny", id=proof.BURST, answered=40, rss_first_bytes=2 * GIB, rss_last_bytes=2 * GIB)
    session = session_with()
    judged = proof_answers.judge(session, by_id(session.checks, "load-test"), replace(event, **changes), 256)
    assert judged is not None
    assert judged.outcome is outcome
    assert words in str(judged.measured)


def test_a_model_that_pools_is_asked_at_the_path_that_answers() -> None:
    session = session_with(replace(WELL, pools=True))
    first = proof_answers.request_for(session, "proof-logprobs", "tiny", 256)
    assert (first.path, first.body) == ("/v1/embeddings", {"model": "tiny", "input": "Hello"})
    refused = RequestAnswered("tiny", id="proof-logprobs", path=first.path, status=404)
    check = by_id(session.checks, "logprobs")
    assert check.title == "finite numbers"
    assert proof_answers.judge(session, check, refused, 256) is None
    session = with_progress(session, attempt=1)
    second = proof_answers.request_for(session, "proof-logprobs", "tiny", 256)
    assert second.path == "/classify"
    good = RequestAnswered("tiny", id="proof-logprobs", path="/classify", status=200, numbers=[0.25], not_finite=0)
    good = replace(good, completion_tokens=0)  # as vLLM counts for embeddings
    judged = proof_answers.judge(session, check, good, 256)
    assert judged is not None
    assert judged.outcome is Outcome.PASS
    session = proof_answers.taken_in(session, judged, good)
    assert proof_answers.request_for(with_progress(session, attempt=0), proof.BURST, "tiny", 256).path == "/classify"


def test_the_load_test_is_as_large_as_the_session_says() -> None:
    session = replace(session_with(), proof=Proof(32, 60.0))
    request = proof_answers.request_for(session, proof.BURST, "tiny", 256)
    assert request.burst is not None
    assert (request.burst.at_once, request.burst.seconds, request.path) == (32, 60.0, "/v1/completions")


def test_all_together_pass_fail_or_abstain() -> None:
    done = [Check("a", "one", "", "fine", Outcome.PASS)]
    assert proof.proved(()) is proof.proved([*done, Check("b", "two", "")]) is None
    assert proof.proved(done) == proof.Proved(Outcome.PASS)
    open_one = Check("c", "a chat", "", outcome=Outcome.ABSTAIN, reason="there is no template")
    assert proof.proved([*done, open_one]) == proof.Proved(Outcome.ABSTAIN, ("a chat, because there is no template",))
    bad = Check("d", "values", "", "NaN", Outcome.FAIL)
    assert proof.proved([*done, open_one, bad]) == proof.Proved(Outcome.FAIL, ("values: NaN",))
    assert proof.proved([*done, replace(bad, optional=True)]) == proof.Proved(Outcome.PASS)


def test_the_verdict_says_what_was_not_decided_and_how_it_was_loaded() -> None:
    open_one = Check("c", "a chat", "", outcome=Outcome.ABSTAIN, reason="there is no template")
    session = replace(session_with(), checks=(open_one,), verdict="verified")
    assert proof.verdict_words(session) == "verified; not decided: a chat, because there is no template"
    warm = replace(session, verify_grade="warm", checks=())
    assert proof.verdict_words(warm) == "verified; proved by a warm load, not by a cold one"
    assert proof.verdict_words(replace(session, verdict="not verified")) == "not verified"


def test_the_facts_of_answers_are_those_that_playbooks_know() -> None:
    session = session_with(numbers=(-1.0,))
    chat = RequestAnswered("tiny", id=proof.CHAT, path="/v1/chat/completions", status=400, error=NO_TEMPLATE)
    nan = RequestAnswered(
        "tiny", id=proof.LOGPROBS, path="/v1/completions", status=500, error="nan: not JSON compliant"
    )
    dead = RequestAnswered("tiny", id=proof.LOGPROBS, path="/v1/completions", status=500, error="EngineCore died")
    same = RequestAnswered("tiny", id=proof.ADAPTER + "poet", path="/v1/completions", status=200, numbers=[-1.0])

    def facts(answer: RequestAnswered) -> dict[str, object]:
        check = next(one for one in session.checks if one.id == answer.id)
        judged = proof_answers.judge(session, check, answer, 256)
        assert judged is not None
        after = proof_answers.taken_in(session, judged, answer).facts
        return {name: fact.value for name, fact in after.items()}  # type: ignore[union-attr]

    assert facts(chat) == {"answers.chat_status": 400, "answers.no_chat_template": True}
    assert facts(nan) == {"answers.logprobs_finite": False}
    assert facts(dead) == {}
    assert facts(same) == {"adapter.changes_output": False}


def test_a_fix_is_not_to_blame_for_a_template_that_was_lost_before() -> None:
    session = session_with(replace(WELL, template="lost"), phase="verifying")
    refused = {"path": "/v1/chat/completions", "status": 400, "error": NO_TEMPLATE}
    assert answered(session, "chat", **refused).outcome is Outcome.ABSTAIN
