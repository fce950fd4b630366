"""Tracebacks closed to their cause: nothing is lost by it, and every way to a line leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.index_wanted import Wanted
from tests.test_log_viewer import LINES, viewing
from tests.vllm_log_samples import LOAD
from tui.opened_log import OpenedLog
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.log_filters import LogFilters, next_model

if TYPE_CHECKING:
    from pathlib import Path

OTHER = LOAD.replace(b"acme/m-7b", b"acme/other")
TAIL = b"""\
(APIServer pid=10) INFO 03-02 10:12:00 [a.py:1] before
Traceback (most recent call last):
  File "/x/vllm/a.py", line 1, in f
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
(APIServer pid=10) INFO 03-02 10:12:01 [a.py:1] behind
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n")
    return path


def drawn(viewer) -> list[str]:
    view = viewer.view
    return [view.render_line(y).text for y in range(view.scrollable_content_region.height)]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=str)
async def test_a_traceback_is_its_cause_until_it_is_opened(path, size, glyphs):
    with path.open("ab") as file:
        file.write(TAIL)
    async with viewing(path, size, glyphs) as viewer:
        await viewer.press("home")
        closed = [row for row in drawn(viewer) if glyphs.running in row]
        assert [row.split(f"{glyphs.running} ")[1].split("  ")[0] for row in closed[:2]] == [
            "ValueError: No available memory for the cache blocks."[
                : len(closed[0].split(f"{glyphs.running} ")[1].split("  ")[0])
            ]
        ] * 2
        assert closed[0].rstrip().endswith("(+2 lines)")
        assert f"{glyphs.running} wrapper: RuntimeError: Engine core" in closed[2]
        await viewer.press("exclamation_mark", "exclamation_mark", "exclamation_mark")
        assert viewer.raws()[viewer.raws().index(LINES[14]) + 1] == LINES[17]
        assert viewer.view.marked == 17
        await viewer.press("E", "enter")
        assert viewer.raws()[viewer.raws().index(LINES[14]) :][:4] == LINES[14:18]
        assert any(f"{glyphs.opened} Traceback" in row for row in drawn(viewer))
        await viewer.press("enter")
        assert LINES[15] not in viewer.raws()


async def test_all_are_opened_and_closed_and_raw_shows_all(path):
    async with viewing(path, (120, 36)) as viewer:
        few = viewer.raws()
        for key in ("z", "r"):
            await viewer.press(key)
            assert viewer.raws() == LINES
            await viewer.press(key)
            assert viewer.raws() == few
        await viewer.press("z", "exclamation_mark", "enter")
        assert len(viewer.raws()) == len(LINES) - 2
        await viewer.press("r", "r")
        assert len(viewer.raws()) == len(LINES) - 2


async def test_a_search_opens_what_hides_its_match(path):
    async with viewing(path, (120, 36)) as viewer:
        await viewer.ask("slash", "run_engine_core")
        await viewer.until(lambda: viewer.view.marked == 15)
        assert LINES[15] in viewer.raws()
        assert LINES[12] not in viewer.raws()
        assert "1 of 1" in viewer.words(LogFilters)
        await viewer.ask("G", "13")
        assert viewer.view.marked == 12
        assert LINES[12] in viewer.raws()


async def test_root_causes_are_gone_to_one_after_another(path):
    with path.open("ab") as file:
        file.write(LOAD.replace(b"10:1", b"10:2") + b"\n")
    async with viewing(path, (80, 24)) as viewer:
        await viewer.press("home", "c")
        await viewer.until(lambda: viewer.view.marked == 11)
        await viewer.press("c")
        assert viewer.view.marked == 30
        await viewer.press("c")
        assert viewer.view.marked == 11


async def test_without_a_failed_load_there_is_no_cause(path):
    path.write_bytes(b"\n".join(LOAD.split(b"\n")[:9]) + b"\n")
    async with viewing(path) as viewer:
        await viewer.press("c")
        await viewer.until(lambda: "No load that failed was seen" in viewer.words("#keys"))
        await viewer.press("enter", "z")
        assert "enter" not in viewer.words("#keys")


async def test_an_export_holds_all_lines(path, tmp_path):
    async with viewing(path) as viewer:
        await viewer.press("e")
        await viewer.until(lambda: "Written, 19 lines: " in viewer.words("#keys"))
        assert (tmp_path / "exports" / "log.txt").read_text().splitlines() == LINES


async def test_lines_keep_their_place_while_tracebacks_come(path):
    path.write_bytes(b"\n".join(b"INFO 03-02 10:11:12 [a.py:1] line %d" % number for number in range(99)) + b"\n")
    async with viewing(path, (100, 24)) as viewer:
        await viewer.ask("G", "60")
        top = viewer.raws()[0]
        with path.open("ab") as file:
            file.write(LOAD + b"\n")
        await viewer.until(lambda: viewer.is_settled and viewer.log.index.line_count == 118)
        assert viewer.raws()[0] == top
        assert viewer.view.marked == 59
        await viewer.press("end")
        assert viewer.raws()[-1] == LINES[-1]
        assert LINES[15] not in viewer.raws()


def test_no_wanted_line_is_hidden_where_nothing_stands_for_it(path):
    log = OpenedLog.of_file(path)
    while log.step() or not log.is_derived:
        pass
    assert log.row_count == 15
    assert [log.row_of(line) for line in range(11, 15)] == [11, 11, 11, 12]
    for wanted in (Wanted(), Wanted(levels=frozenset({"ERROR"})), Wanted(layers=frozenset({"engine"}))):
        log.want(wanted)
        hidden = sum(log.hidden_count(fold) for fold in map(log.closed_at, (11, 14)) if fold)
        assert log.row_count + hidden == log.wanted_count == len(log.all_wanted)
    log.close()


async def test_models_are_told_apart_only_where_there_are_several(path):
    async with viewing(path, (160, 24)) as viewer:
        assert "model" not in viewer.words(LogFilters)
        with path.open("ab") as file:
            file.write(OTHER + b"\n")
        await viewer.until(lambda: "model all" in viewer.words(LogFilters))
        await viewer.press("f", "d", "d")
        assert "model other" in viewer.words(LogFilters)
        await viewer.until(lambda: viewer.is_settled and "F 4 " in viewer.words(LogFilters))
        assert "19 shown" in viewer.words("#log-title")
        await viewer.press("l", "l")
        await viewer.until(lambda: viewer.is_settled and "F 1 " in viewer.words(LogFilters))
        await viewer.press("d", "l", "s")
        await viewer.until(lambda: viewer.is_settled and "F 4 " in viewer.words(LogFilters))
        assert "4 shown" in viewer.words("#log-title")


def test_models_go_round():
    assert next_model(None, ["a", "b"]) == "a"
    assert next_model("b", ["a", "b"]) is None
    assert next_model("gone", ["a"]) == "a"


async def test_a_line_is_marked_by_keys_and_by_clicks(path):
    async with viewing(path, (120, 30)) as viewer:
        await viewer.press("home", "J")
        assert viewer.view.marked == 0
        for _ in range(12):
            await viewer.press("J")
        assert viewer.view.marked == 14
        await viewer.press("K")
        assert viewer.view.marked == 11
        assert viewer.view.fold[0].first_line == 11
        for marked, is_closed in ((14, True), (14, False), (14, True)):
            await viewer.pilot.click(viewer.view, offset=(30, 1 + 12))
            await viewer.pilot.pause()
            assert viewer.view.marked == marked
            assert viewer.log.folding.is_closed(viewer.view.fold[0]) is is_closed
        await viewer.pilot.click(viewer.view, offset=(30, 25))
        assert viewer.view.marked == 14


async def test_a_jump_is_taken_back_and_made_again(path):
    async with viewing(path, (120, 10)) as viewer:
        await viewer.ask("G", "1")
        await viewer.ask("G", "19")
        await viewer.press("exclamation_mark")
        for key, line in (("{", 18), ("{", 0), ("}", 18), ("}", 10)):
            await viewer.press({"{": "left_curly_bracket", "}": "right_curly_bracket"}[key])
            assert viewer.view.marked == line
        await viewer.press("right_curly_bracket")
        assert "No jump was taken back" in viewer.words("#keys")
        await viewer.ask("G", "3")
        await viewer.press("left_curly_bracket")
        assert viewer.view.marked == 10


async def test_a_line_that_the_filter_hides_is_told_and_a_cause_too(path):
    async with viewing(path, (120, 30)) as viewer:
        await viewer.press("f", "f", "escape")
        await viewer.ask("G", "4")
        assert "Line 4 is hidden by the filter" in viewer.words("#keys")


async def test_a_copy_holds_the_lines_of_closed_tracebacks(path, tmp_path):
    async with viewing(path, (120, 30)) as viewer:
        assert LINES[15] not in viewer.raws()
        await viewer.press("y")
        assert (tmp_path / "exports" / "copy.txt").read_text().splitlines() == LINES
        path.write_bytes(path.read_bytes()[: LOAD.index(b"(APIServer pid=10) ERROR")])
        await viewer.until(lambda: viewer.is_settled and viewer.log.index.line_count == 17)
        await viewer.press("y")
        copied = (tmp_path / "exports" / "copy-2.txt").read_text().splitlines()
        assert copied[-17:] == LINES[:17]
