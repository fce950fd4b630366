"""A log that others write to, cut, move and remove while it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.follow import FollowedLog
from engine_probe.logs.index import open_log
from engine_probe.logs.index_search import compile_pattern

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(b"one\ntwo\n")
    return path


@pytest.fixture
def followed(path: Path) -> FollowedLog:
    followed = FollowedLog(path, open_log(path))
    assert polled(followed) == []
    return followed


def polled(followed: FollowedLog) -> list[tuple[int, str]]:
    """The breaks that one poll finds, with all that is there indexed."""
    breaks = followed.poll()
    while not followed.log.advance():
        pass
    followed.poll()  # what was read just now is remembered, as in a loop that goes on
    return [(happened.line, happened.kind) for happened in breaks]


def texts(followed: FollowedLog) -> list[str]:
    return [line.text for line in followed.log.lines(0, 100)]


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_growth_is_no_break(path: Path, followed: FollowedLog) -> None:
    append(path, b"three\n")
    assert polled(followed) == []
    assert texts(followed) == ["one", "two", "three"]


def test_an_unfinished_line_is_shown_and_then_finished(path: Path, followed: FollowedLog) -> None:
    append(path, b"thr")
    polled(followed)
    assert texts(followed) == ["one", "two", "thr"]
    append(path, b"ee\nfo")
    polled(followed)
    assert texts(followed) == ["one", "two", "three", "fo"]


def test_a_cut_file_begins_anew(path: Path, followed: FollowedLog) -> None:
    path.write_bytes(b"new\n")
    assert polled(followed) == [(0, "cut")]
    assert texts(followed) == ["new"]
    assert followed.breaks[0].words == "the file was cut and begins anew here"


def test_a_file_that_was_cut_and_has_grown_beyond_what_was_read_begins_anew(path: Path, followed: FollowedLog) -> None:
    path.write_bytes(b"alpha\nbeta\ngamma\n")
    assert polled(followed) == [(0, "cut")]
    assert texts(followed) == ["alpha", "beta", "gamma"]


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_follows(path: Path, followed: FollowedLog) -> None:
    append(path, b"three\nfour")
    path.rename(path.with_suffix(".1"))
    path.write_bytes(b"five\n")
    assert polled(followed) == [(4, "rotated")]
    assert texts(followed) == ["one", "two", "three", "four", "five"]
    append(path, b"six\n")
    assert polled(followed) == []
    assert texts(followed)[-1] == "six"


def test_older_lines_stay_readable_after_many_rotations(path: Path, followed: FollowedLog) -> None:
    for number in range(5):
        path.unlink()
        path.write_bytes(b"%d\n" % number)
        assert polled(followed) == [(2 + number, "rotated")]
    assert texts(followed) == ["one", "two", "0", "1", "2", "3", "4"]


def test_a_removed_file_is_said_once_and_read_on(path: Path, followed: FollowedLog) -> None:
    with path.open("ab") as writer:
        path.unlink()
        writer.write(b"three\n")
    assert polled(followed) == [(2, "gone")]
    assert polled(followed) == []
    assert texts(followed) == ["one", "two", "three"]
    path.write_bytes(b"four\n")
    assert polled(followed) == [(3, "rotated")]
    assert texts(followed)[-1] == "four"


def test_a_file_that_comes_back_goes_on(path: Path, followed: FollowedLog) -> None:
    path.rename(path.with_suffix(".away"))
    assert polled(followed) == [(2, "gone")]
    path.with_suffix(".away").rename(path)
    assert polled(followed) == [(2, "back")]


def test_a_rotation_waits_until_the_old_file_is_indexed(path: Path) -> None:
    path.write_bytes(b"line\n" * 100_000)
    followed = FollowedLog(path, open_log(path))
    assert not followed.log.advance(0.0)
    path.unlink()
    path.write_bytes(b"new\n")
    assert followed.poll() == []
    while not followed.log.advance():
        pass
    assert [(happened.line, happened.kind) for happened in followed.poll()] == [(100_000, "rotated")]


def test_a_search_begins_anew_with_a_cut_file(path: Path, followed: FollowedLog) -> None:
    search = followed.log.search(compile_pattern("o"))
    assert search.advance()
    assert search.count == 2
    path.write_bytes(b"o\nx\no\no\n")
    polled(followed)
    assert search.advance()
    assert search.count == 3
