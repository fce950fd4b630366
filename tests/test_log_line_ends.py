"""A log whose lines end in a carriage return alone; a progress bar, which has them within its line, is none."""

from __future__ import annotations

import os

import pytest

from engine_probe.logs.follow import Watch
from engine_probe.logs.index import open_log
from engine_probe.logs.opening import open_file
from engine_probe.logs.telling import telling_records
from tests.memory_logs import LOADING, failed, v1

LOG = v1("0.13.0", LOADING, failed("AssertionError: 14336 is not divisible by 3", "distributed/utils.py:divide"))
BAR = "".join(f"\rLoading safetensors checkpoint shards: {n:3d}% Completed | {n}/100" for n in range(0, 101, 25))


def content_of(file: int) -> bytes:
    try:
        return os.pread(file, 1 << 22, 0)
    finally:
        os.close(file)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CR LF", "CR"])
def test_records_are_the_same_whatever_ends_a_line(tmp_path, ending):
    path = tmp_path / "vllm.log"
    path.write_bytes(LOG.replace("\n", ending).encode())
    told = [(one.first_line, one.message) for one in telling_records(os.open(path, os.O_RDONLY))]
    path.write_bytes(LOG.encode())
    assert told == [(one.first_line, one.message) for one in telling_records(os.open(path, os.O_RDONLY))]


def test_the_viewer_has_its_lines_and_does_not_take_it_for_rotated(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_bytes(LOG.replace("\n", "\r").encode())
    log = open_log(path)
    while not log.advance():
        pass
    assert log.line_count == LOG.count("\n")
    assert Watch(path, log.file).look(0) is None
    log.close()


@pytest.mark.parametrize(
    "text",
    [BAR, BAR + "\r(Worker pid=7) INFO 11-29 09:00:00 [x.py:1] half a li", BAR + "\n" + LOG, "", "\r" * 90, "no end"],
    ids=["bar", "bar and a beginning", "bar and lines", "empty", "returns", "one line"],
)
def test_a_bar_stays_one_line(tmp_path, text):
    path = tmp_path / "vllm.log"
    path.write_bytes(text.encode())
    assert content_of(open_file(path)) == text.encode()


def test_a_large_log_without_line_feeds_is_read_too(tmp_path):
    path = tmp_path / "vllm.log"
    text = "(APIServer pid=7) INFO 11-29 09:00:00 [x.py:1] ready\n" * 30_000
    path.write_bytes(text.replace("\n", "\r").encode())
    assert content_of(open_file(path)) == text.encode()
