"""Several models: started together, one that dies beside another, what is told of each, and what tells them apart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.events import Event, MemorySample, Ready, RequestAnswered, Started
from engine_probe.facts import Known, Unknown
from playbooks.context import Context, read_context
from playbooks.decisions import Begin, Decision, Finish, RunExperiment, Stop
from playbooks.focus import seen_of
from playbooks.report import plain
from playbooks.session import Session, Verdict
from playbooks.unattended import Unattended
from tests.memory_logs import failed, v1
from tests.stand_in.driving import loads, run
from tests.stand_in.limited_probe import LimitedProbe, pool_mib, two_models
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.launch import Launch
    from engine_probe.requests import Request


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def test_models_that_start_in_parallel_are_loaded_at_once(tmp_path: Path, context: Context) -> None:
    probe = LimitedProbe(limit_mib=4000)
    session = await run(two_models(tmp_path, "parallel"), context, probe)
    assert session.verdict == "healthy"
    assert probe.asked[:2] == ["warm load of chat", "warm load of code"]


async def test_one_after_another_waits_for_the_first(tmp_path: Path, context: Context) -> None:
    probe = LimitedProbe(limit_mib=4000)
    seen: list[tuple[str, ...]] = []
    session = await run(
        two_models(tmp_path, "sequential"), context, probe, on_change=lambda one, _event: seen.append(one.progress.up)
    )
    assert session.verdict == "healthy"
    assert ("chat",) in seen
    assert ("chat", "code") in seen


async def test_what_each_load_told_is_kept_apart(tmp_path: Path, context: Context) -> None:
    def rule(launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        return (
            v1("0.13.0", failed("ValueError: the moon is in the wrong house", "v1/x.py:f"))
            if launch.name == "code"
            else None
        )

    session = await run(two_models(tmp_path, "parallel"), context, RuledProbe(rule), Unattended(dry_run=True))
    chat, code = seen_of(session, "chat"), seen_of(session, "code")
    assert (chat.failure, chat.root) == (None, None)
    assert chat.ready is not None
    assert code.ready is None
    assert code.failure is not None
    assert session.model == "code"


async def test_the_one_that_was_up_and_died_while_another_loaded_is_the_case(tmp_path: Path, context: Context) -> None:
    session = await run(two_models(tmp_path, "sequential"), context, LimitedProbe(), Unattended(dry_run=True))
    assert session.symptom is not None
    assert (session.symptom.model, session.symptom.kind) == ("chat", "crashes-while-running")
    assert session.causes[0].id == "co-located-models-budgets-exceed-gpu"
    assert session.causes[0].evidence[0].file == "load-1.log"
    assert session.progress.up_before == ("code",)
    assert session.facts["neighbours.loading"] == Known("code", "measured", "this session, when chat failed")
    assert isinstance(session.facts["neighbours.serving"], Unknown)


async def test_a_decision_waits_until_the_other_loads_have_settled(tmp_path: Path, context: Context) -> None:
    waiting: list[str] = []

    class Late(RuledProbe):
        """code fails at once; chat comes up only when its failure was read."""

        async def load(self, launch: Launch, grade: str) -> None:
            if launch.name == "code":
                await super().load(launch, grade)
                return
            self.asked.append(f"{grade} load of chat")
            self._tell(Started("chat", grade=grade))

        def come_up(self) -> None:
            self.up["chat"] = read_deployment(file).models[0]
            self._tell(Ready("chat", seconds=1.0, served_models=["acme/chat"], max_model_len=64, port=8000))

    def rule(launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        return v1("0.13.0", failed("ValueError: the moon is in the wrong house", "v1/x.py:f"))

    file = two_models(tmp_path, "parallel")
    probe = Late(rule)

    def watch(session: Session, _event: Event | None) -> None:
        if session.symptom is not None and session.progress.phase == "observing" and not waiting:
            waiting.append(str(session.running))
            probe.come_up()

    session = await run(file, context, probe, Unattended(dry_run=True), watch)
    assert waiting == ["waiting for chat: a fix has to hold beside it"]
    assert session.progress.up_before == ("chat",)
    assert session.symptom is not None
    assert session.symptom.model == "code"


async def test_a_model_that_dies_after_all_were_well_is_diagnosed_too(tmp_path: Path, context: Context) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    probe = LimitedProbe(limit_mib=4000)

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase != "deciding" or decisions.qsize():
            return
        if session.verdict == "healthy" and "chat" in probe.up:
            probe.up.pop("chat")
            probe._kill("chat")
        elif session.symptom is not None:
            decisions.put_nowait(Finish())

    session = await run(two_models(tmp_path, "sequential"), context, probe, decisions, person)
    assert session.symptom is not None
    assert (session.symptom.model, session.symptom.kind) == ("chat", "crashes-while-running")
    assert session.causes[0].id == "host-ram-exhausted"


@pytest.mark.parametrize(("alone_mib", "verdict"), [(1400, Verdict.CONFIRMED), (200, Verdict.REFUTED)])
async def test_a_load_alone_tells_a_conflict_from_a_fault_of_its_own(
    alone_mib: int, verdict: Verdict, tmp_path: Path, context: Context
) -> None:
    cause, claim = "co-located-models-budgets-exceed-gpu", "in-the-way-of-one-another"

    class Alone(LimitedProbe):
        def _come_up(self) -> None:
            if (
                not self.up
                and "chat" in self.loading
                and len(self.asked) > 3
                and alone_mib < pool_mib(self.loading["chat"])
            ):
                self.loading.pop("chat")
                self._kill("chat")
            super()._come_up()

    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    decided: list[str] = []

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase == "deciding" and not decisions.qsize():
            decisions.put_nowait(Finish() if decided else RunExperiment(cause, claim))
            decided.append("")

    probe = Alone()
    session = await run(two_models(tmp_path, "sequential"), context, probe, decisions, person)
    assert loads(probe)[2:4] == ["stop code", "warm load of chat"]
    judged = next(one for one in session.causes[0].hypotheses if one.id == claim)
    assert judged.verdict is verdict


async def test_the_room_for_all_is_that_of_the_limit_where_a_load_joins_it_after_its_start(
    tmp_path: Path, context: Context
) -> None:
    class Joins(LimitedProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            self._tell(MemorySample(launch.name, host_available_bytes=2**34))
            await super().load(launch, grade)

    session = await run(two_models(tmp_path, "sequential"), context, Joins(), Unattended(dry_run=True))
    room = session.facts["host.room_gib"]
    assert isinstance(room, Known)
    assert room.value == round(1400 / 1024, 2)


async def test_a_server_whose_engine_has_died_meanwhile_is_no_healthy_one(tmp_path: Path, context: Context) -> None:
    class Hollow(LimitedProbe):
        """chat's engine is gone once code is up; its server answers with 500 and would go on doing so."""

        async def request(self, model: str, request: Request) -> None:
            if model == "chat" and "code" in self.up:
                self._tell(RequestAnswered(model, id=request.id, path=request.path, status=500, error="dead"))
                return
            await super().request(model, request)

    session = await run(two_models(tmp_path, "sequential"), context, Hollow(limit_mib=4000), Unattended(dry_run=True))
    assert session.symptom is not None
    assert (session.symptom.model, session.symptom.kind) == ("chat", "crashes-while-running")
    assert session.symptom.headline == "it was ready and answered a short completion with status 500"


async def test_a_stop_while_models_are_asked_ends_all_of_them(tmp_path: Path, context: Context) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())
    probe = LimitedProbe(limit_mib=4000)
    did: list[str] = []

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.trials and not did:
            did.append("stop")
            decisions.put_nowait(Stop())
        elif session.progress.phase == "deciding" and did == ["stop"]:
            did.append("finish")
            decisions.put_nowait(Finish())

    session = await run(two_models(tmp_path, "sequential"), context, probe, decisions, person)
    assert session.verdict == "stopped"
    assert probe.up == {}


async def test_the_report_says_what_the_others_did(tmp_path: Path, context: Context) -> None:
    session = await run(two_models(tmp_path, "sequential"), context, LimitedProbe(), Unattended(dry_run=True))
    assert "meanwhile code was loading" in plain(session)
