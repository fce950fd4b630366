"""Parts of a big log that other processes scan: the same lines as without them, whatever becomes of the helpers."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from vllm_log_samples import LOAD, SHAPES

from engine_probe.logs import index_helper
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.index_blocks import BLOCK_BYTES
from engine_probe.logs.index_classes import default_classify
from engine_probe.logs.index_time import Bound, Span
from engine_probe.logs.index_wanted import Wanted

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_helper, "LEAST_BYTES", 1000)
    monkeypatch.setattr(index_helper, "_cores", lambda: 3)


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


def test_helpers_change_nothing(path: Path) -> None:
    log = open_log(path)
    assert not log.advance(0.0)
    assert len(helpers_of(log)) == 2
    assert said(indexed(log)) == said(alone(path))
    assert helpers_of(log) == []


def test_what_comes_after_the_start_is_indexed_too(path: Path) -> None:
    log = open_log(path)
    log.advance(0.0)
    with path.open("ab") as file:
        file.write(b" goes on\n" + LOAD)
    assert said(indexed(log)) == said(alone(path))


def test_the_part_of_a_helper_that_was_killed_is_scanned_here(path: Path) -> None:
    log = open_log(path)
    log.advance(0.0)
    for helper in helpers_of(log):
        os.kill(helper._process.pid, signal.SIGKILL)
    assert said(indexed(log)) == said(alone(path))


def test_a_helper_that_took_the_log_for_another_release_is_not_believed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_helper, "version_in", lambda _: "0.5.5")
    log = open_log(path)
    log.advance(0.0)
    assert [helper.version for helper in helpers_of(log)] == ["0.5.5"] * 2
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
    monkeypatch.setattr(index_helper, "_cores", lambda: 1)
    assert _helpers(path) == 0


def _helpers(path: Path) -> int:
    log = open_log(path)
    log.advance(0.0)
    count = len(helpers_of(log))
    log.close()
    return count
