"""Several models: started together, one that dies beside another, and fixes that are proved with all of them up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.events import Ended, Event, Failed, LogRecord, MemorySample, Ready, RequestAnswered, Started, Text
from engine_probe.facts import Known, Unknown
from playbooks.context import Context, new_session, read_context
from playbooks.decisions import ApplyFix, Begin, Decision, Finish, RunExperiment, Stop
from playbooks.focus import seen_of
from playbooks.replay import Policy, drive
from playbooks.report import plain
from playbooks.session import Outcome, Verdict
from playbooks.unattended import Unattended
from tests.memory_logs import failed, v1
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine_probe.launch import Launch
    from engine_probe.requests import Request
    from playbooks.session import Session

KILLED = "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
NODE = "(Worker pid=5) INFO 11-29 10:00:00 [cpu_worker.py:243] Explicitly set (0.5/23.54) GiB for KV cache on node 0."
MIB = 2**20
DEPLOYMENT = """\
start: {start}
models:
  - name: chat
    model: acme/chat
    args: {{kv-cache-memory-bytes: 900M}}   # the first one
  - name: code
    model: acme/code
    args: {{kv-cache-memory-bytes: 900M}}
"""


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


def deployment(tmp_path: Path, start: str) -> Path:
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT.format(start=start), encoding="utf-8")
    return path


def pool_mib(launch: Launch) -> int:
    value = launch.args["kv-cache-memory-bytes"]
    assert isinstance(value, int)
    return value // MIB


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


class LimitedProbe(RuledProbe):
    """A limit for all: above it, what serves is killed while another loads.

    Where `one_by_one` is said, the last of those that load at once is killed too.
    """

    def __init__(self, limit_mib: int = 1400, *, one_by_one: bool = False) -> None:
        super().__init__(lambda _launch, _up: None)
        self.limit_mib = limit_mib
        self.one_by_one = one_by_one
        self.loading: dict[str, Launch] = {}

    async def load(self, launch: Launch, grade: str) -> None:
        self.asked.append(f"{grade} load of {launch.name}")
        self.loading[launch.name] = launch
        self._tell(Started(launch.name, grade=grade))
        self._tell(Text(launch.name, line=NODE))
        limit = self.limit_mib * MIB
        self._tell(MemorySample(launch.name, limit_bytes=limit, limit_used_bytes=0, host_available_bytes=2**34))
        asyncio.get_running_loop().call_soon(self._come_up)

    def _come_up(self) -> None:
        """All that load come up, or what is too much ends one of them."""
        names, self.loading = list(self.loading.values()), {}
        for launch in names:
            others = [one for one in self.up.values() if one.name != launch.name]
            together = sum(map(pool_mib, (launch, *others)))
            if self.one_by_one and len(names) > 1 and launch is names[-1]:
                self._kill(launch.name)
                continue
            for one in others if together > self.limit_mib - 400 else ():
                self.up.pop(one.name)
                self._kill(one.name)
            self.up[launch.name] = launch
            self._tell(Ready(launch.name, seconds=1.0, served_models=[launch.model], max_model_len=64, port=8000))

    def _kill(self, name: str) -> None:
        self._tell(LogRecord(name, level="ERROR", logger="vllm.v1.executor.multiproc_executor", message=KILLED))
        self._tell(Text(name, line=f"(EngineCore pid=7) ERROR 11-29 10:00:00 [multiproc_executor.py:315] {KILLED}"))
        self._tell(Failed(name, reason="vllm exited with code 1", exit_code=1, oom_kills=1))
        self._tell(Ended(name))


async def run(
    file: Path,
    context: Context,
    probe: RuledProbe,
    policy: Policy | asyncio.Queue[Decision] | None = None,
    on_change: Callable[[Session, Event | None], None] = lambda _session, _event: None,
) -> Session:
    session = new_session("case", read_deployment(file), "warm", "warm")
    driving = drive(session, probe, policy or Unattended(), on_change, context=context)
    return await asyncio.wait_for(driving, 30)


def loads(probe: RuledProbe) -> list[str]:
    return [one for one in probe.asked if " load of " in one or one.startswith("stop ")]


async def test_models_that_start_in_parallel_are_loaded_at_once(tmp_path: Path, context: Context) -> None:
    probe = LimitedProbe(limit_mib=4000)
    session = await run(deployment(tmp_path, "parallel"), context, probe)
    assert session.verdict == "healthy"
    assert probe.asked[:2] == ["warm load of chat", "warm load of code"]


async def test_one_after_another_waits_for_the_first(tmp_path: Path, context: Context) -> None:
    probe = LimitedProbe(limit_mib=4000)
    seen: list[tuple[str, ...]] = []
    session = await run(
        deployment(tmp_path, "sequential"), context, probe, on_change=lambda one, _event: seen.append(one.progress.up)
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

    session = await run(deployment(tmp_path, "parallel"), context, RuledProbe(rule), Unattended(dry_run=True))
    chat, code = seen_of(session, "chat"), seen_of(session, "code")
    assert (chat.failure, chat.root) == (None, None)
    assert chat.ready is not None
    assert code.ready is None
    assert code.failure is not None
    assert session.model == "code"


async def test_the_one_that_was_up_and_died_while_another_loaded_is_the_case(tmp_path: Path, context: Context) -> None:
    session = await run(deployment(tmp_path, "sequential"), context, LimitedProbe(), Unattended(dry_run=True))
    assert session.symptom is not None
    assert (session.symptom.model, session.symptom.kind) == ("chat", "crashes-while-running")
    assert session.causes[0].id == "co-located-models-budgets-exceed-gpu"
    assert session.causes[0].evidence[0].file == "load-1.log"
    assert session.progress.up_before == ("code",)
    assert session.facts["neighbours.loading"] == Known("code", "measured", "this session, when chat failed")
    assert isinstance(session.facts["neighbours.serving"], Unknown)


async def test_both_budgets_are_lowered_in_steps_and_both_answer(tmp_path: Path, context: Context) -> None:
    file = deployment(tmp_path, "sequential")
    probe = LimitedProbe()
    session = await run(file, context, probe)
    assert session.verdict == "verified"
    assert session.applied_fix == "share-the-room-alike"
    assert loads(probe) == [
        "warm load of chat", "warm load of code",  # as it was: chat dies
        "stop code", "warm load of code",  # step 1: the other one with its share
        "stop code", "warm load of chat", "warm load of code",  # step 2: all, in the order of the file
        "stop chat", "stop code",
    ]  # fmt: skip
    assert [pool_mib(one) for one in read_deployment(file).models] == [350, 350]
    assert "# the first one" in text(file)
    checks = {one.id: one.outcome for one in session.checks}
    assert (checks["step-1"], checks["loads"], checks["beside-code"]) == (Outcome.PASS,) * 3


async def test_when_a_step_of_two_does_not_hold_both_are_undone_byte_for_byte(tmp_path: Path, context: Context) -> None:
    class Never(LimitedProbe):
        def _come_up(self) -> None:
            self.limit_mib = 900 if any(pool_mib(one) < 900 for one in self.up.values()) else 1400
            super()._come_up()

    file = deployment(tmp_path, "sequential")
    before = text(file)
    session = await run(file, context, Never(), Unattended(fix="share-the-room-alike"))
    assert session.verdict == "not verified"
    assert text(file) == before
    assert names_in(tmp_path) == ["deployment.yaml"]


async def test_a_start_in_parallel_is_mended_by_one_after_another(tmp_path: Path, context: Context) -> None:
    file = deployment(tmp_path, "parallel")
    file.write_text(text(file).replace("900M", "100M"), encoding="utf-8")
    probe = LimitedProbe(one_by_one=True)
    session = await run(file, context, probe)
    assert (session.verdict, session.applied_fix) == ("verified", "start-one-after-another")
    assert read_deployment(file).start == "sequential"
    assert loads(probe) == [
        "warm load of chat", "warm load of code",
        "stop chat", "warm load of chat", "warm load of code",
        "stop chat", "stop code",
    ]  # fmt: skip


async def test_a_fix_of_models_that_start_in_parallel_is_proved_by_a_start_in_parallel(
    tmp_path: Path, context: Context
) -> None:
    file = deployment(tmp_path, "parallel")
    probe = LimitedProbe()
    session = await run(file, context, probe)
    assert session.verdict == "verified"
    ends = [number for number, one in enumerate(probe.asked) if one.startswith("stop ")]
    last = [one for one in probe.asked[ends[-3] :] if " load of " in one]
    assert last == ["warm load of chat", "warm load of code"]


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

    file = deployment(tmp_path, "parallel")
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

    session = await run(deployment(tmp_path, "sequential"), context, probe, decisions, person)
    assert session.symptom is not None
    assert (session.symptom.model, session.symptom.kind) == ("chat", "crashes-while-running")
    assert session.causes[0].id == "host-ram-exhausted"


async def test_a_neighbour_that_does_not_come_up_any_more_fails_the_fix(tmp_path: Path, context: Context) -> None:
    class Loses(LimitedProbe):
        """Once chat has been mended, code is not to be loaded."""

        def _come_up(self) -> None:
            mended = [one for one in (*self.up.values(), *self.loading.values()) if pool_mib(one) < 900]
            if "code" in self.loading and "chat" in {one.name for one in mended}:
                self.loading.pop("code")
                self._kill("code")
            super()._come_up()

    file = deployment(tmp_path, "sequential")
    before = text(file)
    session = await run(file, context, Loses(), Unattended(fix="share-the-room-alike"))
    assert session.verdict == "not verified"
    assert text(file) == before
    check = next(one for one in session.checks if one.id == "beside-code")
    assert check.outcome is Outcome.FAIL


async def test_an_order_that_a_fix_changed_is_proved_from_the_first_model_on(tmp_path: Path, context: Context) -> None:
    class LargestFirst(LimitedProbe):
        """code needs all of it while it loads."""

        def _come_up(self) -> None:
            if "code" in self.loading and self.up:
                self.loading.pop("code")
                self._kill("code")
            super()._come_up()

    file = deployment(tmp_path, "sequential")
    file.write_text(text(file).replace("900M", "100M"), encoding="utf-8")
    probe = LargestFirst()
    session = await run(file, context, probe)
    assert (session.verdict, session.applied_fix) == ("verified", "load-the-last-first")
    assert [one.name for one in read_deployment(file).models] == ["code", "chat"]
    assert loads(probe)[2:5] == ["stop chat", "warm load of code", "warm load of chat"]


async def test_a_person_can_apply_the_steps_by_name(tmp_path: Path, context: Context) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase == "deciding" and not decisions.qsize():
            decisions.put_nowait(Finish() if session.verdict else ApplyFix("share-the-room-alike"))

    session = await run(deployment(tmp_path, "sequential"), context, LimitedProbe(), decisions, person)
    assert session.verdict == "verified"


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
    session = await run(deployment(tmp_path, "sequential"), context, probe, decisions, person)
    assert loads(probe)[2:4] == ["stop code", "warm load of chat"]
    judged = next(one for one in session.causes[0].hypotheses if one.id == claim)
    assert judged.verdict is verdict


async def test_a_model_that_was_never_loaded_before_is_another_case(tmp_path: Path, context: Context) -> None:
    """chat fails and is mended; code, which comes after it, turns out to have a fault of its own."""

    def rule(launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        if launch.name == "code":
            return v1("0.13.0", failed("ValueError: the moon is in the wrong house", "v1/x.py:f"))
        words = (
            "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len "
            "(max_position_embeddings=4096)"
        )
        return None if launch.args.get("max-model-len") != 8192 else v1("0.13.0", failed(words, "config/model.py:f"))

    file = deployment(tmp_path, "sequential")
    file.write_text(text(file).replace("900M}", "900M, max-model-len: 8192}", 1), encoding="utf-8")
    session = await run(file, context, RuledProbe(rule))
    assert (session.verdict, session.model) == ("verified", "chat")
    check = next(one for one in session.checks if one.id == "beside-code")
    assert (check.outcome, check.optional) == (Outcome.ABSTAIN, True)
    assert any("code was loaded for the first time, and failed" in note for note in session.notes)


async def test_the_room_for_all_is_that_of_the_limit_where_a_load_joins_it_after_its_start(
    tmp_path: Path, context: Context
) -> None:
    class Joins(LimitedProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            self._tell(MemorySample(launch.name, host_available_bytes=2**34))
            await super().load(launch, grade)

    session = await run(deployment(tmp_path, "sequential"), context, Joins(), Unattended(dry_run=True))
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

    session = await run(deployment(tmp_path, "sequential"), context, Hollow(limit_mib=4000), Unattended(dry_run=True))
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

    session = await run(deployment(tmp_path, "sequential"), context, probe, decisions, person)
    assert session.verdict == "stopped"
    assert probe.up == {}


async def test_the_report_says_what_the_others_did(tmp_path: Path, context: Context) -> None:
    session = await run(deployment(tmp_path, "sequential"), context, LimitedProbe(), Unattended(dry_run=True))
    assert "meanwhile code was loading" in plain(session)


async def test_three_models_get_a_share_each_in_three_steps(tmp_path: Path, context: Context) -> None:
    file = deployment(tmp_path, "sequential")
    third = "  - {name: draft, model: acme/draft, args: {kv-cache-memory-bytes: 600M}}\n"
    file.write_text(text(file).replace("900M", "600M") + third, encoding="utf-8")
    session = await run(file, context, LimitedProbe())
    assert (session.verdict, session.applied_fix) == ("verified", "share-the-room-alike")
    steps = next(one for one in session.fixes if one.id == session.applied_fix).steps
    assert [one.launch for one in steps] == ["code", "draft", "chat"]
    assert [pool_mib(one) for one in read_deployment(file).models] == [233, 233, 233]
    assert {one.outcome for one in session.checks if one.id.startswith(("step-", "beside-"))} == {Outcome.PASS}
