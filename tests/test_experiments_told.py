"""What a replay prints of experiments while it goes on: each verdict once, with its reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.decisions import RunExperiment
from playbooks.diagnose import step
from playbooks.effects import Examined
from tests.experiment_samples import KV, WRONG, two_claims
from tests.test_experiments import diagnosed, file, measured
from tui.commands.replay_text import SessionPrinter
from tui.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ["file"]  # the fixture


def test_a_verdict_is_told_once_with_its_reasons(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = two_claims(tmp_path)
    printer = SessionPrinter(Output())
    session = diagnosed(file, context)
    printer.on_change(session, None)
    assert "refuted" not in capsys.readouterr().out
    session, _ = step(session, RunExperiment(KV, WRONG), context)
    printer.on_change(session, None)
    assert "-- trying: compare the tensors" in capsys.readouterr().out
    session, _ = step(session, Examined("tensor-audit", measured(files__missing_tensors=0)), context)
    for _ in range(2):
        printer.on_change(session, None)
    told = capsys.readouterr().out
    assert told.count("refuted: The files lack tensors.") == 1
    assert "tensors that are not there 0" in told


def test_with_json_nothing_is_told_twice(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = two_claims(tmp_path)
    printer = SessionPrinter(Output(as_json=True))
    session, _ = step(diagnosed(file, context), RunExperiment(KV, WRONG), context)
    printer.on_change(session, None)
    session, _ = step(session, Examined("tensor-audit", measured(files__missing_tensors=0)), context)
    printer.on_change(session, None)
    assert capsys.readouterr().out == ""
