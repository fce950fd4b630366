"""Several logs in the order of their times: what is certain first, what comes later as it comes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from vllm_log_samples import LOAD

from engine_probe.errors import InputError
from engine_probe.logs.follow import FollowedLog
from engine_probe.logs.index import open_log
from engine_probe.logs.index_search import compile_pattern
from engine_probe.logs.index_time import Span, parse_time
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.merged import MergedIndex
from engine_probe.logs.merged_reading import NamedLog
from engine_probe.logs.roots import Roots

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.logs.follow import Break


@dataclass
class Logs:
    """Logs `a`, `b`, … of a folder."""

    folder: Path
    opened: list[MergedIndex] = field(default_factory=list)

    def append(self, name: str, *lines: str) -> None:
        with (self.folder / name).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def open(self, *contents: str, whole_lines: bool = False) -> MergedIndex:
        """One log for each of `contents`."""
        logs = []
        for name, content in zip("abcdef", contents, strict=False):
            path = self.folder / name
            path.write_text(content)
            log = open_log(path)
            logs.append(NamedLog(name, log, FollowedLog(path, log)))
        self.opened.append(MergedIndex(logs, whole_lines=whole_lines))
        return self.opened[-1]


@pytest.fixture
def logs(tmp_path: Path):
    logs = Logs(tmp_path)
    yield logs
    for merged in logs.opened:
        merged.close()


def read(merged: MergedIndex) -> list[str]:
    while not merged.advance():
        pass
    return [line.text for line in merged.lines(0, 10_000)]


def at(clock: str, text: str, day: str = "03-02") -> str:
    return f"INFO {day} {clock} [core.py:1] {text}"


def words(texts: list[str]) -> str:
    return " ".join(text.rpartition("] ")[2] for text in texts)


def joined(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def look(merged: MergedIndex) -> list[Break]:
    """One poll, and what came is read."""
    found = merged.poll()
    read(merged)
    merged.poll()
    return found


def test_lines_stand_in_the_order_of_their_times(logs: Logs) -> None:
    merged = logs.open(
        joined(at("10:00:01", "a1"), at("10:00:03", "a3"), at("10:00:05", "a5")),
        joined(at("10:00:02", "b2"), at("10:00:04", "b4")),
    )
    assert words(read(merged)) == "a1 b2 a3 b4 a5"
    assert [(line.number, line.source) for line in merged.lines(0, 9)] == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    assert [merged.place_of(number) for number in range(5)] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]


def test_a_line_without_a_time_goes_with_the_line_before_it_or_the_first_time(logs: Logs) -> None:
    merged = logs.open(
        joined("a banner", at("10:00:03", "a3"), "Traceback", at("10:00:05", "a5")),
        joined(at("10:00:02", "b2"), "b bare", at("10:00:04", "b4")),
    )
    assert words(read(merged)) == "b2 b bare a banner a3 Traceback b4 a5"


def test_ties_keep_the_order_of_the_logs_and_a_log_keeps_its_own(logs: Logs) -> None:
    merged = logs.open(
        joined(at("10:00:05", "a1"), at("10:00:04", "a2 late"), at("10:00:05", "a3")),
        joined(at("10:00:05", "b1"), at("10:00:05", "b2")),
    )
    assert words(read(merged)) == "a1 a2 late a3 b1 b2"


def test_new_year_goes_on(logs: Logs) -> None:
    merged = logs.open(
        joined(at("23:59:58", "a1", "12-31"), at("00:00:02", "a2", "01-01"), at("23:59:59", "a3", "12-31")),
        joined(at("00:00:01", "b1", "01-01"), at("00:00:03", "b2", "01-01")),
    )
    assert words(read(merged)) == "a1 b1 a2 a3 b2"


def test_a_log_without_times_stands_behind_what_was_there(logs: Logs) -> None:
    merged = logs.open("x\ny\n", joined(at("10:00:01", "b1")), joined(at("10:00:00", "c0")))
    assert words(read(merged)) == "c0 b1 x y"
    logs.append("a", "z")
    logs.append("b", at("10:00:02", "b2"))
    assert words(read(merged)) == "c0 b1 x y b2 z"
    logs.append("a", "last")
    assert words(read(merged)) == "c0 b1 x y b2 z last"


@pytest.mark.parametrize(
    "prefix", ["", "2026-", "(Worker_TP0 pid=9) INFO ", "[pod/vllm-0/vllm] INFO ", "vllm-1  | (EngineCore pid=7) INFO "]
)
def test_times_are_found_behind_prefixes(logs: Logs, prefix: str) -> None:
    merged = logs.open(
        joined(f"{prefix}03-02 10:00:02 [core.py:1] a2", f"{prefix}03-02 10:00:04 [core.py:1] a4"),
        joined(at("10:00:01", "b1"), at("10:00:03", "b3")),
    )
    assert words(read(merged)) == "b1 a2 b3 a4"


def test_what_only_looks_like_a_time_is_none(logs: Logs) -> None:
    merged = logs.open(
        joined(at("10:00:01", "a1"), "99-99 99:99:99 x", "expires 12-31 10:00:00", at("10:00:03", "a3")),
        joined(at("10:00:02", "b2")),
    )
    assert words(read(merged)) == "a1 99-99 99:99:99 x expires 12-31 10:00:00 b2 a3"


def test_what_comes_later_is_appended_also_when_it_is_late(logs: Logs) -> None:
    merged = logs.open(joined(at("10:00:01", "a1")), joined(at("10:00:05", "b5")))
    assert words(read(merged)) == "a1 b5"
    logs.append("a", at("10:00:02", "a2"))
    assert words(read(merged)) == "a1 b5 a2"
    logs.append("a", at("10:00:08", "a8"))
    logs.append("b", at("10:00:07", "b7"))
    assert words(read(merged)) == "a1 b5 a2 b7 a8"


def test_numbers_never_change_while_logs_are_read(logs: Logs) -> None:
    rng = random.Random(7)
    contents = []
    for name in "abc":
        seconds, lines = 0, []
        for number in range(6000):
            seconds += rng.choice((0, 0, 1, 3, 40))
            clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            lines.append(at(clock, f"{name}{number} {'x' * rng.randrange(90)}", f"03-{1 + seconds // 86400:02}"))
        contents.append(joined(*lines))
    merged = logs.open(*contents)
    seen: list[tuple[int, int]] = []
    is_done = False
    while not is_done:
        is_done = merged.advance(0.0)
        assert [merged.place_of(number) for number in range(len(seen))[-50:]] == seen[-50:]
        seen += [merged.place_of(number) for number in range(len(seen), merged.line_count)]
    times = [line.text[5:19] for line in merged.lines(0, 18_000)]
    assert times == sorted(times)
    assert sorted(seen) == [(source, number) for source in range(3) for number in range(6000)]
    for number in rng.sample(range(18_000), 200):
        source, own = merged.place_of(number)
        assert merged._order.line_of(source, own) == number


@pytest.mark.parametrize("seed", range(12))
def test_any_logs_are_merged_as_a_stable_sort_by_their_running_times_would(logs: Logs, seed: int) -> None:
    rng = random.Random(seed)
    contents, order = [], []
    for source in range(rng.randrange(2, 5)):
        seconds, reached, lines = rng.randrange(3000), None, []
        for number in range(rng.randrange(0, 400)):
            seconds = max(0, seconds + rng.choice((0, 0, 0, 1, 2, 60, -1, -30)))
            has_time = rng.random() < 0.7
            clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            lines.append(at(clock, f"{source}.{number}") if has_time else f"] {source}.{number}")
            reached = max(reached or 0, seconds) if has_time else reached
            order.append([reached, source, number])
        first = next((moment for moment, of, _ in order if of == source and moment is not None), 10**9)
        for place in order:
            if place[1] == source and place[0] is None:
                place[0] = first
        contents.append(joined(*lines))
    merged = logs.open(*contents)
    read(merged)
    assert [merged.place_of(number) for number in range(merged.line_count)] == [
        (source, number) for _, source, number in sorted(order)
    ]
    assert words(read(merged)).split() == [f"{source}.{number}" for _, source, number in sorted(order)]


def test_an_unfinished_line_is_shown_and_then_finished_in_its_place(logs: Logs) -> None:
    merged = logs.open(joined(at("10:00:01", "a1")) + "ERR", joined(at("10:00:02", "b2")))
    assert words(read(merged)) == "a1 ERR b2"
    search = merged.search(compile_pattern("broken"))
    search.advance()
    assert search.count == 0
    with (logs.folder / "a").open("a") as file:
        file.write("OR 03-02 10:00:01 [core.py:1] broken\n")
    assert words(read(merged)) == "a1 broken b2"
    assert merged.lines(1, 2)[0].level == "ERROR"
    assert list(merged.filter(Wanted(levels=frozenset({"ERROR"}))).mask) == [0, 1, 0]
    search.advance()
    assert list(search.selection().mask) == [0, 1, 0]


def test_whole_lines_only(logs: Logs) -> None:
    merged = logs.open(joined(at("10:00:01", "a1")) + "unfin", joined(at("10:00:02", "b2")), whole_lines=True)
    assert words(read(merged)) == "a1 b2"
    logs.append("a", "ished")
    assert words(read(merged)) == "a1 b2 unfinished"


def test_filters_and_search_hold_in_the_merged_order(logs: Logs) -> None:
    later = LOAD.replace(b"10:11:", b"10:12:").replace(b"m-7b", b"n-8b").decode()
    merged = logs.open(later + "\n", LOAD.decode() + "\n")
    texts = read(merged)
    alone = open_log(logs.folder / "b")
    while not alone.advance():
        pass
    count = alone.line_count
    for wanted in (
        Wanted(levels=frozenset({"ERROR"}), layers=frozenset({"engine"})),
        Wanted(rank=1),
        Wanted(processes=frozenset({"Worker"})),
        Wanted(stages=frozenset({"weight_load"})),
    ):
        of_one = alone.filter(wanted).mask
        assert merged.filter(wanted).mask == of_one + of_one
        assert 1 in of_one
    assert merged.filter(Wanted(source=0)).mask == bytes(count) + b"\1" * count
    assert merged.filter(Wanted(model="n-8b")).mask == bytes(count) + b"\1" * count
    span = Span(parse_time("10:12", "--since"), None)
    assert merged.filter(Wanted(span=span)).mask[count:] == b"\1" * count
    search = merged.search(compile_pattern("blocks"))
    while not search.advance():
        pass
    assert list(search.selection().mask) == ["blocks" in text for text in texts]
    assert merged.stage_changes() == alone.stage_changes() + [
        (line + count, stage) for line, stage in alone.stage_changes()
    ]
    assert [name for _, name in merged.models()] == ["acme/m-7b", "acme/n-8b"]
    errors = [line for line in range(-1, count) if (found := alone.next_error(line)) is not None and found == line + 1]
    found, line = [], merged.next_error(-1)
    while line is not None:
        found.append(line)
        line = merged.next_error(line)
    firsts = [line + 1 for line in errors]
    assert found == firsts + [first + count for first in firsts]
    assert merged.last_error(2 * count) == found[-1]
    assert merged.has_error(1, 0, count)
    assert not merged.has_error(0, 0, count)
    assert not merged.has_error(0, found[-1] + count, 2 * count)


def test_a_search_goes_on_in_what_comes_later_and_after_a_cut(logs: Logs) -> None:
    merged = logs.open(joined(at("10:00:01", "hit a1")), joined(at("10:00:02", "b2")))
    read(merged)
    merged.poll()
    search = merged.search(compile_pattern("hit"))
    assert search.advance()
    logs.append("b", at("10:00:03", "hit b3"))
    read(merged)
    assert search.advance()
    assert list(search.selection().mask) == [1, 0, 1]
    (logs.folder / "a").write_text(joined(at("10:00:09", "hit")))
    look(merged)
    assert search.advance()
    assert list(search.selection().mask) == [0, 1, 1]


def test_a_cut_of_one_log_starts_the_merge_over_and_is_named(logs: Logs) -> None:
    merged = logs.open(joined(at("10:00:01", "a1"), at("10:00:03", "a3")), joined(at("10:00:02", "b2")))
    assert words(read(merged)) == "a1 b2 a3"
    merged.poll()
    (logs.folder / "a").write_text(joined(at("10:00:04", "new")))
    found = look(merged)
    assert [(happened.kind, happened.words) for happened in found] == [
        ("cut", "a: the file was cut and begins anew here")
    ]
    assert words([line.text for line in merged.lines(0, 9)]) == "b2 new"
    assert [(happened.line, happened.kind, happened.source) for happened in merged.breaks] == [(1, "cut", "a")]


def test_rotation_and_removal_are_marked_where_they_happened(logs: Logs) -> None:
    merged = logs.open(joined(at("10:00:01", "a1")), joined(at("10:00:02", "b2")))
    read(merged)
    merged.poll()
    (logs.folder / "a").rename(logs.folder / "a.1")
    logs.append("a", at("10:00:03", "a3"))
    look(merged)
    (logs.folder / "b").unlink()
    look(merged)
    assert words([line.text for line in merged.lines(0, 9)]) == "a1 b2 a3"
    assert [(happened.line, happened.kind, happened.source) for happened in merged.breaks] == [
        (2, "rotated", "a"),
        (3, "gone", "b"),
    ]


def test_tracebacks_fold_also_where_lines_of_another_log_stand_between(logs: Logs) -> None:
    begin, middle, end = "Traceback (most recent call last):", '  File "x.py", line 1, in f', "ValueError: broken in {}"
    merged = logs.open(joined(at("10:00:01", "a1")), joined(at("10:00:02", "b2")))
    read(merged)
    for name, lines in (("a", [begin]), ("b", [at("10:00:03", "b3")]), ("a", [middle]), ("b", [begin, middle]),
                        ("b", [end.format("b")]), ("a", [end.format("a")]), ("b", [at("10:00:04", "b4")])):  # fmt: skip
        logs.append(name, *lines)
        read(merged)
    folds = merged.folds()
    while not folds.advance():
        pass
    assert [merged.place_of(number)[0] for number in range(10)] == [0, 1, 0, 1, 0, 1, 1, 1, 0, 1]
    assert folds.spans() == [(2, 8), (5, 7)]
    assert list(folds.shown_mask()) == [1, 1, 1, 1, 0, 1, 0, 0, 0, 1]
    assert list(folds.shown_mask({2})) == [1, 1, 1, 1, 1, 1, 0, 0, 1, 1]
    assert list(folds.shown_mask({5})) == [1, 1, 1, 1, 0, 1, 1, 1, 0, 1]
    fold = folds.fold_at(8)
    assert fold is not None
    assert (fold.first_line, fold.last_line, fold.cause_line, fold.text) == (2, 8, 8, "ValueError: broken in a")
    assert folds.fold_at(3) is None
    assert len(folds) == 2


def test_causes_are_those_of_each_log_in_order(logs: Logs) -> None:
    later = LOAD.replace(b"10:11:", b"10:12:").decode()
    merged = logs.open(later + "\n", LOAD.decode() + "\n")
    read(merged)
    alone = merged.logs[1].log
    roots = Roots(alone)
    while not roots.advance():
        pass
    found = merged.roots()
    while not found.advance():
        pass
    lines = [cause.line for cause in roots.causes]
    assert lines
    assert [cause.line for cause in found.causes] == lines + [line + alone.line_count for line in lines]
    assert found.next_from(lines[-1] + 1) == lines[0] + alone.line_count
    assert found.last_before(lines[0] + alone.line_count) == lines[-1]


def test_the_tail_is_of_all_logs_before_anything_is_read(logs: Logs) -> None:
    merged = logs.open(
        joined(at("10:00:01", "a1"), at("10:00:03", "a3"), "bare"), joined(at("10:00:02", "b2"), at("10:00:04", "b4"))
    )
    assert [(source, text.rpartition("] ")[2]) for source, text in merged.tail(4)] == [
        (1, "b2"), (0, "a3"), (0, "bare"), (1, "b4")
    ]  # fmt: skip


def test_too_many_logs_are_refused(logs: Logs) -> None:
    path = logs.folder / "a"
    path.write_text("x\n")
    log = open_log(path)
    with pytest.raises(InputError, match="at most 255"):
        MergedIndex([NamedLog("a", log, FollowedLog(path, log))] * 256)
    log.close()
