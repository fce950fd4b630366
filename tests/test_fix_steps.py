"""Fixes in ordered steps: each verified before the next, and all of them undone when one does not hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from playbooks.context import Context, new_session, read_context
from playbooks.decisions import ApplyFix, Begin, Decision, Finish, Undo
from playbooks.replay import Policy, drive
from playbooks.report import plain
from playbooks.session import Outcome
from playbooks.unattended import Unattended
from tests.memory_logs import failed, free, v1
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine_probe.events import Event
    from engine_probe.launch import Launch
    from playbooks.session import FixOption, Session

ALIKE = "share-the-card-alike"
TOO_MUCH = v1("0.13.0", failed(free(14.1, 79.2, 0.8, "")), serve="acme/code")
# `0.80` and the comment are a person's own writing: they have to come back as they were.
DEPLOYMENT = """\
models:
  - name: chat
    model: acme/chat
    gpus: [0]
    args: {gpu-memory-utilization: 0.80}   # the first one
  - name: code
    model: acme/code
    gpus: [0]
    args:
      gpu-memory-utilization: 0.8
"""
BEFORE = ["cold load of chat", "cold load of code"]


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT, encoding="utf-8")
    return path


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def share(launch: Launch) -> float:
    value = launch.args["gpu-memory-utilization"]
    assert isinstance(value, float)
    return value


def one_card(launch: Launch, up: Mapping[str, Launch]) -> str | None:
    """The shares of all models on the card must be below one."""
    others = sum(share(one) for name, one in up.items() if name != launch.name)
    return TOO_MUCH if share(launch) + others > 0.97 else None


def two_never_fit(launch: Launch, up: Mapping[str, Launch]) -> str | None:
    return TOO_MUCH if launch.name == "code" and "chat" in up else None


def smaller_never_loads(launch: Launch, _up: Mapping[str, Launch]) -> str | None:
    """Also the first model fails once its share is smaller; the second one always."""
    return TOO_MUCH if launch.name == "code" or share(launch) < 0.8 else None


async def run(
    file: Path,
    context: Context,
    probe: RuledProbe,
    policy: Policy | asyncio.Queue[Decision] | None = None,
    on_change: Callable[[Session, Event | None], None] = lambda _session, _event: None,
) -> Session:
    session = new_session("case", read_deployment(file), "cold", "cold")
    driving = drive(session, probe, policy or Unattended(fix=ALIKE), on_change, context=context)
    return await asyncio.wait_for(driving, 30)


def fix_of(session: Session) -> FixOption:
    return next(one for one in session.fixes if one.id == ALIKE)


async def test_the_steps_are_named_and_shown_as_one_difference(file: Path, context: Context) -> None:
    session = await run(file, context, RuledProbe(one_card), Unattended(fix=ALIKE, dry_run=True))
    assert session.causes[0].id == "co-located-models-budgets-exceed-gpu"
    fix = fix_of(session)
    assert (fix.unavailable, fix.key, fix.launch) == (None, "steps", None)
    assert [(one.launch, one.key, one.new_value) for one in fix.steps] == [
        (name, "args.gpu-memory-utilization", "0.47") for name in ("chat", "code")
    ]
    assert fix.title == "gpu-memory-utilization of chat: 0.8 → 0.47, then of code: 0.8 → 0.47 (2 steps)"
    assert [line for line in fix.diff if line.startswith("+")] == ["+  args.gpu-memory-utilization: 0.47"] * 2
    assert text(file) == DEPLOYMENT


async def test_both_steps_hold_and_both_models_serve(file: Path, context: Context) -> None:
    texts: list[str] = []

    class Watching(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            texts.append(text(file))
            await super().load(launch, grade)

    probe = Watching(one_card)
    session = await run(file, context, probe)
    assert session.verdict == "verified"
    assert [word for word in probe.asked if "completions" not in word] == [
        *BEFORE,
        "stop chat",
        "cold load of chat",
        "cold load of code",
        "ask code /health",
        "stop chat",
        "stop code",
    ]
    first = DEPLOYMENT.replace("0.80", "0.47")
    both = first.replace("utilization: 0.8\n", "utilization: 0.47\n")
    assert texts == [DEPLOYMENT, DEPLOYMENT, first, both]
    assert text(file) == both
    assert text(file.with_name("deployment.yaml.r1")) == DEPLOYMENT
    assert text(file.with_name("deployment.yaml.r2")) == first
    assert session.kept_file == str(file.with_name("deployment.yaml.r1"))
    checks = {one.id: one for one in session.checks}
    assert checks["step-1"].title == "step 1 of 2: gpu-memory-utilization of chat: 0.8 → 0.47"
    decided = {one.id: one.outcome for one in session.checks if one.outcome is not Outcome.PASS}
    assert decided == dict.fromkeys(("proof-tensors", "proof-values"), Outcome.ABSTAIN)  # there are no such folders
    assert checks["beside-chat"].measured == "status 200, 4 tokens in 0.04 s"


async def test_when_the_second_step_fails_both_are_undone(file: Path, context: Context) -> None:
    texts: list[str] = []

    def watch(session: Session, _event: Event | None) -> None:
        if text(file) not in texts:
            texts.append(text(file))

    probe = RuledProbe(two_never_fit)
    session = await run(file, context, probe, on_change=watch)
    assert session.verdict == "not verified"
    assert fix_of(session).outcome == "did not hold"
    assert len(texts) == 3
    assert text(file) == DEPLOYMENT
    assert [one.name for one in file.parent.iterdir()] == ["deployment.yaml"]
    assert session.deployment == read_deployment(file)
    assert any(f"{ALIKE} did not hold and was undone, because code did not load" in note for note in session.notes)
    assert probe.up == {}


async def test_when_the_first_step_fails_the_second_is_not_written(file: Path, context: Context) -> None:
    probe = RuledProbe(smaller_never_loads)
    session = await run(file, context, probe)
    assert probe.asked == [*BEFORE, "stop chat", "cold load of chat"]
    assert session.verdict == "not verified"
    assert text(file) == DEPLOYMENT
    assert [one.name for one in file.parent.iterdir()] == ["deployment.yaml"]
    checks = {one.id: one.outcome for one in session.checks}
    assert (checks["step-1"], checks["loads"]) == (Outcome.FAIL, Outcome.ABSTAIN)
    assert any('the check "step 1 of 2: gpu-memory-utilization of chat' in note for note in session.notes)


async def test_the_next_fix_is_verified_beside_the_model_that_was_up(file: Path, context: Context) -> None:
    """The steps ended the first model: what comes next must not hold only because the card is empty."""
    probe = RuledProbe(two_never_fit)
    session = await run(file, context, probe, Unattended())
    assert session.verdict == "not verified"
    tried = [one.id for one in session.fixes if one.outcome == "did not hold"]
    assert ALIKE in tried
    assert len(tried) > 1
    assert text(file) == DEPLOYMENT


async def test_a_verified_fix_of_two_steps_is_undone_as_one(file: Path, context: Context) -> None:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()
    decisions.put_nowait(Begin())

    def person(session: Session, _event: Event | None) -> None:
        if session.progress.phase != "deciding" or decisions.qsize():
            return
        if session.verdict == "verified":
            decisions.put_nowait(Undo())
        elif session.notes:
            decisions.put_nowait(Finish())
        elif session.applied_fix is None:
            decisions.put_nowait(ApplyFix(ALIKE))

    session = await run(file, context, RuledProbe(one_card), decisions, person)
    assert session.notes == (f"{ALIKE} had been verified and was undone as asked",)
    assert text(file) == DEPLOYMENT
    assert [one.name for one in file.parent.iterdir()] == ["deployment.yaml"]


@pytest.mark.parametrize("step", [1, 2])
async def test_a_driver_that_is_cancelled_in_any_step_leaves_the_file_as_it_was(
    step: int, file: Path, context: Context
) -> None:
    reached = asyncio.Event()
    written: list[str] = []

    class Slow(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            if len(list(file.parent.iterdir())) == 1 + step:
                written.append(text(file))
                reached.set()
                return
            await super().load(launch, grade)

    task = asyncio.create_task(run(file, context, Slow(one_card)))
    await asyncio.wait_for(reached.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert written != [DEPLOYMENT]
    assert text(file) == DEPLOYMENT
    assert [one.name for one in file.parent.iterdir()] == ["deployment.yaml"]


async def test_a_file_that_someone_changed_between_the_steps_stays_theirs(file: Path, context: Context) -> None:
    """Neither the second step nor the way back writes over it; what it was before is beside it."""

    class Meddling(RuledProbe):
        mine = ""

        async def load(self, launch: Launch, grade: str) -> None:
            if launch.name == "chat" and share(launch) < 0.8:
                self.mine = text(file) + "# mine\n"
                write(file, self.mine)
            await super().load(launch, grade)

    probe = Meddling(one_card)
    session = await run(file, context, probe)
    assert session.verdict != "verified"
    assert any("has changed on disk" in note for note in session.notes)
    assert text(file) == probe.mine
    assert text(file.with_name("deployment.yaml.r1")) == DEPLOYMENT


async def test_a_neighbour_that_dies_meanwhile_fails_the_fix(file: Path, context: Context) -> None:
    class Killing(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            await super().load(launch, grade)
            if launch.name == "code" and launch.name in self.up:
                self.die("chat", "vllm was killed by signal 9")

    session = await run(file, context, Killing(one_card))
    assert session.verdict == "not verified"
    check = next(one for one in session.checks if one.id == "beside-chat")
    assert (check.outcome, check.measured) == (Outcome.FAIL, "vllm was killed by signal 9")
    assert text(file) == DEPLOYMENT


async def test_the_report_names_the_steps(file: Path, context: Context) -> None:
    report = plain(await run(file, context, RuledProbe(one_card)))
    assert "1 of 2: gpu-memory-utilization of chat: 0.8 → 0.47" in report
    assert "2 of 2: gpu-memory-utilization of code: 0.8 → 0.47" in report


async def test_a_step_of_the_configuration_alone_is_loaded_dry(tmp_path: Path, context: Context) -> None:
    path = tmp_path / "tp.yaml"
    path.write_text("models:\n  - {name: m, model: acme/m, args: {tensor-parallel-size: 2}}\n", encoding="utf-8")
    words = (
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization "
        "block_n = 128."
    )

    def no_shards(launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        log = v1("0.13.0", failed(words, "model_executor/layers/quantization/fp8.py:create_weights"))
        return log if launch.args["tensor-parallel-size"] != 1 else None

    probe = RuledProbe(no_shards)
    session = await run(path, context, probe, Unattended(fix="pipeline-instead"))
    assert probe.asked[:3] == ["cold load of m", "dry load of m", "cold load of m"]
    assert session.verdict == "verified"
    assert read_deployment(path).models[0].args == {"tensor-parallel-size": 1, "pipeline-parallel-size": 2}
