"""The index of a log: what it says of each line, whatever the bytes and however they come, and what is built on it."""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from vllm_log_samples import LOAD, SHAPES

from engine_probe.errors import InputError
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.index_blocks import BLOCK_BYTES, LONGEST_SHOWN_BYTES
from engine_probe.logs.index_classes import LAYER_SHIFT, LAYERS, LEVELS, STAGE_NAMES, text_of
from engine_probe.logs.index_classify import default_classify
from engine_probe.logs.index_keys import _PLAIN, Keyer
from engine_probe.logs.index_scan import Scanner
from engine_probe.logs.index_search import compile_pattern
from engine_probe.logs.index_time import Bound, Span, parse_time
from engine_probe.logs.index_wanted import Wanted, is_model, rank_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.logs.index_stream import LogLine


def indexed(log: LogIndex) -> LogIndex:
    while not log.advance():
        pass
    return log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n")
    return path


@pytest.fixture
def log(path: Path) -> LogIndex:
    return indexed(open_log(path))


def all_lines(log: LogIndex) -> list[LogLine]:
    return log.lines(0, log.line_count)


# What it says of a line


@pytest.mark.parametrize("name", list(SHAPES))
def test_columns_say_what_reading_every_line_says(name: str) -> None:
    content = SHAPES[name]
    classify = default_classify()
    scanner = Scanner()
    columns = scanner.scan(b"\n" + content).columns
    lines = content.split(b"\n")
    assert len(columns.codes) == len(lines)
    version = None if name.startswith("json") else "0.13.0"
    for line, code, process, stage in zip(lines, *columns, strict=True):
        exact = classify(text_of(line), version)
        known = scanner.processes.known[process]
        found = (LEVELS[code & 7] or None, LAYERS[code >> LAYER_SHIFT & 7], known.name or None, known.pid)
        assert found == (exact.level, exact.layer, exact.process, exact.pid), line
        assert (STAGE_NAMES[stage] or None) == exact.stage, line


@pytest.mark.parametrize("line", [b"", b" ", b'INFO:     10.0.0.1:4 - "GET / HTTP/1.1" 200 OK', LOAD.split(b"\n")[10]])
@pytest.mark.parametrize("before", [b"", LOAD + b"\n"])
def test_a_line_over_and_over_is_what_each_of_them_is(tmp_path: Path, before: bytes, line: bytes) -> None:
    path = tmp_path / "over-and-over.log"
    found = []
    for count in (1, 30_000):
        path.write_bytes(before + (line + b"\n") * count)
        log = indexed(open_log(path))
        assert log.line_count == before.count(b"\n") + count
        lines = log.lines(log.line_count - count, log.line_count)
        found.append({(one.level, one.layer, one.process, one.stage) for one in lines})
        log.close()
    assert found[0] == found[1]


def test_a_hole_of_any_size_is_passed_over(tmp_path: Path) -> None:
    """As where a log was cut while its server went on writing at the old place."""
    path = tmp_path / "sparse.log"
    with path.open("wb") as file:
        file.truncate(1 << 33)
        file.seek(1 << 33)
        file.write(b"behind\nINFO 03-02 10:11:12 [a.py:1] last\n")
    log = indexed(open_log(path))
    assert log.line_count == 2
    assert log.lines(1, 2)[0].text.endswith("last")
    path.write_bytes(b"")
    with path.open("wb") as file:
        file.truncate(1 << 33)
    assert indexed(open_log(path)).line_count == 1


def test_of_a_block_of_one_line_over_and_over_one_is_looked_at() -> None:
    class Counting:
        def __init__(self) -> None:
            self.looked_at = 0

        def findall(self, text: bytes) -> list[tuple[bytes, ...]]:
            self.looked_at += text.count(b"\n")
            return _PLAIN.findall(text)

    keyer = Keyer()
    keyer._pattern = counting = Counting()  # type: ignore[assignment]
    assert keyer.key(b"\n" * 100_000).numbers == bytes(100_000)
    assert counting.looked_at == 1


def test_lines_have_level_layer_process_and_stage(log: LogIndex) -> None:
    lines = all_lines(log)
    assert [line.number for line in lines] == list(range(19))
    failed = lines[10]
    assert (failed.level, failed.layer, failed.process, failed.stage) == (
        "ERROR", "engine", "EngineCore_DP0", "memory_planning",
    )  # fmt: skip
    assert [line.stage for line in lines[:4]] == ["config", "config", "engine_build", "weight_load"]
    assert lines[18].layer == "frontend"


def test_bare_lines_count_to_the_record_above_them(log: LogIndex) -> None:
    traceback = log.lines(14, 17)
    assert [(line.level, line.layer) for line in traceback] == [("ERROR", "engine")] * 3
    assert [line.continues for line in traceback] == [False, True, True]
    empty = log.lines(7, 8)[0]
    assert (empty.text, empty.layer, empty.continues) == ("", "model_runner", True)


def test_the_release_that_a_log_tells_decides_an_ambiguous_file_name(tmp_path: Path) -> None:
    asked: list[str | None] = []
    classify = default_classify()

    def remember(text: str, version: str | None):  # type: ignore[no-untyped-def]
        asked.append(version)
        return classify(text, version)

    path = tmp_path / "a.log"
    newer = LOAD.replace(b"0.13.0", b"0.32.0")
    path.write_bytes(LOAD + b"\n" * BLOCK_BYTES + newer + b"\n")
    indexed(open_log(path, remember))
    assert asked[-1] == "0.32.0"
    assert "0.13.0" in asked


# Whatever the bytes


def test_an_endless_line_costs_no_memory_and_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(LOAD + b"\n")
    with path.open("r+b") as file:
        file.truncate(100_000_000)
    with path.open("ab") as file:
        file.write(b"\n" + LOAD + b"\n")
    tracemalloc.start()
    log = indexed(open_log(path))
    lines = all_lines(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16_000_000
    assert log.line_count == 19 + 1 + 19
    assert lines[19].text.endswith("… (cut: a line of more than 64 KiB)")
    assert len(lines[19].text) < LONGEST_SHOWN_BYTES + 100
    assert [line.text for line in lines[:19]] == [line.text for line in lines[20:]]


def test_a_long_line_that_grows_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"first\n")
    log = indexed(open_log(path))
    for _ in range(5):
        with path.open("ab") as file:
            file.write(b"x" * BLOCK_BYTES)
        assert indexed(log).line_count == 2
    with path.open("ab") as file:
        file.write(b"\nlast")
    assert [line.text[:5] for line in all_lines(indexed(log))] == ["first", "xxxxx", "last"]


def test_a_line_costs_less_than_16_bytes(tmp_path: Path) -> None:
    path = tmp_path / "many.log"
    path.write_bytes((LOAD + b"\n") * 3000)
    log = open_log(path)
    tracemalloc.start()
    indexed(log)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert log.line_count == 19 * 3000
    assert held < 16 * log.line_count


def test_more_processes_than_a_byte_can_number_are_not_mixed_up(tmp_path: Path) -> None:
    path = tmp_path / "many.log"
    path.write_bytes(b"".join(b"(Worker_TP%d pid=%d) INFO 03-02 10:11:12 [a.py:1] x\n" % (n, n) for n in range(300)))
    lines = all_lines(indexed(open_log(path)))
    assert [line.process for line in lines[:254]] == [f"Worker_TP{n}" for n in range(254)]
    assert {line.process for line in lines[254:]} == {"other processes"}


def test_a_log_of_many_restarts_tells_every_process_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "restarts.log"
    names = ("APIServer", "EngineCore_DP0", "Worker_TP0", "Worker_TP1")
    lines = [b"(%s pid=%d) INFO 03-02 10:11:12 [a.py:1] x\n" % (name.encode(), n) for n in range(500) for name in names]
    path.write_bytes(b"".join(lines))
    log = indexed(open_log(path))
    assert [line.process for line in all_lines(log)] == list(names) * 500
    assert len(log.filter(Wanted(rank=1))) == 500


def test_a_file_that_shrinks_while_it_is_read_gives_empty_lines(path: Path) -> None:
    log = indexed(open_log(path))
    path.write_bytes(b"")
    assert {line.text for line in all_lines(log)} == {""}


@pytest.mark.parametrize("name", ["absent", "folder", "pipe"])
def test_what_cannot_be_opened_is_an_input_error(tmp_path: Path, name: str) -> None:
    import os

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=f"cannot read .*{name}"):
        open_log(tmp_path / name)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    log = indexed(open_log(tmp_path / "empty"))
    assert log.line_count == 0
    assert len(log.filter(Wanted())) == 0
    assert log.search(compile_pattern("x")).advance()
    assert log.tail(5) == log.lines(0, 10) == log.stage_changes() == []


# What a person reads


def test_text_has_no_colours_no_secrets_and_nothing_that_was_drawn_over(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\x1b[31mred\x1b[0m --api-key sk-abcdefgh12345678\n10%\r20%\r30%\n\xff\n")
    assert [line.text for line in all_lines(indexed(open_log(path)))] == ["red --api-key ***", "30%", "\ufffd"]


def test_the_end_is_there_before_anything_is_indexed(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_bytes((LOAD + b"\n") * 500 + b"the last line")
    log = open_log(path)
    assert log.tail(2) == ['INFO:     10.0.0.9:41234 - "GET /health HTTP/1.1" 200 OK', "the last line"]
    assert log.line_count == 0


def test_indexing_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_bytes((LOAD + b"\n") * 500)
    log = open_log(path)
    seen = []
    while not log.advance(0.0):
        seen.append(log.line_count)
    assert len(set(seen)) > 3
    assert seen == sorted(seen)
    assert log.line_count == 19 * 500


# What is chosen


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Wanted(), [*range(19)]),
        (Wanted(levels=frozenset({"WARNING"})), [8]),
        (Wanted(levels=frozenset({"ERROR"}), layers=frozenset({"engine"})), [10, 11, 12, 13, 14, 15, 16]),
        (Wanted(stages=frozenset({"config", "engine_build"})), [0, 1, 2]),
        (Wanted(processes=frozenset({"Worker_TP1"})), [4, 8]),
        (Wanted(processes=frozenset({"Worker"}), rank=0), [3, 9]),
        (Wanted(processes=frozenset({"APIServer"}), stages=frozenset({"memory_planning"})), [17, 18]),
        (Wanted(rank=7), []),
        (Wanted(model="acme/m-7b"), [*range(19)]),
        (Wanted(model="other"), []),
        (Wanted(span=Span(since=Bound(b"10:11:46"))), [*range(10, 19)]),
        (Wanted(span=Span(Bound(b"03-02 10:11:30"), Bound(b"03-02 10:11:41"))), [*range(3, 9)]),
        (Wanted(levels=frozenset({"ERROR"}), span=Span(since=Bound(b"10:11:50"))), [17]),
    ],
)
def test_filters(log: LogIndex, wanted: Wanted, numbers: list[int]) -> None:
    assert log.filter(wanted).rows(0, 100) == numbers


def test_a_time_span_is_found_in_a_log_of_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    stamps = [f"03-{1 + n // 24000:02d} {n // 1000 % 24:02d}:{n // 17 % 60:02d}:00" for n in range(72000)]
    path.write_text("".join(f"INFO {stamp} [a.py:1] line\n" for stamp in sorted(stamps)))
    log = indexed(open_log(path))
    for span in (
        Span(since=Bound(b"03-02 10:30:00"), until=Bound(b"03-02 10:31:00")),
        Span(since=Bound(b"03-03 00:00:00")),
        Span(since=Bound(b"10:30:00"), until=Bound(b"10:31:00")),
    ):
        expected = [n for n, stamp in enumerate(sorted(stamps)) if span.holds(*stamp.encode().split(b" "))]
        assert log.filter(Wanted(span=span)).rows(0, 100_000) == expected
        assert expected


def test_a_log_of_two_models_is_told_apart_from_the_first_line_of_the_load(tmp_path: Path) -> None:
    path = tmp_path / "two.log"
    path.write_bytes(LOAD + b"\n" + LOAD.replace(b"m-7b", b"n-8b") + b"\n")
    log = indexed(open_log(path))
    assert log.models() == [(0, "acme/m-7b"), (19, "acme/n-8b")]
    assert log.filter(Wanted(model="n-8b")).rows(0, 100) == [*range(19, 38)]


def test_next_and_last_error_are_records_and_not_their_lines(log: LogIndex) -> None:
    assert log.next_error(-1) == 10
    assert log.next_error(10) == 14  # a traceback that nothing caught
    assert log.next_error(14) == 17
    assert log.next_error(17) is None
    assert log.last_error(19) == 17
    assert log.last_error(14) == 10
    assert log.last_error(10) is None


def test_stages_as_stretches(log: LogIndex) -> None:
    changes = log.stage_changes()
    assert changes[0] == (0, "config")
    assert (9, "memory_planning") in changes


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("Worker_TP1", 1),
        ("Worker_DP0_PP1_TP3_EP7", 3),
        ("VllmWorker rank=2", 2),
        ("VllmWorker-1", 1),
        ("Worker_PP1", 1),
        ("Worker", None),
        ("APIServer", None),
    ],
)
def test_ranks(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


def test_a_model_is_named_whole_or_by_its_last_part() -> None:
    assert is_model("/models/m-7b/", "m-7b")
    assert is_model("acme/m-7b", "acme/m-7b")
    assert not is_model("acme/m-7b", "7b")


@pytest.mark.parametrize(
    ("text", "option", "stamp"),
    [
        ("10:11", "--since", b"10:11:00"),
        ("10:11", "--until", b"10:11:59"),
        ("03-02", "--until", b"03-02 23:59:59"),
        ("2026-03-02 10:11:12", "--since", b"03-02 10:11:12"),
        ("2026-03-02T10:11", "--since", b"03-02 10:11:00"),
    ],
)
def test_times(text: str, option: str, stamp: bytes) -> None:
    assert parse_time(text, option).stamp == stamp


def test_an_age_counts_back_from_now() -> None:
    assert parse_time("1h", "--since", now=7200.0).stamp == parse_time("0s", "--since", now=3600.0).stamp


@pytest.mark.parametrize("text", ["", "yesterday", "10", "10:1", "99999999999999999d", "\u0661\u0660:11"])
def test_what_is_no_time_says_what_is(text: str) -> None:
    with pytest.raises(InputError, match="write 10:11"):
        parse_time(text, "--since")


# What is searched


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("cache blocks", 2),
        ("absent", 0),
        (r"pid=\d0\)", 13),
        ("(?i)TRACEBACK", 2),
        ("^INFO", 1),
        ("OK$", 1),
        (r"acme/m-7b\.\.\.", 2),
    ],
)
@pytest.mark.parametrize("shape", ["plain", "coloured"])
def test_a_search_finds_lines(tmp_path: Path, shape: str, pattern: str, count: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(SHAPES[shape])
    search = indexed(open_log(path)).search(compile_pattern(pattern))
    assert search.advance()
    expected = sum(re.search(pattern, line.decode()) is not None for line in LOAD.split(b"\n"))
    assert search.count == len(search.selection()) == expected == count


def test_a_search_goes_on_bit_by_bit_and_in_what_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes((LOAD + b"\n") * 500)
    log = indexed(open_log(path))
    search = log.search(compile_pattern("failed to start"))
    counts = []
    while not search.advance(0.0):
        counts.append(search.count)
    assert len(counts) > 3
    assert counts == sorted(counts)
    assert search.count == 500
    with path.open("ab") as file:
        file.write(b"failed to st")
    indexed(log)
    assert search.advance()
    assert search.count == 500
    with path.open("ab") as file:
        file.write(b"art again\n")
    indexed(log)
    assert search.advance()
    assert search.count == 501
    assert search.selection().last_before(log.line_count) == 500 * 19
