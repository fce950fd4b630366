"""`replay CASE`, and `replay` started again after it was cut off, from words to last line, on played back loads."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from engine_probe.deployment import read_deployment
from engine_probe.engine import local_engine
from engine_probe.locations import find_locations
from playbooks.decisions import ApplyFix
from playbooks.fingerprints import fingerprints, keep_fingerprints
from playbooks.told import KINDS
from playbooks.unattended import Unattended
from tests.kept_case_samples import DEPLOYMENT, KV, POOL, SHORTER, keep_case, kv_context, kv_deployment
from tests.recorded_probe import RecordedProbe, failing_load, recorded_loads
from tui.commands import replay_run
from tui.commands.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.events import Event
    from playbooks.case import CaseFolder
    from playbooks.decisions import Decision
    from playbooks.session import Session


@pytest.fixture(autouse=True)
def _one_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.commands.replay.read_context", kv_context)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return kv_deployment(tmp_path / "here")


class Probing:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.probe = RecordedProbe()

    def plays(self, *loads: list[Event]) -> None:
        probe = self.probe = RecordedProbe(*loads)

        class Entered:
            def __init__(self, *_given: object, **_options: object) -> None:
                pass

            async def __aenter__(self) -> RecordedProbe:
                return probe

            async def __aexit__(self, *_error: object) -> None:
                return None

        self._monkeypatch.setattr(replay_run, "Probe", Entered)


@pytest.fixture
def probing(monkeypatch: pytest.MonkeyPatch) -> Probing:
    return Probing(monkeypatch)


def run(*words: str) -> Result:
    return CliRunner().invoke(replay, [*words, "--engine", sys.executable, "--yes"], standalone_mode=False)


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exception is None, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


class Chooses(Unattended):
    """A person who gives the fix a value of his own."""

    def decide(self, session: Session) -> Decision | None:
        found = super().decide(session)
        return ApplyFix(SHORTER, "1200") if isinstance(found, ApplyFix) else found


def verified_case(file: Path) -> str:
    case, session = asyncio.run(keep_case(file, find_locations().state, policy=Chooses(fix=SHORTER)))
    assert session.verdict == "verified", session.notes
    return case.name


def test_a_case_s_fix_is_applied_with_its_value_to_another_deployment(
    file: Path, tmp_path: Path, probing: Probing
) -> None:
    name = verified_case(file)
    other = kv_deployment(tmp_path / "there")
    probing.plays(*recorded_loads())
    result = run(name, "--deployment", str(other))
    assert result.return_value == 0, result.output
    assert other.read_text("utf-8") == DEPLOYMENT + "      max-model-len: 1200\n"


def test_without_a_file_it_is_that_of_the_case(file: Path, probing: Probing) -> None:
    name = verified_case(file)
    file.with_name("deployment.yaml.r1").rename(file)
    probing.plays(*recorded_loads())
    assert run(name).return_value == 0
    assert file.read_text("utf-8") == DEPLOYMENT + "      max-model-len: 1200\n"


def test_another_cause_gets_nothing_of_it(file: Path, tmp_path: Path, probing: Probing) -> None:
    name = verified_case(file)
    other = kv_deployment(tmp_path / "there")
    probing.plays(failing_load("tiny", "the moon is in the wrong house"))
    result = run(name, "--deployment", str(other))
    assert result.return_value in (3, 4)
    assert other.read_text("utf-8") == DEPLOYMENT


def test_a_value_that_is_there_already_is_not_written_again(file: Path, tmp_path: Path, probing: Probing) -> None:
    name = verified_case(file)
    other = kv_deployment(tmp_path / "there", DEPLOYMENT + "      max-model-len: 1200\n")
    probing.plays(recorded_loads()[0])
    result = run(name, "--deployment", str(other))
    assert result.return_value == 1, result.output
    told = " ".join(result.stdout.split())
    assert f"{SHORTER}" in told
    assert "cannot be applied here" in told
    assert list(other.parent.glob("*.r*")) == []


def test_a_case_without_a_verified_fix_says_so(file: Path) -> None:
    bad, _ = recorded_loads()
    case, _ = asyncio.run(keep_case(file, find_locations().state, RecordedProbe(bad, bad), Unattended(fix=SHORTER)))
    result = run(case.name)
    assert f"case {case.name} has no verified fix to replay" in str(result.exception)
    assert KV in str(result.exception)
    result = run(case.name, "--fix", "serve-a-shorter-contxt")
    assert f'did you mean "{SHORTER}"' in str(result.exception)


def test_a_playbook_needs_to_be_told_the_deployment() -> None:
    assert "which deployment is to be mended?" in str(run(KV).exception)


def cut_case(file: Path) -> CaseFolder:
    """One fix did not hold; it was killed while it verified the next."""
    bad, good = recorded_loads()
    case, _ = asyncio.run(keep_case(file, find_locations().state, RecordedProbe(bad, bad, good), Unattended()))
    file.with_name("deployment.yaml.r1").rename(file)
    deployment = read_deployment(file)
    keep_fingerprints(case.path, fingerprints(deployment, local_engine(sys.executable, "the test")))
    path = case.path / "events.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    at = [number for number, line in enumerate(lines) if '"event":"done:RevisionWritten"' in line][1]
    path.write_text(re.sub(r'"since":[\d.]+', '"since":1.0', "".join(lines[: at + 1])), encoding="utf-8")
    (case.path / "report.md").unlink()
    return case


def test_it_goes_on_and_says_from_what(file: Path, probing: Probing) -> None:
    case = cut_case(file)
    probing.plays(recorded_loads()[1])
    result = run(KV, "--deployment", str(file))
    assert result.return_value == 0, result.output
    assert f"case {case.name} was cut off while it verified {POOL}; it goes on from there" in result.stderr
    assert f"{SHORTER} did not hold and is not tried again (--fresh begins anew)" in result.stderr
    (launch,) = probing.probe.launches
    assert launch.args["kv-cache-memory-bytes"] != 96 * 2**20
    assert f"report: {case.path}" in result.stdout
    assert "1 Symptom" in result.stdout


def test_fresh_begins_anew(file: Path, probing: Probing) -> None:
    case = cut_case(file)
    probing.plays(*recorded_loads())
    result = run(KV, "--deployment", str(file), "--fresh")
    assert result.return_value == 0, result.output
    assert "cut off" not in result.stderr
    assert str(case.path) not in result.stdout


def test_what_changed_since_is_said_and_looked_at_again(file: Path, probing: Probing) -> None:
    cut_case(file)
    (file.parent / "tiny-llama" / "added").touch()
    probing.plays(*recorded_loads())
    result = run(KV, "--deployment", str(file))
    assert result.return_value == 0, result.output
    assert "all begins anew, because the files of tiny changed since" in result.stderr
    assert len(probing.probe.launches) == 2


def test_json_tells_every_decision_and_effect(file: Path, probing: Probing) -> None:
    bad, good = recorded_loads()
    probing.plays(bad, bad, good)
    found = objects(run(KV, "--deployment", str(file), "--json"))
    keys = {one.event: {"event", "time", "model", *one.keys} for one in KINDS}
    ours = [one for one in found if one["event"] in keys]
    assert [one for one in ours if set(one) != keys[one["event"]]] == []
    steps = [one["event"] for one in ours if one["event"] not in ("check", "note", "files_seen", "hypothesis")]
    tried = ["decision", "fix_applied", "revision_written"]
    assert steps == [
        "decision",
        "diagnosed",
        *tried,
        "revision_undone",
        "fix_outcome",
        *tried,
        "fix_outcome",
        "decision",
        "report_written",
    ]
    assert [one["outcome"] for one in ours if one["event"] == "fix_outcome"] == ["did not hold", "verified"]
    assert [one["fix"] for one in ours if one["event"] == "decision"] == [None, SHORTER, POOL, None]
    checks = [one for one in ours if one["event"] == "check"]
    assert (checks[0]["id"], checks[0]["outcome"]) == ("loads", "fail")
    answered = next(n for n, one in enumerate(found) if one["event"] == "request_answered")
    assert found[answered + 1]["event"] == "check"
    assert found[-1]["event"] == "result"


def test_json_says_that_it_goes_on(file: Path, probing: Probing) -> None:
    case = cut_case(file)
    probing.plays(recorded_loads()[1])
    found = objects(run(KV, "--deployment", str(file), "--json"))
    resumed = next(one for one in found if one["event"] == "resumed")
    assert resumed["case"] == case.name
    assert f"{SHORTER} did not hold" in resumed["words"]
    assert "diagnosed" not in [one["event"] for one in found]
