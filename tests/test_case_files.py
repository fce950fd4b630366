"""Anything may lie where a case keeps its files: pipes, bytes that are no text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine_probe.errors import InputError, in_words
from engine_probe.locations import find_locations
from playbooks.case import CaseFolder
from playbooks.effects import EffectFailed, WriteReport
from playbooks.session_files import SessionFiles
from playbooks.unattended import Unattended
from tests import tui_samples as samples
from tests.kept_case_samples import keep_case, kv_deployment
from tests.recorded_probe import RecordedProbe, recorded_loads
from tui.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
async def case(tmp_path: Path) -> str:
    probe = RecordedProbe(*recorded_loads())
    kept, _ = await keep_case(kv_deployment(tmp_path / "here"), find_locations().state, probe, Unattended())
    return kept.name


def cases(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["cases", *words])
    return int(ended.value.code or 0)


NAMES = ("events.jsonl", "report.md", "diagnosis.json", "summary.json", "fingerprints.json")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    name: str, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = find_locations().state / "cases" / case / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert cases("show", case) == 0
    for words in (["list"], ["report", case]):
        assert cases(*words) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_a_report_that_is_no_utf_8_is_shown_all_the_same(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = find_locations().state / "cases" / case
    (folder / "report.md").write_bytes(b"# first\n\xff\xfe last\n")
    (folder / "events.jsonl").unlink()
    assert cases("show", case) == 0
    out = capsys.readouterr().out
    assert "first" in out
    assert "last" in out
    assert cases("report", case) == 0
    assert "last" in capsys.readouterr().out


def test_a_report_that_cannot_be_kept_is_told_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    done = SessionFiles(CaseFolder(folder)).perform(WriteReport(), samples.VERIFIED)
    assert isinstance(done, EffectFailed)
    why = f"{folder}/deployment-after.yaml: No such file or directory"
    assert done.text == f"the report of the case cannot be kept: {why}"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
        (OSError(18, "Invalid cross-device link", "/a", None, "/b"), "/a and /b: Invalid cross-device link"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("there are no more cases"), "there are no more cases"),
        (InputError("no", file="f", line=2), "f:2: no"),
    ],
)
def test_an_error_is_told_without_the_numbers_of_the_system(error: Exception, words: str) -> None:
    assert in_words(error) == words
