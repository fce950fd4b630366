"""`plan --screen` as a person has it: on a terminal of its own, from a file to a saved revision."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.plan_samples import write_plan
from tests.terminals import PROGRAM, on_terminal

FOR = "--gpus 8xA100-80GB --vllm 0.19.0 --screen"


def test_it_opens_tries_saves_and_takes_back(tmp_path):
    path = write_plan(tmp_path)
    before = path.read_bytes()
    with on_terminal(f"{PROGRAM} plan {path} {FOR}", tmp_path) as terminal:
        terminal.wait_for("does not fit: code-8b on GPU 0")
        terminal.press("-")
        terminal.wait_for("one change tried, not saved")
        terminal.press("w")
        terminal.wait_for("Save this to the file?")
        terminal.press("\r")
        terminal.wait_for("Saved: ")
        assert b"0.89" in path.read_bytes()
        terminal.press("z")
        terminal.wait_for("As it was before: ")
        assert path.read_bytes() == before
        terminal.press("q")
        assert terminal.wait_for_end() == 0
    assert [one.name for one in tmp_path.iterdir() if re.search(r"yaml\.r\d", one.name)] == []


def test_a_compose_file_is_shown_too(tmp_path):
    write_plan(tmp_path)
    path = tmp_path / "docker-compose.yml"
    command = f"--model {tmp_path}/llama-8b --max-model-len 4096"
    path.write_text(f"services:\n  chat:\n    image: vllm/vllm-openai:v0.19.0\n    command: {command}\n")
    with on_terminal(f"{PROGRAM} plan {path} {FOR}", tmp_path) as terminal:
        terminal.wait_for("it fits")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.yaml", "--screen"], "nowhere.yaml"),
        (["deployment.yaml", "--screen", "--json"], "one of them is wanted"),
        (["deployment.yaml", "--screen"], "the console needs a terminal"),
    ],
)
def test_what_cannot_be_shown_is_said_and_the_exit_code_is_2(tmp_path, arguments, words):
    write_plan(tmp_path)
    command = [sys.executable, "-m", "tui.cli", "plan", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["", "wizard --lab kv-cache-too-small-for-max-model-len", "plan {path} --screen"])
def test_what_draws_on_stderr_is_not_drawn_into_a_file(tmp_path, words):
    told = tmp_path / "err.log"
    command = words.format(path=write_plan(tmp_path))
    with on_terminal(f"{PROGRAM} {command} 2>{told}", tmp_path) as terminal:
        assert terminal.wait_for_end() == 2
    text = told.read_text(encoding="utf-8")
    assert "the console needs a terminal, and stderr, on which it draws, is none" in text
    assert "\x1b" not in text
