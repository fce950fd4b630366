"""Going to a time in a log: over days, lines without a time, other logs' formats, and what is no time."""

from __future__ import annotations

import pytest

from engine_probe.logs.index import open_log
from tests.test_log_viewer import viewing
from tui.log_times import asked_time, first_line_at, stamp_at
from tui.widgets.words import Words


def lines() -> list[str]:
    """Three days, a record each ten seconds, with bare lines behind each."""
    return [
        row
        for day in (1, 2, 3)
        for second in range(0, 86400, 600)
        for row in (
            f"(Worker pid=1) INFO 03-{day:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} [a.py:1] x",
            *["bare"] * (second // 600 % 5),
        )
    ]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(lines()) + "\n")
    return path


@pytest.mark.parametrize(
    ("asked", "near", "expected"),
    [
        ("00:00", 0, "03-01 00:00:00"),
        ("10:11", 0, "03-01 10:20:00"),
        ("10:10", 700, "03-02 10:10:00"),
        ("10:10:01", 700, "03-02 10:20:00"),
        ("03-03 05:00", 0, "03-03 05:00:00"),
        ("2026-03-02", 0, "03-02 00:00:00"),
        ("02-01 05:00", 0, "03-01 00:00:00"),
        ("23:55", 0, "03-02 00:00:00"),
    ],
)
def test_the_first_line_of_that_time_or_a_later_one(path, asked, near, expected):
    log = open_log(path)
    while not log.advance():
        pass
    line = first_line_at(log, asked_time(asked), near)
    assert expected in lines()[line]
    log.close()


def test_a_log_that_ends_before_and_a_log_without_times(path, tmp_path):
    log = open_log(path)
    while not log.advance():
        pass
    assert first_line_at(log, asked_time("03-04 00:00"), 0) is None
    assert stamp_at(log, 2) == ("03-01", "00:10:00")
    log.close()
    bare = tmp_path / "bare.log"
    bare.write_text("bare\n" * 5000)
    log = open_log(bare)
    while not log.advance():
        pass
    assert first_line_at(log, asked_time("10:11"), 0) is None
    assert stamp_at(log, 3000) is None
    log.close()


def test_only_a_few_places_are_read(path, monkeypatch):
    log = open_log(path)
    while not log.advance():
        pass
    asked, read = [], log.lines_at
    monkeypatch.setattr(log, "lines_at", lambda numbers: asked.append(len(numbers)) or read(numbers))
    first_line_at(log, asked_time("03-02 12:00"), 0)
    assert sum(asked) < 300
    log.close()


@pytest.mark.parametrize("text", ["", "ten", "10", "25", "99:99:99:99", "1e3"])
def test_what_is_no_time(text):
    assert asked_time(text) is None


async def test_a_time_is_gone_to_and_one_behind_the_end_is_told(path):
    async with viewing(path) as viewer:
        await viewer.press("home")
        await viewer.ask("G", "03-02 12:00")
        assert "03-02 12:00:00" in lines()[viewer.view.marked]
        await viewer.ask("G", "13:00")
        assert "03-02 13:00:00" in lines()[viewer.view.marked]
        await viewer.ask("G", "04-01")
        assert "The log ends before that time" in viewer.words("#keys")
        await viewer.ask("G", "noon")
        assert "or a time such as 10:11" in viewer.pilot.app.screen.query_one("#about", Words).shown.plain
