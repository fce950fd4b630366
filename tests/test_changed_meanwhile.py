"""The deployment or a model's file is changed by somebody else while a fix is proved: that is never called verified."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from recorded_probe import RecordedProbe, recorded_loads

from engine_probe.deployment import read_deployment
from playbooks.context import new_session, read_context
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.replay import drive
from playbooks.report import markdown
from playbooks.unattended import Unattended
from tests.outside_samples import WEIGHTS
from tests.stand_in.ruled_probe import RuledProbe
from tests.test_fix_steps import ALIKE, DEPLOYMENT, one_card
from tests.test_outside_fixes import RESTORE, Served
from tui.commands import replay_run
from tui.commands.replay import replay
from tui.commands.replay_text import exit_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.launch import Launch
    from playbooks.session import Session

KV = "kv-cache-too-small-for-max-model-len"


def edited(file: Path) -> None:
    file.write_text(file.read_text("utf-8") + "# mine\n", encoding="utf-8")


def replaced(file: Path) -> None:
    other = file.with_name("other")
    other.write_text(DEPLOYMENT, encoding="utf-8")
    other.replace(file)


def gone(file: Path) -> None:
    file.unlink(missing_ok=True)


def without_a_way_back(file: Path) -> None:
    file.with_name(f"{file.name}.r1").unlink(missing_ok=True)


@pytest.mark.parametrize("harm", [edited, gone, replaced, without_a_way_back])
async def test_a_deployment_that_is_another_by_now_is_not_verified(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT, encoding="utf-8")

    class Meddling(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            if file.with_name("deployment.yaml.r2").exists():
                harm(file)
            await super().load(launch, grade)

    session = new_session("c", read_deployment(file), "cold", "cold")
    probe = Meddling(one_card)
    driving = drive(session, probe, Unattended(fix=ALIKE), lambda *_: None, context=read_context())
    session = await asyncio.wait_for(driving, 60)
    assert (session.verdict, exit_code(session)) == ("not verified", 1)
    assert any("the file is not what was verified: " in one and str(file) in one for one in session.notes)
    assert "the file is not what was verified" in markdown(session)


@pytest.mark.parametrize("name", [WEIGHTS, f"{WEIGHTS}.r1"])
async def test_a_models_file_that_is_another_by_now_is_not_verified(name: str, tmp_path: Path) -> None:
    served = Served(tmp_path)

    class Meddling(RuledProbe):
        async def load(self, launch: Launch, grade: str) -> None:
            await super().load(launch, grade)
            if (served.broken / f"{WEIGHTS}.r1").exists():
                (served.broken / name).unlink()

    context = read_context()
    driving = drive(
        served.session(served.whole), Meddling(served.rule), Unattended(fix=RESTORE), lambda *_: None, context=context
    )
    session = await asyncio.wait_for(driving, 60)
    assert session.verdict == "not verified"
    assert any(str(served.broken / WEIGHTS) in note for note in session.notes)


async def test_what_changes_after_the_verdict_is_seen_before_the_report(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT, encoding="utf-8")
    harmed: list[bool] = []

    def person(session: Session, _event: object) -> None:
        if session.verdict == "verified" and not harmed:
            harmed.append(True)
            edited(file)

    session = new_session("c", read_deployment(file), "cold", "cold")
    driving = drive(session, RuledProbe(one_card), Unattended(fix=ALIKE), person, context=read_context())
    session = await asyncio.wait_for(driving, 60)
    assert harmed
    assert session.verdict == "not verified"


def test_a_write_that_is_refused_says_so_and_blames_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = build_fault(fault_named(KV), tmp_path / "lab")

    class Meddling(RecordedProbe):
        def __init__(self, *_given: object, **_options: object) -> None:
            super().__init__(*recorded_loads())

        async def __aenter__(self) -> Meddling:
            return self

        async def __aexit__(self, *_error: object) -> None:
            return None

        async def load(self, launch: Launch, grade: str) -> None:
            edited(file)
            await super().load(launch, grade)

    monkeypatch.setattr(replay_run, "Probe", Meddling)
    words = (KV, "--deployment", str(file), "--engine", sys.executable, "--yes")
    result = CliRunner().invoke(replay, words, standalone_mode=False)
    assert result.return_value == 1, result.output
    assert "has changed on disk since it was read" in " ".join(result.stdout.split())
    assert result.stdout.splitlines()[-1].startswith("not verified")
