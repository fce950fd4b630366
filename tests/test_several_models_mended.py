"""Fixes of several models: in steps, of the order, of the start; proved with all of them up, or undone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from playbooks.context import Context, read_context
from playbooks.decisions import ApplyFix, Begin, Decision, Finish
from playbooks.proof import verdict_words
from playbooks.report import symptom_lines
from playbooks.session import Outcome, Session
from playbooks.unattended import Unattended
from playbooks.way_back import way_on
from tests.memory_logs import failed, v1
from tests.stand_in.driving import loads, run
from tests.stand_in.limited_probe import LimitedProbe, pool_mib, two_models
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.events import Event
    from engine_probe.launch import Launch


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


async def test_both_budgets_are_lowered_in_steps_and_both_answer(tmp_path: Path, context: Context) -> None:
    file = two_models(tmp_path, "sequential")
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

    file = two_models(tmp_path, "sequential")
    before = text(file)
    session = await run(file, context, Never(), Unattended(fix="share-the-room-alike"))
    assert session.verdict == "not verified"
    assert text(file) == before
    assert names_in(tmp_path) == ["deployment.yaml"]


async def test_a_start_in_parallel_is_mended_by_one_after_another(tmp_path: Path, context: Context) -> None:
    file = two_models(tmp_path, "parallel")
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
    file = two_models(tmp_path, "parallel")
    probe = LimitedProbe()
    session = await run(file, context, probe)
    assert session.verdict == "verified"
    ends = [number for number, one in enumerate(probe.asked) if one.startswith("stop ")]
    last = [one for one in probe.asked[ends[-3] :] if " load of " in one]
    assert last == ["warm load of chat", "warm load of code"]


async def test_a_neighbour_that_does_not_come_up_any_more_fails_the_fix(tmp_path: Path, context: Context) -> None:
    class Loses(LimitedProbe):
        """Once chat has been mended, code is not to be loaded."""

        def _come_up(self) -> None:
            mended = [one for one in (*self.up.values(), *self.loading.values()) if pool_mib(one) < 900]
            if "code" in self.loading and "chat" in {one.name for one in mended}:
                self.loading.pop("code")
                self._kill("code")
            super()._come_up()

    file = two_models(tmp_path, "sequential")
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

    file = two_models(tmp_path, "sequential")
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

    session = await run(two_models(tmp_path, "sequential"), context, LimitedProbe(), decisions, person)
    assert session.verdict == "verified"


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

    file = two_models(tmp_path, "sequential")
    file.write_text(text(file).replace("900M}", "900M, max-model-len: 8192}", 1), encoding="utf-8")
    session = await run(file, context, RuledProbe(rule))
    assert (session.verdict, session.model) == ("verified", "chat")
    check = next(one for one in session.checks if one.id == "beside-code")
    assert (check.outcome, check.optional) == (Outcome.ABSTAIN, True)
    assert any("code was loaded for the first time, and failed" in note for note in session.notes)


async def test_three_models_get_a_share_each_in_three_steps(tmp_path: Path, context: Context) -> None:
    file = two_models(tmp_path, "sequential")
    third = "  - {name: draft, model: acme/draft, args: {kv-cache-memory-bytes: 600M}}\n"
    file.write_text(text(file).replace("900M", "600M") + third, encoding="utf-8")
    session = await run(file, context, LimitedProbe())
    assert (session.verdict, session.applied_fix) == ("verified", "share-the-room-alike")
    steps = next(one for one in session.fixes if one.id == session.applied_fix).steps
    assert [one.launch for one in steps] == ["code", "draft", "chat"]
    assert [pool_mib(one) for one in read_deployment(file).models] == [233, 233, 233]
    assert {one.outcome for one in session.checks if one.id.startswith(("step-", "beside-"))} == {Outcome.PASS}


def two_faults(launch: Launch, _up: Mapping[str, Launch]) -> str | None:
    """chat has a fault of its own, and code is longer than its model."""
    if launch.name == "chat":
        return v1("0.13.0", failed("ValueError: the moon is in the wrong house", "v1/x.py:f"))
    words = (
        "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len "
        "(max_position_embeddings=4096)"
    )
    return None if launch.args.get("max-model-len") != 8192 else v1("0.13.0", failed(words, "config/model.py:f"))


async def test_a_fault_of_another_model_that_was_there_before_is_no_reason_against_a_fix(
    tmp_path: Path, context: Context
) -> None:
    file = tmp_path / "deployment.yaml"
    models = "  - {name: code, model: acme/code, args: {max-model-len: 8192}}\n  - {name: chat, model: acme/chat}\n"
    file.write_text(f"start: parallel\nmodels:\n{models}", encoding="utf-8")
    session = await run(file, context, RuledProbe(two_faults))
    assert (session.verdict, session.model) == ("verified", "code")
    assert read_deployment(file).models[0].args["max-model-len"] != 8192
    check = next(one for one in session.checks if one.id == "beside-chat")
    assert (check.outcome, check.reason) == (Outcome.ABSTAIN, "chat failed before too, and still does")
    assert "chat failed too: a fix of code need not mend it" in symptom_lines(session)
    (_, note) = session.notes
    assert f"vllm-console wizard --deployment {file}" in note
    assert "chat failed before too" in verdict_words(session)
    assert way_on(session) == f"vllm-console wizard --deployment {file}"


async def test_a_fix_of_high_risk_is_for_a_person_to_ask_for(tmp_path: Path, context: Context) -> None:
    """With a length above the model's own; where the model's own length is no way out, only the risky one is left."""

    def rule(launch: Launch, up: Mapping[str, Launch]) -> str | None:
        if launch.args.get("max-model-len") == 4096:
            return v1("0.13.0", failed("ValueError: the moon is in the wrong house", "v1/x.py:f"))
        return None if "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in launch.env else two_faults(launch, up)

    file = tmp_path / "deployment.yaml"
    file.write_text("models: [{name: code, model: acme/code, args: {max-model-len: 8192}}]\n", encoding="utf-8")
    careful = Unattended(most_risk="medium")
    session = await run(file, context, RuledProbe(rule), careful)
    assert (session.verdict, session.applied_fix) == ("not verified", None)
    said = next(one for one in careful.proposal(session).why_none if one.startswith("allow-it"))
    assert "its risk is high" in said
    assert "--fix allow-it or --risk high" in said
    session = await run(file, context, RuledProbe(rule), Unattended(fix="allow-it", most_risk="medium"))
    assert (session.verdict, session.applied_fix) == ("verified", "allow-it")
