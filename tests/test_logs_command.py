"""`vllm-console logs` as a person and a script meet it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from vllm_log_samples import LOAD

from tui import failures
from tui.widgets.clean_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = [sys.executable, "-m", "tui.cli", "logs"]
LINES = LOAD.decode().split("\n")


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    options = {"stdin": subprocess.DEVNULL, **options} if "input" not in options else options
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n")
    return path


def test_without_a_filter_the_log_is_printed_as_it_is(path: Path) -> None:
    ended = run(str(path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == LINES


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--level", "error", "--layer", "engine"], [10, 11, 12, 13, 14, 15, 16]),
        (["--level", "WARNING", "--process", "Worker"], [8]),
        (["--stage", "config", "--stage", "engine_build"], [0, 1, 2]),
        (["--rank", "1"], [4, 8]),
        (["--since", "10:11:45", "--until", "03-02 10:11:46", "--grep", r"^\(Eng.*blocks"], [13, 16]),
        (["--grep", "(?i)health"], [18]),
    ],
)
def test_filters(path: Path, words: list[str], numbers: list[int]) -> None:
    ended = run(str(path), *words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [LINES[number] for number in numbers]


def test_lines_of_one_model(path: Path) -> None:
    path.write_bytes(LOAD + b"\n" + LOAD.replace(b"m-7b", b"n-8b"))
    shown = run(str(path), "--model", "n-8b", "--stage", "engine_build").stdout
    assert "acme/n-8b" in shown
    assert "acme/m-7b" not in shown


def test_json_says_what_is_known_of_each_line(path: Path) -> None:
    ended = run(str(path), "--json", "--level", "WARNING", "--layer", "model_runner")
    assert json.loads(ended.stdout) == {
        "source": str(path),
        "line": 9,
        "level": "WARNING",
        "layer": "model_runner",
        "process": "Worker_TP1",
        "stage": "weight_load",
        "continues": False,
        "text": LINES[8],
    }


@pytest.mark.parametrize("words", [["--grep", "absent"], ["--model", "zzz", "--plain"], ["--model", "zz", "--stages"]])
@pytest.mark.parametrize("merge", [False, True])
def test_that_nothing_matches_is_said(path: Path, tmp_path: Path, words: list[str], merge: bool) -> None:
    other = tmp_path / "other.log"
    other.write_text("hello\n")
    sources = [str(path), str(other), "--merge"] if merge else [str(path)]
    ended = run(*sources, *words)
    count = len(LINES) + merge
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", f"no line of {count} matches\n")
    assert run(*sources, *words, "--json").stderr == ""


def test_of_an_empty_log_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.write_text("")
    ended = run(str(path), "--grep", "x")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_escapes_are_gone_as_they_are_in_the_viewer(tmp_path: Path) -> None:
    lines = [
        "a\x9b31mb\x9b0m",
        "c\x1bP1;2qbody\x1b\\d",
        "e\x90q#0\x9cf",
        "g\x9d0;title\x07h",
        "i\x1b]8;;http://x\x07j\x7f",
    ]
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    printed = run(str(path), "--plain").stdout.splitlines()
    assert printed == ["ab", "cd", "ef", "gh", "ij␡"] == [clean(line) for line in lines]


def test_stages(path: Path) -> None:
    shown = [line.split()[:2] for line in run(str(path), "--stages").stdout.splitlines()]
    assert shown[:4] == [["config", "1"], ["engine_build", "3"], ["weight_load", "4"], ["memory_planning", "10"]]


def test_stages_tell_how_long_they_took_in_one_line_of_some_width(path: Path) -> None:
    text = LOAD.decode().replace("03-02 10:11:", "12-31 23:59:")
    path.write_text(text + "\n" + "x" * 300, encoding="utf-8")
    shown = run(str(path), "--stages").stdout.splitlines()
    assert all(len(line) <= 100 for line in shown)
    told = [json.loads(line) for line in run(str(path), "--stages", "--json").stdout.splitlines()]
    assert [one["stage"] for one in told] == [line.split()[0] for line in shown]
    assert all(one["text"] in text for one in told)
    assert told[0]["seconds"] > 0
    assert f"{told[0]['seconds']:,.1f} s" in shown[0]
    assert told[-1]["seconds"] is None


def test_of_stages_without_times_no_seconds_are_told(path: Path) -> None:
    path.write_text(re.sub(r"03-02 \d\d:\d\d:\d\d ", "", LOAD.decode()), encoding="utf-8")
    told = [json.loads(line) for line in run(str(path), "--stages", "--json").stdout.splitlines()]
    assert [one["seconds"] for one in told] == [None] * len(told)


@pytest.mark.parametrize("words", [[], ["-"]])
def test_standard_input(words: list[str]) -> None:
    ended = run(*words, "--grep", "failed", input=LOAD.decode() + "\nthe end failed")
    assert ended.stdout.splitlines() == [LINES[10], LINES[17], "the end failed"]


def test_several_sources_are_named(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text("hello\n")
    shown = run(str(path), str(other), "--grep", "hello|GET").stdout
    assert shown.splitlines() == [f"==> {path} <==", LINES[18], f"==> {other} <==", "hello"]


def record(clock: str, text: str) -> str:
    return f"INFO 03-02 {clock} [core.py:1] {text}"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.log", tmp_path / "b.log"
    a.write_text("\n".join([record("10:00:01", "a1"), "bare", record("10:00:03", "a3")]) + "\n")
    b.write_text("\n".join([record("10:00:02", "b2"), record("10:00:04", "b4 last without an end")]))
    return a, b


def test_merged_lines_stand_behind_their_source(two: tuple[Path, Path]) -> None:
    a, b = two
    ended = run(str(a), str(b), "--merge")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        f"{a}: {record('10:00:01', 'a1')}",
        f"{a}: bare",
        f"{b}: {record('10:00:02', 'b2')}",
        f"{a}: {record('10:00:03', 'a3')}",
        f"{b}: {record('10:00:04', 'b4 last without an end')}",
    ]


def test_merged_json_has_the_source_and_the_line_in_it(two: tuple[Path, Path]) -> None:
    a, b = two
    shown = [
        json.loads(line) for line in run(str(a), str(b), "--merge", "--json", "--grep", "b[24]").stdout.splitlines()
    ]
    assert [(line["source"], line["line"]) for line in shown] == [(str(b), 1), (str(b), 2)]


def test_filters_and_stages_of_merged_logs(path: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.log"
    later.write_bytes(LOAD.replace(b"10:11:", b"10:12:"))
    shown = run(str(later), str(path), "--merge", "--level", "error", "--layer", "engine").stdout.splitlines()
    assert [line.partition(": ")[0] for line in shown] == [str(path)] * 7 + [str(later)] * 7
    stages = run(str(later), str(path), "--merge", "--stages").stdout.splitlines()
    assert stages[0].split()[:3] == [f"{path}:", "config", "1"]
    assert [line.split()[0] for line in stages] == [f"{path}:"] * (len(stages) // 2) + [f"{later}:"] * (
        len(stages) // 2
    )


def test_a_pipe_is_merged_with_a_file_whatever_comes_first(two: tuple[Path, Path]) -> None:
    a, b = two
    shown = run("-", str(b), "--merge", input=a.read_text()).stdout.splitlines()
    assert [line.partition(": ")[0] for line in shown] == ["-", "-", str(b), "-", str(b)]


def test_one_log_alone_is_printed_as_ever(two: tuple[Path, Path]) -> None:
    assert run(str(two[0]), "--merge").stdout == two[0].read_text()


def test_a_merged_program_that_fails_is_an_error_after_all_was_printed(tmp_path: Path, two: tuple[Path, Path]) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho no such container >&2\nexit 1\n")
    docker.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = run("docker:x", str(two[0]), "--merge", env=env)
    assert ended.returncode == 2
    assert ended.stdout.splitlines()[-1] == "docker:x: no such container"
    assert len(ended.stdout.splitlines()) == 4
    assert "docker:x: docker logs x ended with exit code 1" in ended.stderr


def test_merged_logs_are_followed_through_cut_and_rotation(two: tuple[Path, Path]) -> None:
    a, b = two
    b.write_text(record("10:00:02", "b2") + "\n")
    following = Following("--merge", str(a), str(b))
    with following.process as process:
        assert [following.line() for _ in range(4)] == [
            f"{a}: {record('10:00:01', 'a1')}",
            f"{a}: bare",
            f"{b}: {record('10:00:02', 'b2')}",
            f"{a}: {record('10:00:03', 'a3')}",
        ]
        with b.open("a") as file:
            file.write("late, but ")
            file.flush()
            file.write("whole\n")
        assert following.line() == f"{b}: late, but whole"
        a.write_text("anew\n")
        assert following.line() == f"{a}: --- the file was cut and begins anew here ---"
        assert following.line() == f"{a}: anew"
        new = b.with_suffix(".new")
        new.write_text("rotated\n")
        new.rename(b)
        assert following.line() == f"{b}: --- the file was rotated; a new one begins here ---"
        assert following.line() == f"{b}: rotated"
        assert following.stop() == 130
        process.kill()


def test_no_secret_and_no_terminal_command_gets_through(path: Path) -> None:
    path.write_bytes(b"key hf_abcdefgh12345678 \x1b[31mred\x1b[0m \x07 \x9b2J [bold]x[/bold]\0\n\xc2\x9b\n")
    shown = run(str(path), "--plain").stdout
    assert shown == "key *** red ␇ \ufffd2J [bold]x[/bold]␀\n\n"
    assert json.loads(run(str(path), "--json").stdout.splitlines()[0])["text"].startswith("key *** red")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.log"], "cannot read absent.log: No such file or directory"),
        (["."], "no regular file"),
        (["docker:-x"], "write docker:NAME"),
        (["x.log", "x.log"], "named twice"),
        (["-", "--grep", "("], "no regular expression"),
        (["-", "--since", "noon"], "--since noon: no time"),
        (["-", "--layer", "engin"], "engin"),
        (["-", "--rank", "-1"], "--rank"),
    ],
)
def test_wrong_input_is_one_clear_error(words: list[str], said: str) -> None:
    ended = run(*words)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_program_that_fails_is_an_error_after_what_it_printed(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho no such container >&2\nexit 1\n")
    docker.chmod(0o755)
    ended = run("docker:x", env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert ended.returncode == 2
    assert ended.stdout == "no such container\n"
    assert "docker logs x ended with exit code 1" in ended.stderr


def test_a_reader_that_leaves_early_is_no_error(path: Path) -> None:
    path.write_bytes((LOAD + b"\n") * 3000)
    with subprocess.Popen([*PROGRAM, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode().rstrip() == LINES[0]
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == failures.BROKEN_PIPE


class Following:
    """The command with --follow; what it prints is waited for."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen([*PROGRAM, "--follow", *words], stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait()


@pytest.fixture
def following(path: Path) -> Iterator[Following]:
    path.write_bytes(b"one\n")
    following = Following(str(path))
    with following.process as process:
        yield following
        process.kill()


def test_follow_prints_what_comes_through_cut_and_rotation(path: Path, following: Following) -> None:
    assert following.line() == "one"
    with path.open("ab") as file:
        file.write(b"tw")
        file.flush()
        file.write(b"o\n")
    assert following.line() == "two"
    path.write_bytes(b"three\n")
    assert following.line() == "--- the file was cut and begins anew here ---"
    assert following.line() == "three"
    new = path.with_suffix(".new")
    new.write_bytes(b"four\n")
    new.rename(path)
    assert following.line() == "--- the file was rotated; a new one begins here ---"
    assert following.line() == "four"
    assert following.stop() == 130


def test_follow_streams_a_pipe_line_by_line() -> None:
    with subprocess.Popen([*PROGRAM, "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("one", "two"):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{line}\n"
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
