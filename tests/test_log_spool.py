"""Pipes that are kept in a file without a name, and sources that are opened to be looked at."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine_probe.errors import InputError
from engine_probe.logs.index import LogIndex
from engine_probe.logs.sources import parse_source
from engine_probe.logs.spool import Spool
from engine_probe.logs.spooled import SpooledLog, open_sources


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.005)


def texts(log: LogIndex) -> list[str]:
    while not log.advance():
        pass
    return [line.text for line in log.lines(0, 1000)]


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    ends = [writing, reading]
    yield reading, writing, lambda: os.close(ends.pop(0))
    for end in ends:
        os.close(end)


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_a_pipe_is_kept_in_a_file_without_a_name(tmp_path: Path, monkeypatch, pipe) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reading, writing, close_writing = pipe
    spool = Spool(reading)
    log = LogIndex(spool.file)
    os.write(writing, b"one\ntw")
    until(lambda: texts(log) == ["one", "tw"])
    os.write(writing, b"o\n")
    until(lambda: texts(log) == ["one", "two"])
    assert not spool.has_ended
    close_writing()
    until(lambda: spool.has_ended)
    assert spool.trouble is None
    assert list(tmp_path.iterdir()) == []
    spool.close()
    assert texts(log) == ["one", "two"]
    log.close()


def test_it_stops_at_once_also_where_nothing_comes(pipe) -> None:
    spool = Spool(pipe[0])
    spool.close()
    os.close(spool.file)


def test_a_full_disk_is_said_and_what_came_before_stays(monkeypatch, pipe) -> None:
    reading, writing, close_writing = pipe
    spool = Spool(reading)
    log = LogIndex(spool.file)
    followed = SpooledLog(log, spool)
    os.write(writing, b"one\n")
    until(lambda: texts(log) == ["one"])
    full, copy = os.open("/dev/full", os.O_WRONLY), os.dup(spool._copy)
    os.dup2(full, spool._copy)
    os.close(full)
    os.write(writing, b"two\n")
    until(lambda: spool.trouble is not None)
    assert "is not kept" in spool.trouble
    assert "No space left on device" in spool.trouble
    os.dup2(copy, spool._copy)
    os.close(copy)
    os.write(writing, b"x" * 300_000)  # whoever writes is not kept waiting
    close_writing()
    until(lambda: spool.has_ended)
    said = followed.poll()
    assert [(happened.line, happened.kind) for happened in said] == [(1, "ended"), (1, "ended")]
    assert texts(log) == ["one"]
    followed.close()


def test_a_pipe_has_begun_when_nothing_came_for_a_moment(pipe) -> None:
    reading, writing, _ = pipe
    spool = Spool(reading)
    assert not spool.has_begun
    os.write(writing, b"one\n")
    until(lambda: spool.has_begun)
    spool.close()
    os.close(spool.file)


def test_the_end_of_a_pipe_is_marked_behind_its_last_line(pipe) -> None:
    reading, writing, close_writing = pipe
    (opened,) = open_sources([parse_source("-")], stdin=reading)
    os.write(writing, b"one\ntwo")
    close_writing()
    breaks = []
    until(lambda: breaks.extend(opened.followed.poll()) or breaks)
    assert [(happened.line, happened.words) for happened in breaks] == [(2, "the pipe was closed; nothing more comes")]
    assert texts(opened.log) == ["one", "two"]
    assert opened.followed.poll() == []
    opened.followed.close()


def test_the_failure_of_a_program_is_marked(bin_folder: Path) -> None:
    program(bin_folder, "docker", "echo Error: No such container >&2; exit 1")
    (opened,) = open_sources([parse_source("docker:vllm")])
    until(opened.followed.poll)
    assert texts(opened.log) == ["Error: No such container"]
    assert [happened.words for happened in opened.followed.breaks] == ["docker logs -f vllm ended with exit code 1"]
    opened.followed.close()


def test_a_program_ends_with_its_log(bin_folder: Path) -> None:
    program(bin_folder, "docker", "echo $$; exec tail -f /dev/null")
    (opened,) = open_sources([parse_source("docker:vllm")])
    until(lambda: texts(opened.log))
    pid = texts(opened.log)[0]
    opened.followed.close()
    assert not Path(f"/proc/{pid}").exists()


def test_what_was_opened_is_closed_when_another_source_is_none(bin_folder: Path) -> None:
    program(bin_folder, "docker", "exec tail -f /dev/null")
    before = {child.pid for child in psutil.Process().children()}  # those of fixtures that go on
    with pytest.raises(InputError, match="cannot read"):
        open_sources([parse_source("docker:vllm"), parse_source(str(bin_folder / "absent"))])
    assert {child.pid for child in psutil.Process().children()} <= before


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    program(tmp_path, "docker", "echo $$; exec tail -f /dev/null")
    code = (
        "import signal\n"
        "from engine_probe.logs.sources import parse_source\n"
        "from engine_probe.logs.spooled import open_sources\n"
        "(opened,) = open_sources([parse_source('docker:x')])\n"
        "while not (opened.log.advance() and opened.log.line_count): pass\n"
        "print(opened.log.lines(0, 1)[0].text, flush=True)\n"
        "signal.pause()\n"
    )
    temp = tmp_path / "temp"
    temp.mkdir()
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(temp)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        process.wait()
        assert select.select([child], [], [], 30)[0], "the program outlived us"
        os.close(child)
    assert list(temp.iterdir()) == []
