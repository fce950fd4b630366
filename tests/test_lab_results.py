"""What the lab says of a fault and of all, and what it writes into the playbooks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner

from engine_probe.engine import local_engine
from engine_probe.facts import Known
from engine_probe.launch import Deployment, Launch
from playbooks.claims import Cause
from playbooks.context import new_session
from playbooks.lab.choosing import Turn
from playbooks.lab.faults import fault_named, faults
from playbooks.lab.recording import record, with_test
from playbooks.library import library_folder, load_library
from playbooks.session import FixOption
from tui.commands import lab as lab_command
from tui.commands.lab import Teller, lab
from tui.commands.lab_result import Result, summary
from tui.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.session import Session

KV = "kv-cache-too-small-for-max-model-len"
FAULT = fault_named(KV)
TWIN = next(fault for fault in faults() if fault.is_healthy)


def session_of(*causes: str, **more: Any) -> Session:
    """One that has ended with these causes."""
    found = new_session("", Deployment((Launch("tiny", "/models/tiny"),)), "warm", "warm")
    told = tuple(Cause(one, one, "memory", "resource", "engine", None, 0.9, "", ()) for one in causes)
    return replace(found, causes=told, **{"verdict": "verified", "applied_fix": "a-fix", **more})


def result(session: Session | None, fault: Any = FAULT, **more: Any) -> Result:
    return Result(Turn(fault, "warm"), 7.94, session, **more)


def test_the_contracts_object() -> None:
    found = result(session_of(KV, "other")).object()
    wanted = {"fault": KV, "cause": KV, "diagnosed": KV, "rank": 1, "fix": "a-fix", "verified": True, "seconds": 7.9}
    assert {key: found[key] for key in wanted} == wanted
    assert (found["engine"], found["skipped"], found["left_behind"]) == ("warm", None, [])
    json.dumps(found)


@pytest.mark.parametrize(
    ("session", "more", "why"),
    [
        (session_of("other", KV), {}, f"diagnosed other, not {KV}"),
        (session_of(verdict="healthy"), {}, f"diagnosed healthy, not {KV}"),
        (session_of(KV, verdict="not verified"), {}, "the fix is not verified: not verified"),
        (session_of(KV), {"left_behind": ("process 7 (vllm)",)}, "left behind: process 7 (vllm)"),
        (None, {"error": "no engine"}, "no engine"),
    ],
)
def test_what_is_missing_to_a_proof(session: Session | None, more: dict[str, Any], why: str) -> None:
    found = result(session, **more)
    assert (found.verified, found.why_not) == (False, why)
    assert lab_command._exit_code(found) == 1


def test_a_fault_may_want_its_fix_and_its_symptom() -> None:
    wants = replace(FAULT, spec=msgspec.structs.replace(FAULT.spec, fix="another"))
    assert result(session_of(KV), wants).why_not == "the fix was a-fix, not another"
    wants = replace(FAULT, spec=msgspec.structs.replace(FAULT.spec, symptom="answers-are-wrong"))
    assert result(session_of(KV), wants).why_not == "the symptom was None, not answers-are-wrong"


def test_in_a_twin_nothing_may_be_found() -> None:
    well = result(session_of(verdict="healthy", applied_fix=None), TWIN)
    assert (well.verified, well.rank, well.diagnosed, well.object()["fix"]) == (True, 1, "healthy", None)
    ill = result(session_of(KV), TWIN)
    assert (ill.verified, ill.rank, ill.why_not) == (False, None, f"diagnosed {KV}, not healthy")


def test_the_rank_is_that_of_the_cause_that_was_made() -> None:
    assert [result(session_of(*ids)).rank for ids in ((KV,), ("a", KV), ("a",), ())] == [1, 2, None, None]


def test_what_was_skipped_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = result(None, skipped="there is no GPU")
    assert (skipped.verified, skipped.why_not, lab_command._exit_code(skipped)) == (False, None, 0)
    Teller(Output(), is_brief=True, keeps=False).end(skipped)
    assert "there is no GPU" in capsys.readouterr().out
    words = summary([skipped, result(session_of(KV)), result(session_of())], 130.0)
    assert words == "3 faults: 1 verified, 1 failed, 1 skipped; a warm one took 7.9 s (median); 2 min 10 s in all"


def test_the_end_of_one_fault_names_cause_change_and_case(capsys: pytest.CaptureFixture[str]) -> None:
    fix = FixOption("a-fix", "tiny", "args.x", None, "1", "x of tiny: not set → 1", (), "", (), "", "low")
    session = session_of(KV, fixes=(fix,), case="2026-11-30-0007")
    Teller(Output(), is_brief=False, keeps=False).end(result(session))
    told = " ".join(capsys.readouterr().out.split())
    assert told == f"found {KV}; mended by a-fix: x of tiny: not set → 1; case 2026-11-30-0007; 7.9 s, warm"
    assert result(session).object()["case"] == "2026-11-30-0007"


def test_what_is_kept_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny").mkdir()
    for name in ("deployment.yaml", "deployment.yaml.r1", "tiny/tokenizer.json.r1"):
        (tmp_path / name).touch()
    found = result(session_of(KV), folder=tmp_path)
    Teller(Output(), is_brief=True, keeps=True).end(found)
    told = " ".join(capsys.readouterr().out.split())
    assert f"kept in {tmp_path}: deployment.yaml is as the session left it" in told
    assert "broken, as it was: deployment.yaml.r1, tiny/tokenizer.json.r1; unbroken: whole" in told
    assert found.object()["folder"] == str(tmp_path)


def test_what_this_host_lacks_is_skipped_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    wants = replace(FAULT, spec=msgspec.structs.replace(FAULT.spec, needs=["network"]))
    monkeypatch.setattr(lab_command, "fault_named", lambda _name: wants)
    monkeypatch.setattr(lab_command, "choose_engine", lambda _name: local_engine("/nowhere/python", "the test"))
    found = CliRunner().invoke(lab, ["any", "--json"], standalone_mode=False)
    assert found.exception is None, found.output
    assert json.loads(found.stdout.splitlines()[-1])["skipped"]
    assert found.return_value == 0


def test_an_unknown_family_and_a_family_beside_a_name_are_input_errors() -> None:
    for words in (["--all", "--family", "memry"], [KV, "--family", "memory"], ["list", "--family", "x"]):
        found = CliRunner().invoke(lab, words)
        assert type(found.exception).__name__ == "InputError"


def test_the_list_of_a_family() -> None:
    rows = CliRunner().invoke(lab, ["list", "--family", "memory", "--json"]).output.splitlines()
    assert {json.loads(row)["family"] for row in rows} == {"memory"}
    assert len(rows) == len(faults("memory"))


LINE = "  - {vllm: 0.32.0, device: cpu, date: 2026-11-30, fix: a-fix, outcome: verified}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("title: x   # words\n", "title: x   # words\n\ntested:\n" + LINE),
        ("tested:\n" + LINE.replace("11-30", "01-01") + "  - {vllm: 1}\n", "tested:\n" + LINE + "  - {vllm: 1}\n"),
        ("tested:\n  - {vllm: 1}\n# end\n", "tested:\n  - {vllm: 1}\n" + LINE + "# end\n"),
    ],
    ids=["first", "again", "beside"],
)
def test_a_run_is_written_under_tested_and_comments_stay(before: str, after: str) -> None:
    assert with_test(before, "0.32.0", "cpu", "a-fix", "verified", date(2026, 11, 30)) == after


def test_what_was_proved_is_recorded_in_its_playbook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = next(library_folder().glob(f"*/{KV}.yaml"))
    path = tmp_path / source.name
    path.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    library = load_library()
    monkeypatch.setattr(next(one for one in library if one.id == KV), "path", path)
    facts = {"engine.vllm_version": Known("9.9.9", "measured", "the engine")}
    twin = session_of(verdict="healthy", applied_fix=None)
    assert record([session_of(KV, facts=facts), twin], library, date(2026, 11, 30)) == [path]
    line = "  - {vllm: 9.9.9, device: unknown, date: 2026-11-30, fix: a-fix, outcome: verified}"
    assert line in path.read_text(encoding="utf-8").splitlines()
