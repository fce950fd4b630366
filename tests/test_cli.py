"""The command line as a person and a script meet it: help, wrong words, exit codes, no traceback."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from engine_probe.engine import EngineError
from engine_probe.errors import InputError
from tui import cli, failures

PROGRAM = [sys.executable, "-m", "tui.cli"]


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_of_the_table_exists_and_has_help(name: str) -> None:
    shown = run(name, "--help")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(f"Usage: {cli.PROGRAM} {name}")


def test_help_lists_exactly_the_commands_of_the_table() -> None:
    shown = run("--help").stdout
    listed = [line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line[:3].strip()]
    assert listed == list(cli.COMMANDS)


def test_a_wrong_command_is_answered_with_the_nearest() -> None:
    ended = run("engin")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "no command 'engin'. Did you mean 'engine'?" in ended.stderr


def test_a_model_that_is_not_there_is_said_before_anything_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("models:\n  - name: tiny\n    model: ./nowhere\n", encoding="utf-8")
    ended = run("wizard", "--deployment", str(file))
    assert ended.returncode == 2
    assert "model folder of tiny not found" in ended.stderr


def test_a_word_near_nothing_gets_the_list() -> None:
    ended = run("xyzzy")
    assert ended.returncode == 2
    assert "There are: wizard, probe" in ended.stderr


@pytest.mark.parametrize("words", [["--jsn"], ["engine", "list", "--jsn"]])
def test_a_wrong_option_is_answered_with_the_nearest(words: list[str]) -> None:
    ended = run(*words)
    assert ended.returncode == 2
    assert "--json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_option_of_a_bare_call_before_a_command_says_where_it_goes() -> None:
    ended = run("--json", "engine", "list")
    assert ended.returncode == 2
    assert "engine --json" in ended.stderr


def test_version() -> None:
    ended = run("--version")
    assert ended.returncode == 0
    assert ended.stdout.startswith("vllm-console ")


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail(_words: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main(["engine", "--token=hf_secret"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("unknown key", file="a.yaml", line=3), 2, "Error: a.yaml:3: unknown key"),
        (EngineError("no vLLM was found"), 4, "Error: no vLLM was found"),
        (KeyboardInterrupt(), 130, "stopped"),
        (click.Abort(), 130, "stopped"),
        (click.UsageError("no such thing"), 2, "no such thing"),
        (click.exceptions.Exit(3), 3, ""),
        (SystemExit(5), 5, ""),
    ],
)
def test_each_end_has_its_code_and_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    assert _raise(monkeypatch, error) == code
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


def test_an_internal_error_is_one_line_and_its_traceback_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _raise(monkeypatch, ZeroDivisionError("one\ntwo")) == failures.INTERNAL
    line = capsys.readouterr().err
    assert line.startswith("internal error: ZeroDivisionError: one, details in ")
    assert line.count("\n") == 1
    kept = Path(line.strip().rpartition("details in ")[2])
    assert kept.is_relative_to(os.environ["XDG_STATE_HOME"])
    content = kept.read_text()
    assert "Traceback (most recent call last)" in content
    assert "hf_secret" not in content


def test_an_internal_error_without_a_state_folder_is_still_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert _raise(monkeypatch, ZeroDivisionError("x")) == failures.INTERNAL
    assert str(tmp_path / "internal-error-") in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error() -> None:
    code = "from tui.cli import main; main(['--help'])"
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        _, err = process.communicate()
    assert process.returncode == failures.BROKEN_PIPE
    assert err == b""


def test_a_broken_pipe_that_is_not_stdout_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _raise(monkeypatch, BrokenPipeError("the engine is gone")) == failures.INTERNAL
    assert "BrokenPipeError" in capsys.readouterr().err


def test_without_a_terminal_a_bare_call_runs_the_first_lab_case(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    real = cli._run

    def remember(words: list[str]) -> int:
        if words[:1] == ["lab"]:
            called.append(words)
            return 1
        return real(words)

    monkeypatch.setattr(cli, "_run", remember)
    monkeypatch.setattr(cli, "has_terminal", lambda: False)
    with pytest.raises(SystemExit) as ended:
        cli.main(["--cold"])
    assert ended.value.code == 1
    assert called == [["lab", "kv-cache-too-small-for-max-model-len", "--yes", "--cold"]]


def test_sigterm_unwinds_the_stack() -> None:
    code = (
        "import sys, signal, os\n"
        "from tui import cli\n"
        "def wait(_):\n"
        "    try:\n"
        "        print('ready', flush=True); signal.pause()\n"
        "    finally:\n"
        "        print('cleaned up', flush=True)\n"
        "cli._run = wait\n"
        "cli.main([])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "cleaned up\n"
    assert process.returncode == 143


def _on_terminal(code: str, env: dict[str, str]) -> str:
    """What the code prints when stdout is a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=slave, stdin=slave, env={**os.environ, **env}
    ) as process:
        os.close(slave)
        printed = b""
        while True:
            try:
                block = os.read(master, 4096)
            except OSError:  # Linux says EIO when the last writer has gone
                break
            if not block:
                break
            printed += block
        process.wait()
    os.close(master)
    return printed.decode()


SHOW = "from tui.output import Output; Output().text('[bold]x[/bold]\\x1b[31my', 'bold red')"


def test_colours_only_on_a_terminal_that_wants_them() -> None:
    env = {"TERM": "xterm", "NO_COLOR": ""}
    assert "\x1b[1;31m" in _on_terminal(SHOW, env)
    assert "\x1b[" not in _on_terminal(SHOW, {**env, "NO_COLOR": "1"})
    assert "\x1b[" not in _on_terminal(SHOW, {**env, "TERM": "dumb"})
    assert "\x1b" not in subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout


def test_text_is_never_markup_nor_a_terminal_command() -> None:
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout
    assert shown == "[bold]x[/bold]y\n"


WRITE = (
    "import sys; from tui import cli; from tui.output import Output, note\n"
    "def show(_):\n"
    "    Output().text('4,096 → 1,408 ≥ 8 ⏎ \\udcff'); note('a → b'); print('NAME…'); return 0\n"
    "cli._run = show; cli.main([])\n"
)


def _written(**env: str) -> tuple[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    command = [sys.executable, "-c", WRITE]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, env={**kept, **env})
    return ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_a_narrow_encoding_gets_signs_in_ascii_and_never_fails(env: dict[str, str]) -> None:
    out, err = _written(**env)
    assert out == "4,096 -> 1,408 >= 8 \\u23ce <U+DCFF>\nNAME...\n"
    assert err == "a -> b\n"


@pytest.mark.parametrize("env", [{}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}], ids=str)
def test_a_wide_encoding_keeps_its_signs(env: dict[str, str]) -> None:
    out, err = _written(**env)
    assert out == "4,096 → 1,408 ≥ 8 ⏎ <U+DCFF>\nNAME…\n"
    assert err == "a → b\n"


def test_columns_stay_aligned_in_a_narrow_encoding() -> None:
    code = (
        "import sys; sys.stdout.reconfigure(encoding='ascii')\n"
        "from tui.output import Output; Output().table(('A', 'B'), [('x → y', '1'), ('x', '2')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [line.rstrip() for line in shown.splitlines()] == ["A       B", "x -> y  1", "x       2"]


def test_what_looks_like_a_secret_is_masked_in_errors(tmp_path: Path) -> None:
    secret = "hf_" + "Ab1" * 10
    deployment = tmp_path / "deployment.yaml"
    deployment.write_text(f"bogus_{secret}: 1\nmodels: []\n", encoding="utf-8")
    for words in (["probe", str(deployment)], ["probe", f"--{secret}"], ["logs", "no", f"--grep=({secret}"]):
        ended = run(*words)
        assert ended.returncode == 2
        assert "***" in ended.stderr
        assert secret not in ended.stderr + ended.stdout
