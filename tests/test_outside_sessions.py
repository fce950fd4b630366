"""A package changed in a session: loads are cold from then on, and all of it is undone when it does not help."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.engine import local_engine
from playbooks.context import Context, new_session, read_context
from playbooks.replay import drive
from playbooks.report import markdown
from playbooks.unattended import Unattended
from tests.memory_logs import failed, v1
from tests.stand_in.ruled_probe import RuledProbe
from tests.wheels import only_from, site_packages, venv_with_pip, write_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.launch import Launch
    from playbooks.session import FixOption, Session

ID, FIX = "tiny-tool-too-old", "newer-tiny-tool"
OWN = f"""
playbook: {ID}
title: tiny-tool is too old
summary: It is.
family: dependency
kind: dependency
symptom: does-not-start
layer: outside
stage: config
symptoms:
  any:
    - {{id: old, log: tiny_tool has no attribute}}
samples:
  match: [{{line: tiny_tool has no attribute, facts: {{}}}}]
  no_match: [{{line: all is well}}]
hypotheses:
  - id: old
    claim: It is old.
    experiment: {{cost: none, ask: [packages.tiny-tool], confirm: [packages.tiny-tool is set],
      refute: [packages.tiny-tool is unset]}}
    fixes: [{FIX}]
fixes:
  - id: {FIX}
    set: {{engine.packages.tiny-tool: "2.0"}}
    why: It has it.
    expect: [load.is_serving is true]
    you_lose: Nothing.
    risk: low
"""
OLD = v1("0.32.0", failed("AttributeError: module tiny_tool has no attribute 'new'", "v1/x.py:f"), serve="acme/chat")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engine")
    for version in ("1.0", "2.0"):
        write_wheel(folder / "wheels", "tiny-tool", version)
    return venv_with_pip(folder / "venv")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / f"{ID}.yaml").write_text(OWN, encoding="utf-8")
    return read_context((tmp_path / "own",))


class OnEngine(RuledProbe):
    """With an engine, as a probe has one."""

    def __init__(self, python: Path, helps: bool) -> None:
        super().__init__(self._rule_of_packages)
        self.engine = local_engine(str(python), "a test")
        self._python, self._helps = python, helps

    def _rule_of_packages(self, _launch: Launch, _up: Mapping[str, Launch]) -> str | None:
        return None if self._helps and version_in(self._python) == "2.0" else OLD


def version_in(python: Path) -> str:
    text = (site_packages(python) / "tiny_tool" / "__init__.py").read_text("utf-8")
    return text.split('"')[1]


def install(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    only_from(python.parent.parent.parent / "wheels", monkeypatch)
    words = [str(python), "-m", "pip", "install", "--force-reinstall", "tiny-tool==1.0"]
    subprocess.run(words, check=True, capture_output=True)


async def run(probe: OnEngine, context: Context, folder: Path) -> Session:
    file = folder / "deployment.yaml"
    file.write_text("models:\n  - {name: chat, model: acme/chat}\n", encoding="utf-8")
    session = new_session("case", read_deployment(file), "warm", "warm")
    driving = drive(session, probe, Unattended(fix=FIX), lambda *_: None, context=context)
    return await asyncio.wait_for(driving, 120)


def fix_of(session: Session) -> FixOption:
    return next(one for one in session.fixes if one.id == FIX)


@pytest.mark.parametrize("helps", [True, False])
async def test_a_package_is_changed_proved_cold_and_undone(
    helps: bool, python: Path, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(python, monkeypatch)
    probe = OnEngine(python, helps)
    session = await run(probe, context, tmp_path)
    fix = fix_of(session)
    assert (fix.old_value, fix.title) == ("1.0", "tiny-tool of the engine: 1.0 → 2.0")
    assert fix.diff == ("-  engine.packages.tiny-tool: 1.0", "+  engine.packages.tiny-tool: 2.0")
    assert fix.commands[0].endswith("--no-deps tiny-tool==2.0")
    assert fix.way_back[0].endswith("--no-deps tiny-tool==1.0")
    report = markdown(session)
    assert "`packages.tiny-tool`" in report
    assert "`packages.pip`" not in report
    assert probe.asked[:2] == ["warm load of chat", "cold load of chat"]
    assert session.verdict == ("verified" if helps else "not verified")
    assert version_in(python) == ("2.0" if helps else "1.0")
    if helps:
        assert session.outside[0].startswith(f"packages of {python}: tiny-tool 1.0 → 2.0; as it was: ")
        assert session.outside[1].startswith("to go back: ")
    else:
        assert (session.outside, session.progress.packages_changed) == ((), False)
