"""A file of ours is there whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine_probe.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_it_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for content in (b"first", b"second"):
        write_whole(file, content, is_sure=content == b"second")
        assert file.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.timeout(30)
def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "a.json"
    os.mkfifo(pipe)
    write_whole(pipe, b"content")
    assert pipe.is_file()


def test_what_cannot_be_put_there_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(OSError, match=r"a\.json"):
        write_whole(tmp_path / "a.json", b"content")
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(FileNotFoundError, match=r"no folder/a\.json'$"):
        write_whole(tmp_path / "no folder" / "a.json", b"content")
