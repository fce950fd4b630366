"""`cases show` steps through what was kept, without an engine."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.locations import find_locations
from playbooks.case_summary import read_summary
from playbooks.report import sections
from playbooks.unattended import Unattended
from tests import tui_samples as samples
from tests.kept_case_samples import KV, POOL, SHORTER, keep_case, kv_deployment
from tests.recorded_probe import RecordedProbe, recorded_loads
from tui.cli import main
from tui.widgets.symptom import note_rows

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


def cases(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["cases", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


async def test_a_list_tells_one_case_from_another(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = recorded_loads()[0]
    other, _ = await keep_case(
        kv_deployment(tmp_path / "there"), find_locations().state, RecordedProbe(bad), Unattended(dry_run=True)
    )
    _, out, _ = cases(capsys, "list", "--json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert (first["case"], first["model"], first["cause"], first["fix"]) == (case, "tiny", KV, POOL)
    assert (first["end"], first["source"]) == ("verified", str(tmp_path / "here" / "deployment.yaml"))
    assert (second["case"], second["fix"], second["end"]) == (other.name, "", "diagnosed, nothing changed")
    assert first["time"] <= second["time"]
    _, out, _ = cases(capsys, "list")
    head, *rows = out.splitlines()
    assert head.split()[:3] == ["CASE", "ENDED", "MODEL"]
    assert f"{POOL} verified" in rows[0]
    assert rows[0].count(case) == 1


def test_a_case_of_an_older_release_is_listed_as_well(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    summary = find_locations().state / "cases" / case / "summary.json"
    summary.unlink()
    _, out, _ = cases(capsys, "list", "--json")
    told = json.loads(out)
    assert (told["cause"], told["fix"], told["end"]) == (KV, POOL, "verified")
    assert read_summary(summary.parent) is not None, "it is not rebuilt for every list"
    for name in ("summary.json", "report.md"):
        (summary.parent / name).unlink()
    cases(capsys, "list", "--json")
    assert not summary.exists(), "one that can go on has no last word yet"


def test_a_report_is_written_in_every_form(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, object_ = tmp_path / "r.html", tmp_path / "r.json"
    assert cases(capsys, "report", case, "--to", str(page))[0] == 0
    assert cases(capsys, "report", case, "--to", str(object_))[0] == 0
    text = page.read_text("utf-8")
    assert f"<h1>Case {case}: tiny: verified" in text
    assert all(f"<h2>{title}</h2>" in text for title in ("Symptom", "Hypotheses", "Fix", "Verify", "Facts"))
    assert "<pre>+  args.max-model-len: 1408</pre>" in text or "<pre>+" in text
    assert "model&#x27;s max seq len (4096)" in text
    told = json.loads(object_.read_text("utf-8"))
    shown = [json.loads(line) for line in show(capsys, case, "--json")[1].splitlines()]
    assert [one["title"] for one in told["steps"]] == [one["title"] for one in shown]


def test_a_case_without_a_report_names_what_goes_on_with_it(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    (find_locations().state / "cases" / case / "report.md").unlink()
    code, _, err = cases(capsys, "report", case)
    assert code == 2
    assert f"`vllm-console wizard --resume {case}`" in err
    assert "No such file" not in err


def test_no_such_case_says_how_many_there_are(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        (find_locations().state / "cases" / f"2025-01-01-{number:04d}").mkdir()
    code, _, err = cases(capsys, "show", "1")
    assert code == 2
    assert f"allowed: {case}, " in err
    assert "and 9 more" in err


def test_one_step_of_a_diagnosis(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    error = "ValueError: LoRA rank 64 is greater than max_lora_rank 16."
    (tmp_path / "my.log").write_text(f"ERROR 11-29 10:00:00 [core.py:700] {error}\n{error}\n")
    with pytest.raises(SystemExit):
        main(["diagnose", "my.log", "--keep"])
    capsys.readouterr()
    (told,) = map(json.loads, cases(capsys, "list", "--json")[1].splitlines())
    assert (told["source"], told["paths_from"]) == (str(tmp_path / "my.log"), str(tmp_path))
    _, symptom, _ = show(capsys, told["case"], "--step", "symptom")
    _, causes, _ = show(capsys, told["case"], "--step", "hypotheses")
    assert symptom.startswith("# ")
    assert "## 1." not in symptom
    assert causes.startswith("## 1.")
    assert "Timeline" not in causes
    assert f"begin at {tmp_path}" in symptom


def test_a_note_stands_once_and_is_nothing_unproved() -> None:
    words = "case 7 was cut off while it verified: the file is as it was before"
    session = replace(samples.VERIFIED, notes=(words, "another", words))
    told = {one.title: one.lines for one in sections(session)}
    assert told["What happened on the way"] == (f"note: {words}", "note: another")
    assert words not in " ".join(told["What was not proved"])
    assert "What happened on the way" not in [one.title for one in sections(replace(session, notes=()))]
    assert "\n".join(row.plain for row in note_rows(session, 100)).count(words) == 1
