"""The lab: faults are made as their playbook says, and the real engine confirms cause and cure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from engine_probe.deployment import read_deployment
from engine_probe.strict_yaml import InputError
from playbooks.lab.building import build_fault
from playbooks.lab.faults import fault_named, faults
from tui.commands.lab import lab
from tui.commands.playbooks import playbooks
from tui.commands.replay import replay

if TYPE_CHECKING:
    from engine_probe.engine import Engine

KV = "kv-cache-too-small-for-max-model-len"


def test_a_fault_is_a_model_and_a_deployment_with_comments(tmp_path: Path) -> None:
    path = build_fault(fault_named(KV), tmp_path / "lab")
    (launch,) = read_deployment(path).models
    assert launch.name == "tiny"
    assert launch.args == {"kv-cache-memory-bytes": 96 * 2**20, "enforce-eager": True}
    assert Path(launch.model, "config.json").is_file()
    assert path.read_text(encoding="utf-8").startswith(f"# A fault made on purpose: {KV}\n# ")


def test_an_unknown_fault_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        fault_named("kv-cache-too-small-for-max-model-length")
    assert error.value.nearest == KV


def test_the_list() -> None:
    result = CliRunner().invoke(lab, ["list"])
    assert KV in result.output
    rows = CliRunner().invoke(lab, ["list", "--json"]).output.splitlines()
    assert [json.loads(row)["fault"] for row in rows] == [fault.id for fault in faults()]


def test_all_and_a_name_exclude_each_other() -> None:
    assert isinstance(CliRunner().invoke(lab, [KV, "--all"]).exception, InputError)


def test_replay_wants_a_fix_of_the_playbook(tmp_path: Path) -> None:
    path = build_fault(fault_named(KV), tmp_path / "lab")
    result = CliRunner().invoke(replay, [KV, "--deployment", str(path), "--fix", "serve-a-longer-context"])
    assert isinstance(result.exception, InputError)
    assert result.exception.nearest == "serve-a-shorter-context"


def test_playbooks_list_show_check_and_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    run = CliRunner().invoke
    assert KV in run(playbooks, ["list"]).output
    shown = run(playbooks, ["show", KV]).output
    assert "serve-a-shorter-context" in shown
    assert f"Faults that the lab makes of it\n  {KV}: " in shown
    made = Path(run(playbooks, ["new", "my-illness", "--family", "memory"]).stdout.strip())
    assert made == tmp_path / "vllm-console" / "playbooks" / "memory" / "my-illness.yaml"
    assert "my-illness" in run(playbooks, ["list"]).output
    assert isinstance(run(playbooks, ["new", "my-illness", "--family", "memory"]).exception, InputError)
    made.write_text(made.read_text(encoding="utf-8").replace("title:", "titel:"), encoding="utf-8")
    result = run(playbooks, ["check", str(made), "--json"])
    assert isinstance(result.exception, InputError)
    assert json.loads(result.output)["fine"] is False


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_the_first_fault_on_the_real_engine(engine: Engine) -> None:
    result = CliRunner().invoke(lab, [KV, "--json", "--engine", engine.label], standalone_mode=False)
    assert result.exception is None, result.output
    said = json.loads(result.stdout.splitlines()[-1])
    assert {key: said[key] for key in ("fault", "cause", "diagnosed", "rank", "fix", "verified", "engine")} == {
        "fault": KV,
        "cause": KV,
        "diagnosed": KV,
        "rank": 1,
        "fix": "serve-a-shorter-context",
        "verified": True,
        "engine": "warm",
    }
    assert said["seconds"] > 0
    assert result.return_value == 0


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_the_computed_pool_is_enough_on_the_real_engine(engine: Engine, tmp_path: Path) -> None:
    path = build_fault(fault_named(KV), tmp_path / "lab")
    words = [KV, "--deployment", str(path), "--fix", "enlarge-the-pool", "--verify", "warm", "--yes", "--json"]
    words += ["--engine", engine.label]
    result = CliRunner().invoke(replay, words, standalone_mode=False)
    assert result.exception is None, result.output
    said = json.loads(result.stdout.splitlines()[-1])
    assert (said["event"], said["verdict"], said["fix"]) == ("result", "verified", "enlarge-the-pool")
    measured = {check["id"]: check["measured"] for check in said["checks"]}
    assert "4,088 + 8 = 4,096 tokens" in measured["answers-at-full-length"]
    assert "kv-cache-memory-bytes: 276824064" in path.read_text(encoding="utf-8")
