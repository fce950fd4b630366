"""`cases show` steps through what was kept, without an engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.locations import find_locations
from playbooks.unattended import Unattended
from tests.kept_case_samples import POOL, SHORTER, keep_case, kv_deployment
from tests.recorded_probe import RecordedProbe, recorded_loads
from tui.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
async def case(tmp_path: Path) -> str:
    """One fix did not hold, the next one did."""
    bad, good = recorded_loads()
    probe = RecordedProbe(bad, bad, good)
    kept, _ = await keep_case(kv_deployment(tmp_path / "here"), find_locations().state, probe, Unattended())
    return kept.name


def show(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["cases", "show", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_all_steps_are_shown(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = show(capsys, case)
    assert (code, err) == (0, "")
    headings = [line for line in out.splitlines() if line[:2] in ("1 ", "2 ", "3 ", "4 ")]
    assert headings == [
        "1 Symptom: tiny does not start",
        "2 Hypotheses: The KV cache cannot hold one request of max_model_len",
        f"3 Fix: fix {SHORTER}",
        f"4 Verify: {SHORTER}: did not hold",
        f"3 Fix: fix {POOL}",
        f"4 Verify: {POOL}: verified",
        "4 Verify: the end: verified, and the report is written",
    ]
    assert "+  args.max-model-len: 1408" in out
    assert "confirmed: " in out
    told = " ".join(out.split())
    assert f"note: {SHORTER} did not hold and was undone, because tiny did not load" in told
    assert "expected ready to serve" in told


def test_one_step_only(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = show(capsys, case, "--step", "fix")
    assert out.count("3 Fix: ") == 2
    assert "Symptom" not in out
    assert "Verify" not in out


def test_json_is_one_object_a_step(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = show(capsys, case, "--json")
    steps: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert [one["step"] for one in steps] == ["symptom", "hypotheses", "fix", "verify", "fix", "verify", "verify"]
    assert {(one["case"], one["kind"], one["trouble"]) for one in steps} == {(case, "session", None)}
    assert steps[0]["symptom"]["kind"] == "does-not-start"
    assert steps[1]["causes"][0]["hypotheses"][0]["verdict"] == "confirmed"
    assert (steps[2]["fix"]["id"], steps[2]["fix"]["new_value"]) == (SHORTER, "1408")
    assert (steps[3]["fix"], steps[3]["outcome"]) == (SHORTER, "did not hold")
    assert {one["outcome"] for one in steps[5]["checks"]} <= {"pass", "abstain"}
    assert steps[-1]["verdict"] == "verified"


def test_what_was_cut_off_is_shown_and_said(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = find_locations().state / "cases" / case / "events.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"decision:ApplyFix") + 5])
    code, out, err = show(capsys, case)
    assert code == 0
    assert "2 Hypotheses" in out
    assert "3 Fix: fix" not in out
    assert "3 Fix: here it was cut off: deciding" in out
    assert err.startswith(f"case {case} is shown as far as it goes: the recording ends in the middle of a line")
    _, out, _ = show(capsys, case, "--json")
    assert all("middle of a line" in json.loads(line)["trouble"] for line in out.splitlines())
