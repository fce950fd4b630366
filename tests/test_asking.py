"""What a model that came up is asked once, and what a session makes of its answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.events import RequestAnswered
from playbooks import proof
from playbooks.context import Context, new_session, read_context
from playbooks.replay import drive
from playbooks.session import Outcome
from playbooks.unattended import Unattended
from tests.good_answers import good_answer
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.events import BurstAnswered, Event
    from engine_probe.requests import Request
    from playbooks.session import Session

    Answers = Callable[[str, Request], RequestAnswered | BurstAnswered]

NAN = "Out of range float values are not JSON compliant"


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


class AskedProbe(RuledProbe):
    """All loads come up; `answers` says what comes of a request. `requests` are those asked, in order."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(lambda _launch, _up: None)
        self.requests: list[tuple[str, str]] = []
        self.reasons: list[str | None] = []
        self._answers = answers

    async def request(self, model: str, request: Request) -> None:
        self.requests.append((model, request.id))
        self._tell(self._answers(model, request))

    async def stop(self, model: str, reason: str | None = None) -> None:
        self.reasons.append(reason)
        await super().stop(model, reason)


async def run(
    folder: Path, context: Context, answers: Answers, start: str = "sequential", names: tuple[str, ...] = ("chat",)
) -> tuple[Session, AskedProbe]:
    path = folder / "deployment.yaml"
    models = "".join(f"  - {{name: {name}, model: acme/{name}}}\n" for name in names)
    path.write_text(f"start: {start}\nmodels:\n{models}", encoding="utf-8")
    probe = AskedProbe(answers)
    session = new_session("case", read_deployment(path), "warm", "warm")

    def ignore(_session: Session, _event: Event | None) -> None: ...

    session = await asyncio.wait_for(drive(session, probe, Unattended(dry_run=True), ignore, context=context), 30)
    return session, probe


async def test_a_model_that_answers_well_is_healthy(tmp_path: Path, context: Context) -> None:
    session, probe = await run(tmp_path, context, good_answer)
    assert session.verdict == "healthy"
    assert [name for _, name in probe.requests] == [proof.CHAT, proof.LOGPROBS]
    left = {one.id for one in session.checks if one.outcome is Outcome.ABSTAIN}
    assert left == {proof.TENSORS, proof.VALUES}  # its files are not here
    assert proof.verdict_words(session).startswith("healthy; not decided: tensors that the model wants, because ")


async def test_an_answer_that_is_wrong_and_that_no_playbook_knows_is_never_healthy(
    tmp_path: Path, context: Context
) -> None:
    def answers(model: str, request: Request) -> RequestAnswered | BurstAnswered:
        if request.id == proof.LOGPROBS:
            return RequestAnswered(model, id=request.id, path=request.path, status=400, error=NAN)
        return good_answer(model, request)

    session, probe = await run(tmp_path, context, answers)
    assert session.verdict == "unexplained"
    assert session.symptom is not None
    assert session.symptom.kind == "answers-are-wrong"
    assert session.symptom.headline == f"finite logprobs: status 400: {NAN}"
    assert probe.reasons == [None]  # it is ended, and did not fail


async def test_an_engine_that_dies_of_a_request_has_crashed_while_running(tmp_path: Path, context: Context) -> None:
    def answers(model: str, request: Request) -> RequestAnswered | BurstAnswered:
        dead = RequestAnswered(model, id=request.id, path=request.path)
        return replace(dead, status=503) if request.id == proof.HEALTH else replace(dead, status=500, error="it died")

    session, probe = await run(tmp_path, context, answers)
    assert session.symptom is not None
    assert session.symptom.kind == "crashes-while-running"
    assert [name for _, name in probe.requests] == [proof.CHAT, proof.HEALTH]
    assert probe.reasons == ["it stopped answering when it was asked for a chat"]


async def test_an_error_of_one_request_does_not_keep_from_asking_on(tmp_path: Path, context: Context) -> None:
    def answers(model: str, request: Request) -> RequestAnswered | BurstAnswered:
        if request.id == proof.CHAT:
            return RequestAnswered(model, id=request.id, path=request.path, status=500, error="unexpected '}'")
        return good_answer(model, request)

    session, probe = await run(tmp_path, context, answers)
    assert [name for _, name in probe.requests] == [proof.CHAT, proof.HEALTH, proof.LOGPROBS]
    assert session.symptom is not None
    assert session.symptom.kind == "answers-are-wrong"


@pytest.mark.parametrize("start", ["sequential", "parallel"])
async def test_of_several_each_is_asked_by_itself(tmp_path: Path, context: Context, start: str) -> None:
    session, probe = await run(tmp_path, context, good_answer, start, ("chat", "code"))
    assert session.verdict == "healthy"
    standard = [one for one in probe.requests if proof.is_standard(one[1])]
    assert standard == [(name, check) for name in ("chat", "code") for check in (proof.CHAT, proof.LOGPROBS)]
