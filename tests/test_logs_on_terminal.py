"""`logs` on a real pseudo-terminal: what opens the viewer, what prints, and where the keyboard is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from terminals import PROGRAM, on_terminal
from vllm_log_samples import LOAD

LINES = LOAD.decode().split("\n")
LOGS = f"{PROGRAM} logs"
SHOWN = sum("blocks" in line for line in LINES[10:17])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n")
    return path


def record(clock: str, text: str) -> str:
    return f"INFO 03-02 {clock} [core.py:1] {text}\n"


def program(folder: Path, name: str, script: str) -> str:
    """A stand-in for `docker` and its like; returns what puts it on PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f'PATH="{folder}:$PATH"'


def test_a_pipe_is_looked_at_and_the_keyboard_still_works(path: Path, tmp_path: Path) -> None:
    with on_terminal(f"cat {path} | {LOGS} -", tmp_path) as terminal:
        terminal.wait_for(f"standard input · {len(LINES)} lines")
        terminal.wait_for("the pipe was closed; nothing more comes")
        terminal.press("?")
        terminal.wait_for("vllm-console   help")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_a_pipe_without_any_source_is_looked_at_too(path: Path, tmp_path: Path) -> None:
    with on_terminal(f"cat {path} | {LOGS}", tmp_path) as terminal:
        terminal.wait_for(f"standard input · {len(LINES)} lines")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_what_comes_through_the_pipe_later_is_followed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with on_terminal(f"cat {fifo} | {LOGS} -", tmp_path) as terminal, fifo.open("w", buffering=1) as writing:
        writing.write(record("10:00:01", "first of all"))
        terminal.wait_for("first of all")
        terminal.drawn = ""
        writing.write(record("10:00:02", "second of all"))
        terminal.wait_for("second of all")
        terminal.press("q")
        writing.close()
        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("words", ["--plain", "--json", "--stages", "--plain --merge"])
def test_printing_options_print_on_a_terminal(path: Path, tmp_path: Path, words: str) -> None:
    with on_terminal(f"cat {path} | {LOGS} - {words}; echo ended $?", tmp_path, columns=500) as terminal:
        terminal.wait_for("ended 0")
        assert "vLLM API server version" in terminal.drawn
        assert "standard input" not in terminal.drawn


def test_without_a_screen_it_prints(path: Path, tmp_path: Path) -> None:
    with on_terminal(f"cat {path} | {LOGS} | cat; TERM=dumb {LOGS} {path}; echo ended $?", tmp_path) as terminal:
        terminal.wait_for("ended 0")
        assert terminal.drawn.count("non-default args") == 2
        assert "following" not in terminal.drawn


def test_without_a_terminal_to_read_keys_from_it_prints(path: Path, tmp_path: Path) -> None:
    """setsid: the process has no controlling terminal, although it can draw on one."""
    with on_terminal(f"cat {path} | setsid -w {LOGS} -; echo ended $?", tmp_path, columns=500) as terminal:
        terminal.wait_for("ended 0")
        assert "non-default args" in terminal.drawn
        assert "standard input" not in terminal.drawn


def test_several_files_are_merged_by_time_and_one_is_shown_alone(tmp_path: Path) -> None:
    (tmp_path / "head.log").write_text(record("10:00:01", "h one") + record("10:00:03", "h three"))
    (tmp_path / "worker.log").write_text(record("10:00:02", "w two") + record("10:00:04", "w four"))
    with on_terminal(f"cd {tmp_path} && PYTHONPATH={Path.cwd()} {LOGS} head.log worker.log", tmp_path) as terminal:
        terminal.wait_for("head.log + worker.log · 4 lines")
        for text in ("h one", "w two", "h three", "w four"):
            terminal.wait_for(text)
        places = [terminal.drawn.index(text) for text in ("h one", "w two", "h three", "w four")]
        assert places == sorted(places)
        terminal.wait_for("10:00:02 worker")
        terminal.press("m")
        terminal.wait_for("head.log, 1 of 2 · 4 lines, 2 shown")
        terminal.press("m")
        terminal.wait_for("worker.log, 2 of 2")
        terminal.press("m")
        terminal.wait_for("head.log + worker.log")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_filters_choose_what_the_viewer_shows_first(path: Path, tmp_path: Path) -> None:
    words = "--level error --layer engine --grep blocks --follow"
    with on_terminal(f"{LOGS} {path} {words}", tmp_path) as terminal:
        terminal.wait_for(f"vllm.log · {len(LINES)} lines, {SHOWN} shown")
        terminal.wait_for("only blocks")
        terminal.press("&")
        terminal.wait_for(f"vllm.log · {len(LINES)} lines, 7 shown")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_a_container_is_followed_and_its_program_ends_with_the_viewer(tmp_path: Path) -> None:
    script = (
        f"echo $$ > {tmp_path}/pid; echo 'INFO 03-02 10:00:01 [core.py:1] from the container'; exec tail -f /dev/null"
    )
    on_path = program(tmp_path, "docker", script)
    with on_terminal(f"{on_path} {LOGS} docker:vllm", tmp_path) as terminal:
        terminal.wait_for("docker:vllm · 1 line")
        terminal.wait_for("from the container")
        terminal.press("q")
        assert terminal.wait_for_end() == 0
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_container_that_is_not_there_is_said(tmp_path: Path) -> None:
    on_path = program(tmp_path, "docker", "echo Error: No such container: vllm >&2; exit 1")
    with on_terminal(f"{on_path} {LOGS} docker:vllm", tmp_path) as terminal:
        terminal.wait_for("No such container: vllm")
        terminal.wait_for("docker logs -f vllm ended with exit code 1")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def test_a_wrong_source_is_an_error_before_anything_is_drawn(tmp_path: Path) -> None:
    with on_terminal(f"{LOGS} absent.log other.log; echo ended $?", tmp_path) as terminal:
        terminal.wait_for("ended 2")
        assert "cannot read absent.log" in terminal.drawn


@pytest.mark.parametrize("command", ["logs {path} --ascii", "--ascii"])
def test_ascii_only(path: Path, tmp_path: Path, command: str) -> None:
    with on_terminal(f"{PROGRAM} {command.format(path=path)}", tmp_path) as terminal:
        terminal.wait_for("quit")
        assert terminal.drawn.isascii()
        terminal.press("q")
        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("settings", ["TERM=xterm-mono", "NO_COLOR=1", "TERM=xterm COLORTERM="])
def test_the_marked_row_is_seen_without_colours_and_ctrl_c_leaves(path: Path, tmp_path: Path, settings: str) -> None:
    with on_terminal(f"{settings} {LOGS} {path}", tmp_path) as terminal:
        terminal.wait_for(f"· {len(LINES)} lines")
        terminal.press("!")
        terminal.wait_for("Error, line")
        terminal.wait_for("10:11:46▸E")
        terminal.press("\x03")
        assert terminal.wait_for_end() == 0
