"""`replay` from its words to its last line, on recorded loads: what is proposed, why not, and which file is changed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from click.testing import CliRunner, Result
from recorded_probe import RecordedProbe, failing_load, recorded_loads

from engine_probe.deployment import read_deployment
from engine_probe.events import Event, Ready, StageLeft, Started, Warmed, Warming
from playbooks.context import new_session, read_context
from playbooks.decisions import Begin
from playbooks.diagnose import step
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named
from playbooks.session import Symptom
from tui.commands import replay_run
from tui.commands.playbooks import playbooks
from tui.commands.replay import replay
from tui.commands.replay_text import SessionPrinter
from tui.output import Output

if TYPE_CHECKING:
    from engine_probe.launch import Deployment

KV = "kv-cache-too-small-for-max-model-len"
SHORTER, POOL, BUDGET = "serve-a-shorter-context", "enlarge-the-pool", "raise-the-budget"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return build_fault(fault_named(KV), tmp_path / "lab")


@pytest.fixture
def probing(monkeypatch: pytest.MonkeyPatch) -> Probing:
    return Probing(monkeypatch)


class Probing:
    """Puts recorded loads where the real probe would be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def plays(self, *loads: list[Event]) -> None:
        class Entered(RecordedProbe):
            def __init__(self, *_given: object, **_options: object) -> None:
                super().__init__(*loads)

            async def __aenter__(self) -> Entered:
                return self

            async def __aexit__(self, *_error: object) -> None:
                return None

        self._monkeypatch.setattr(replay_run, "Probe", Entered)


def run(file: Path, *words: str, playbook: str = KV) -> Result:
    words = (playbook, "--deployment", str(file), "--engine", sys.executable, *words)
    return CliRunner().invoke(replay, words, standalone_mode=False)


def said(result: Result) -> dict[str, Any]:
    assert result.exception is None, result.output
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_a_dry_run_shows_the_difference_and_says_that_nothing_changed(file: Path, probing: Probing) -> None:
    before = file.read_text(encoding="utf-8")
    probing.plays(recorded_loads()[0])
    result = run(file, "--dry-run")
    assert result.exception is None, result.output
    assert "+  args.max-model-len: 1408" in result.stdout
    assert result.stdout.splitlines()[-1] == "dry run: nothing changed"
    assert file.read_text(encoding="utf-8") == before


def test_a_dry_run_says_first_that_it_loads(file: Path, probing: Probing) -> None:
    probing.plays(recorded_loads()[0])
    first = run(file, "--dry-run").stderr.splitlines()[0]
    assert first.startswith("dry run: loads tiny once for real with ")
    assert f"{file} is not changed. Without a load: vllm-console diagnose LOG --deployment FILE" in first


def test_a_dry_run_as_json_holds_fix_and_difference(file: Path, probing: Probing) -> None:
    probing.plays(recorded_loads()[0])
    found = said(run(file, "--dry-run", "--json"))
    assert (found["event"], found["verdict"], found["fix"]) == ("result", "dry run: nothing changed", None)
    wanted = {"id": SHORTER, "key": "args.max-model-len", "old_value": None, "new_value": "1408"}
    assert wanted.items() <= found["proposed"].items()
    assert found["proposed"]["diff"] == ["+  args.max-model-len: 1408"]
    assert found["changed_file"] is found["kept_file"] is None


def test_a_dry_run_of_one_fix_proposes_that_one(file: Path, probing: Probing) -> None:
    probing.plays(recorded_loads()[0])
    assert said(run(file, "--dry-run", "--json", "--fix", POOL))["proposed"]["id"] == POOL


def test_a_fix_that_is_impossible_here_is_named_with_its_reason(file: Path, probing: Probing) -> None:
    probing.plays(recorded_loads()[0])
    result = run(file, "--fix", BUDGET, "--yes")
    told = " ".join(result.stdout.split("3 Fix")[1].split())
    assert f"{BUDGET} cannot be applied here: " in told
    assert "KV cache size set by hand" in told
    assert f"possible here: {SHORTER}: max-model-len of tiny" in told
    assert f"{POOL}: kv-cache-memory-bytes of tiny" in told
    assert "say --yes" not in result.output
    assert result.stdout.splitlines()[-1] == "stopped: nothing changed"
    assert result.return_value == 1


def test_a_fix_that_is_impossible_here_has_its_reason_in_json(file: Path, probing: Probing) -> None:
    probing.plays(recorded_loads()[0])
    found = said(run(file, "--fix", BUDGET, "--yes", "--json"))
    assert (found["verdict"], found["proposed"]) == ("stopped", None)
    assert found["why_no_fix"][0].startswith(f"{BUDGET} cannot be applied here: ")


def test_a_playbook_that_is_not_what_was_found_proposes_nothing_of_another(file: Path, probing: Probing) -> None:
    CliRunner().invoke(playbooks, ["new", "memory/my-cause"])
    probing.plays(recorded_loads()[0])
    result = run(file, "--yes", playbook="my-cause")
    told = " ".join(result.stdout.split())
    assert "my-cause is not what was found here; found: " + KV in told
    assert f"go on with: vllm-console replay {KV} --deployment" in told
    assert "say --yes" not in result.output


def test_without_a_yes_the_fix_is_proposed(file: Path, probing: Probing) -> None:
    probing.plays(recorded_loads()[0])
    result = run(file)
    assert "3 Fix (proposed, not applied)" in result.stdout
    assert "say --yes to apply it" in result.stderr


def test_what_no_playbook_explains_keeps_its_verdict(file: Path, probing: Probing) -> None:
    probing.plays(failing_load("tiny", "the moon is in the wrong house"))
    found = said(run(file, "--dry-run", "--json"))
    assert found["verdict"] in ("unexplained", "cannot run")
    assert found["why_no_fix"] == []


def test_the_changed_file_and_the_way_back_are_named(file: Path, probing: Probing) -> None:
    before = file.read_text(encoding="utf-8")
    probing.plays(*recorded_loads())
    result = run(file, "--yes")
    assert result.return_value == 0, result.output
    kept = Path(f"{file}.r1")
    assert f"{file} is changed; as it was: {kept}" in result.stdout
    way_back = next(line for line in result.stdout.splitlines() if line.startswith("to go back: "))
    words = way_back.removeprefix("to go back: ").split()
    assert words == ["mv", str(kept), str(file)]
    kept.rename(file)
    assert file.read_text(encoding="utf-8") == before


def test_the_changed_file_is_named_in_json_and_in_the_report(file: Path, probing: Probing) -> None:
    Path(f"{file}.r4").write_text("an older one", encoding="utf-8")
    probing.plays(*recorded_loads())
    found = said(run(file, "--yes", "--json"))
    assert (found["changed_file"], found["kept_file"]) == (str(file), f"{file}.r5")
    assert f"{file} is changed; as it was: {file}.r5" in Path(found["report"]).read_text(encoding="utf-8")


def test_a_relative_file_is_named_as_it_was_typed_and_in_full_in_the_report(
    file: Path, probing: Probing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    probing.plays(*recorded_loads())
    result = run(Path(file.name), "--yes")
    assert "to go back: mv deployment.yaml.r1 deployment.yaml\n" in result.stdout
    report = next(line for line in result.stdout.splitlines() if line.startswith("report: ")).removeprefix("report: ")
    assert f"to go back: mv {file}.r1 {file}\n" in Path(report).read_text(encoding="utf-8")


def test_a_fix_that_was_taken_back_leaves_no_changed_file(file: Path, probing: Probing) -> None:
    bad, _ = recorded_loads()
    probing.plays(bad, bad)
    result = run(file, "--yes", "--fix", SHORTER)
    assert "is changed" not in result.output
    assert result.stdout.splitlines()[-1] == "not verified"


def test_with_several_models_each_line_says_whose_it_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment = read_deployment(file)
    models = (deployment.models[0], replace(deployment.models[0], name="a"))
    session = new_session("c", replace(deployment, models=models), "warm", "warm")
    printer = SessionPrinter(Output())
    for model in ("a", "tiny"):
        printer.on_change(session, StageLeft(model, stage="warmup", seconds=1.5, completed=True))
        printer.on_change(session, Ready(model, seconds=9.0, max_model_len=8))
    assert capsys.readouterr().out.splitlines() == [
        "   a     warmup             1.50 s",
        "   a     ready after 9.0 s, serves 8 tokens",
        "   tiny  warmup             1.50 s",
        "   tiny  ready after 9.0 s, serves 8 tokens",
    ]


def test_a_stage_that_the_log_tells_too_late_is_not_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = new_session("c", read_deployment(file), "warm", "warm")
    printer = SessionPrinter(Output())
    up = replace(session, progress=replace(session.progress, up=("tiny",)))
    printer.on_change(up, StageLeft("tiny", stage="warmup", seconds=2.8, completed=True))
    printer.on_change(session, StageLeft("tiny", stage="serving", seconds=30.9, completed=True))
    assert not capsys.readouterr().out
    printer.on_change(session, StageLeft("tiny", stage="serving", seconds=30.9, completed=False))
    assert "30.90 s, failed" in capsys.readouterr().out


def test_a_load_that_waits_for_the_import_is_told_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context, printer = read_context(), SessionPrinter(Output())
    session = new_session("c", read_deployment(file), "warm", "warm")
    warmed = Warmed(seconds=7.0, vllm_version="0.32.0")
    for happening in (Begin(), Warming(), warmed, Started("tiny", grade="warm")):
        session, _ = step(session, happening, context)
        printer.on_change(session, happening if isinstance(happening, Event) else None)
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        "-- loading tiny (warm)",
        "   importing vLLM once (warm-up)",
        "   engine warm in 7.0 s, vLLM 0.32.0",
    ]


@pytest.mark.parametrize("verdict", [None, "verified"])
def test_who_interrupts_is_told_how_the_file_is_and_what_goes_on(
    file: Path, monkeypatch: pytest.MonkeyPatch, verdict: Literal["verified"] | None
) -> None:
    symptom = Symptom("does-not-start", "tiny", None, None, "the moon")

    async def interrupted(deployment: Deployment, *given: Any, **_options: Any) -> None:
        kept = f"{file}.r1" if verdict else None
        session = new_session("c", deployment, "warm", "warm")
        given[3](replace(session, symptom=symptom, verdict=verdict, kept_file=kept), None)
        raise KeyboardInterrupt

    monkeypatch.setattr("tui.commands.replay.run_session", interrupted)
    told = run(file, "--yes").stderr
    assert (f"{file} is as it was before the case" in told) == (verdict is None)
    assert (f"{file} is changed; as it was: {file}.r1" in told) == (verdict is not None)
    assert "the same command goes on from the last finished step" in told


def test_a_state_folder_that_cannot_be_written_ends_no_replay(
    file: Path, probing: Probing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a full disk does not."""
    blocked = tmp_path / "no-folder"
    blocked.write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))
    probing.plays(recorded_loads()[1])
    result = run(file, "--yes")
    assert result.exit_code == 0, result.output
    told = " ".join(result.output.split())
    assert f"cannot write to {blocked}/vllm-console: Not a directory" in told
    assert "The case goes on, and nothing is kept." in told
