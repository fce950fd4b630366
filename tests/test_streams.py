"""Each standard stream closed or full, and Ctrl-C from the first moment on: one clear line, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ["--help"],
    ["logs", "LOG"],
    ["logs", "LOG", "--json"],
    ["diagnose", "LOG"],
    ["diagnose", "LOG", "--json"],
    ["playbooks", "list"],
    ["cases", "list"],
    ["engine", "list"],
]
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
WITHOUT_OUTPUT = [
    pytest.param(">&-", "it is closed", id="closed"),
    pytest.param(">/dev/full", "No space left on device", id="full", marks=FULL),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text("(APIServer pid=1) INFO 11-29 10:00:00 [utils.py:233] vLLM API server version 0.11.2\n" * 2000)
    return path


def run(words: list[str], log: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tui.cli", *(str(log) if word == "LOG" else word for word in words)]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(("redirection", "why"), WITHOUT_OUTPUT)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_standard_output(words: list[str], log: Path, redirection: str, why: str) -> None:
    ended = run(words, log, redirection)
    assert ended.stderr == f"Error: standard output cannot be written: {why}\n"
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=FULL)])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_standard_error_where_nothing_is_said_on_it(words: list[str], log: Path, redirection: str) -> None:
    ended = run(words, log, redirection)
    assert ended.stdout
    assert (ended.returncode in (0, 3), ended.stderr) == (True, "")


@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=FULL)])
def test_an_error_is_said_on_what_is_left(log: Path, redirection: str) -> None:
    ended = run(["logs", "LOG.not-there"], log, redirection)
    assert (ended.returncode, ended.stdout.count("\n")) == (2, 1)
    assert "LOG.not-there" in ended.stdout


@FULL
def test_a_note_that_cannot_be_said_ends_the_command(log: Path, tmp_path: Path) -> None:
    ended = run(["diagnose", "LOG", "--report", str(tmp_path / "report.md")], log, "2>/dev/full")
    assert ended.returncode == 2
    assert ended.stdout.endswith("Error: standard error cannot be written: No space left on device\n")


@pytest.mark.parametrize("words", [["logs"], ["logs", "--plain"], ["logs", "-"], ["diagnose"], ["diagnose", "-"]])
def test_no_standard_input_where_a_log_is_read_from_it(words: list[str], log: Path) -> None:
    ended = run(words, log, "<&-")
    assert ended.stderr == "Error: standard input is closed: name a file, or pipe a log in\n"
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_standard_input_where_none_is_read(words: list[str], log: Path) -> None:
    ended = run(words, log, "<&-")
    assert ended.stdout
    assert (ended.returncode in (0, 3), ended.stderr) == (True, "")


def test_no_stream_at_all(log: Path) -> None:
    assert run(["logs", "LOG"], log, "<&- >&- 2>&-").returncode == 2


INTERRUPTED = """
import builtins, os, signal, sys
from tui.entry import main
real, wanted = builtins.__import__, sys.argv.pop()
def importing(name, *rest):
    if name == wanted:
        builtins.__import__ = real
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest)
builtins.__import__ = importing
sys.argv = ["vllm-console", "playbooks", "list"]
main()
"""


@pytest.mark.parametrize(
    ("module", "said"), [("tui.cli", ""), ("click", ""), ("gc", ""), ("playbooks.library", "stopped\n")]
)
def test_ctrl_c_while_things_are_imported(module: str, said: str) -> None:
    def as_at_a_terminal() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=as_at_a_terminal,
        env=os.environ.copy(),
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, said, "")


def test_the_script_is_the_entry_that_waits_for_nothing() -> None:
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert 'vllm-console = "tui.entry:main"' in project
    code = "import sys; before = set(sys.modules); import tui.entry; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["tui", "tui.entry"]
