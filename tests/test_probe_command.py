"""What `probe` prints at its end, and how it takes its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_probe import events as ev
from engine_probe.launch import Deployment, Launch
from tui.commands.probe import probe
from tui.commands.probe_files import RunFiles, file_stem
from tui.commands.probe_summary import Outcomes, print_end
from tui.output import Output

KV_ERROR = {
    "type": "ValueError",
    "message": "To serve at least one request with the model's max seq len (4096), (0.25 GiB KV cache is needed, which "
    "is larger than the available KV cache memory (0.09 GiB). Based on the available memory, the estimated maximum "
    "model length is 1408. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
    "frames": [],
}
COVER = {"type": "RuntimeError", "message": "Engine core initialization failed. See root cause above.", "frames": []}


def outcomes(*events: ev.Event) -> Outcomes:
    found = Outcomes(("a", "b"))
    for event in events:
        found.take(event)
    return found


FAILED_B = (
    ev.Started("a"),
    ev.Started("b"),
    ev.StageEntered("b", stage="memory_planning"),
    ev.Failed("b", reason="vllm exited with code 1 before it was ready", exceptions=[KV_ERROR, COVER]),
    ev.Ended("b"),
    ev.Ended("a"),
)


def test_each_model_has_its_last_line_and_the_innocent_say_why_they_were_stopped() -> None:
    found = outcomes(*FAILED_B)
    assert found.line("a", "warm") == "stopped, because b failed"
    assert found.line("b", "warm") == "failed in memory_planning: vllm exited with code 1 before it was ready"
    assert outcomes(ev.Started("a"), ev.Failed("a", reason="x")).line("b", "warm") == "not started, because a failed"


def test_a_model_that_loads_but_refuses_its_request_is_no_success() -> None:
    answer = ev.RequestAnswered("a", id="1", path="/v1/completions", status=500, error="no kernel")
    found = outcomes(ev.Started("a"), ev.Ready("a"), answer)
    assert found.line("a", "cold") == "loaded, but /v1/completions gave 500: no kernel"


@pytest.mark.parametrize(
    ("path", "next_step"),
    [
        (Path("d.yaml"), "next: vllm-console replay kv-cache-too-small-for-max-model-len --deployment d.yaml"),
        (None, "next: vllm-console playbooks show kv-cache-too-small-for-max-model-len"),
    ],
)
def test_a_failure_that_a_playbook_knows_leads_to_it(
    path: Path | None, next_step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = Deployment((Launch("a", "m"), Launch("b", "m")), path=path)
    with RunFiles() as files:
        print_end(Output(), outcomes(*FAILED_B), deployment, files, "warm")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("root exception: ValueError: To serve at least one request")
    assert next_step in lines
    assert lines[-1].endswith("b.log")


def test_a_failure_that_no_playbook_knows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    failed = ev.Failed("a", reason="x", exceptions=[{"type": "KeyError", "message": "'odd'", "frames": []}])
    with RunFiles() as files:
        print_end(Output(), outcomes(failed), Deployment((Launch("a", "m"),)), files, "warm")
    assert "no playbook knows it" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        ("--grade dry vllm serve m --seed 1", "vllm serve m --seed 1"),
        ("--grade dry -- vllm serve m --seed 1", "vllm serve m --seed 1"),
        ("-v /opt/venv/bin/vllm serve m -tp 2", "/opt/venv/bin/vllm serve m -tp 2"),
        (
            "python -m vllm.entrypoints.openai.api_server --model m",
            "python -m vllm.entrypoints.openai.api_server --model m",
        ),
        ("d.yaml --grade dry", "d.yaml"),
        ("--engine /opt/venv/bin/python d.yaml", "d.yaml"),
        ("--engine /opt/venv/bin/python -- vllm serve m", "vllm serve m"),
    ],
)
def test_options_stand_on_either_side_and_the_launch_keeps_its_own(words: str, launch: str) -> None:
    context = probe.make_context("probe", words.split())
    assert " ".join(context.params["words"]) == launch


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", ".hidden", "", "x" * 500, "a\nb", "\x1b[31m"])
def test_a_model_s_name_stays_inside_the_run_s_folder(name: str) -> None:
    stem = file_stem(name)
    assert stem
    assert len(stem) <= 100
    assert not set(stem) & set("/\n\x1b")
    assert not stem.startswith(".")


def test_what_is_printed_is_kept_from_byte_0() -> None:
    with RunFiles() as files:
        files.write(ev.Text("a", offset=0, line="one"))
        files.write(ev.Text("a", offset=4, line="two"))
        assert files.log_of("a").read_text(encoding="utf-8") == "one\ntwo\n"
        assert len((files.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()) == 2
