"""Parts of a big log that other processes scan: the same lines as without them, whatever becomes of the helpers."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from vllm_log_samples import LOAD, SHAPES

from engine_probe.logs import index_helper, index_prescan
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.index_blocks import BLOCK_BYTES
from engine_probe.logs.index_classify import default_classify
from engine_probe.logs.index_time import Bound, Span
from engine_probe.logs.index_wanted import Wanted

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_helper, "LEAST_BYTES", 1000)
    monkeypatch.setattr(index_helper, "cores", lambda: 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "big.log"
    content = b"\n".join([*SHAPES.values(), LOAD.replace(b"m-7b", b"n-8b"), b"x" * 3000]) + b"\n"
    minutes = range(8 * BLOCK_BYTES // len(content))
    later = (content.replace(b"10:11:", b"%02d:%02d:" % divmod(601 + minute, 60)) for minute in minutes)
    path.write_bytes(b"".join(later) + b"the last line")
    return path


def indexed(log: LogIndex) -> LogIndex:
    while not log.advance():
        pass
    return log


def said(log: LogIndex) -> list[object]:
    """All that an index says of its lines."""
    span = Wanted(span=Span(since=Bound(b"10:20:00"), until=Bound(b"03-02 10:32:59")))
    return [log.lines(0, log.line_count), log.stage_changes(), log.models(), log.filter(span).rows(0, log.line_count)]


def alone(path: Path) -> LogIndex:
    """Without helpers, which know only the package's own classifier."""
    return indexed(open_log(path, default_classify()))


def helpers_of(log: LogIndex) -> list[index_helper.Helper]:
    return list(log._parts._helpers)


def wait_for(helpers: list[index_helper.Helper]) -> None:
    """Until they have done all their parts."""
    for helper in helpers:
        assert helper._process.wait() == 0


def test_helpers_change_nothing(path: Path) -> None:
    log = open_log(path)
    assert not log.advance(0.0)
    helpers = helpers_of(log)
    assert len(helpers) == 2
    wait_for(helpers)
    assert helpers[0].done_from(0) == helpers[0].done_from(1) < 200
    assert [helper.done_from(helper.stop - 1) for helper in helpers] == [helper.stop for helper in helpers]
    assert said(indexed(log)) == said(alone(path))
    assert helpers_of(log) == []


def test_helpers_that_are_met_half_way_change_nothing(path: Path) -> None:
    assert said(indexed(open_log(path))) == said(alone(path))


@pytest.mark.parametrize("chunk_bytes", [1, 3000, BLOCK_BYTES + 1, 1 << 30])
def test_a_part_is_numbered_in_chunks_of_whole_lines(
    path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(index_prescan, "CHUNK_BYTES", chunk_bytes)
    with path.open("rb") as file:
        content = file.read()
        stop = content.rindex(b"\n", 0, 50_000) + 1
        start = content.index(b"\n") + 1
        parts = list(index_prescan.chunks(file.fileno(), start, stop))
        blocks = [block for part in parts[::-1] for block in index_prescan.prescan_chunk(file.fileno(), *part) or ()]
    assert [(parts[-1][0], parts[0][1])] == [(start, stop)]
    assert [begin for begin, _ in parts[:-1]] == [end for _, end in parts[1:]]
    assert all(content[begin - 1] == 10 for begin, _ in parts)
    assert sum(len(block.numbers) for block in blocks) == content.count(b"\n", start, stop)


def test_what_comes_after_the_start_is_indexed_too(path: Path) -> None:
    log = open_log(path)
    log.advance(0.0)
    with path.open("ab") as file:
        file.write(b" goes on\n" + LOAD)
    assert said(indexed(log)) == said(alone(path))


@pytest.mark.parametrize("killed", [[0], [1], [0, 1]])
def test_the_part_of_a_helper_that_was_killed_is_scanned_here(path: Path, killed: list[int]) -> None:
    log = open_log(path)
    log.advance(0.0)
    helpers = helpers_of(log)
    for number in killed:
        os.kill(helpers[number]._process.pid, signal.SIGKILL)
        helpers[number]._process.wait()
    assert said(indexed(log)) == said(alone(path))


@pytest.mark.parametrize("end", ["close", "forget"])
def test_helpers_end_with_the_index(path: Path, end: str) -> None:
    log = open_log(path)
    log.advance(0.0)
    helpers = helpers_of(log)
    getattr(log, end)()
    assert [helper._process.poll() is None for helper in helpers] == [False, False]


def test_a_file_that_was_cut_meanwhile_is_indexed_as_it_is(path: Path) -> None:
    log = open_log(path)
    log.advance(0.0)
    with path.open("r+b") as file:
        file.truncate(BLOCK_BYTES)
    indexed(log)
    log.forget()
    assert said(indexed(log)) == said(alone(path))


def test_no_helper_for_a_small_file_for_endless_lines_or_for_one_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LOAD[:900])
    assert _helpers(path) == 0
    path.write_bytes(b"x" * 4 * BLOCK_BYTES)
    assert _helpers(path) == 0
    path.write_bytes(LOAD * 1000)
    assert _helpers(path) == 2
    monkeypatch.setattr(index_helper, "cores", lambda: 1)
    assert _helpers(path) == 0


def _helpers(path: Path) -> int:
    log = open_log(path)
    log.advance(0.0)
    count = len(helpers_of(log))
    log.close()
    return count
