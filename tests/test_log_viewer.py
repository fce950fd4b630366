"""The log viewer driven by keys, on logs that are small, hostile, growing, cut and rotated."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.index_wanted import Wanted
from tests.tui_samples import backend
from tests.vllm_log_samples import LOAD
from tui.app import ConsoleApp
from tui.opened_log import OpenedLog
from tui.screens.dialogs import AskText
from tui.screens.log_viewer import LogViewerScreen
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.key_bar import KeyBar
from tui.widgets.log_filters import LogFilters, next_level, next_stage, toggled
from tui.widgets.log_stages import LogStages
from tui.widgets.log_view import LogView
from tui.widgets.words import Words

if TYPE_CHECKING:
    from pathlib import Path

LINES = LOAD.decode().split("\n")
SIZES = [(80, 24), (120, 36), (200, 50)]


async def until(pilot, condition):
    for _ in range(500):
        await pilot.pause(0.01)
        if condition():
            return
    raise AssertionError("the condition never held")


class Viewer:
    """The screen in words."""

    def __init__(self, pilot, log: OpenedLog) -> None:
        self.pilot, self.log = pilot, log

    @property
    def screen(self):
        return next(screen for screen in self.pilot.app.screen_stack if isinstance(screen, LogViewerScreen))

    @property
    def view(self) -> LogView:
        return self.screen.query_one(LogView)

    def words(self, what) -> str:
        return self.screen.query_one(what).shown.plain

    def raws(self) -> list[str]:
        return [row.raw for row in self.view.visible_rows()]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def ask(self, key: str, text: str) -> None:
        await self.press(key)
        await until(self.pilot, lambda: isinstance(self.pilot.app.screen, AskText))
        self.pilot.app.screen.query_one("Input").value = text
        await self.press("enter")

    @property
    def is_settled(self) -> bool:
        """All is read, counted and drawn."""
        view, log = self.view, self.log
        return (
            log.has_been_read
            and log.is_derived
            and view.size.height > 0
            and view.virtual_size.height == log.row_count
            and (not view.following or view.scroll_offset.y == max(0, log.row_count - view.size.height))
        )

    async def until(self, condition) -> None:
        await until(self.pilot, condition)


@asynccontextmanager
async def viewing(path: Path, size=(100, 24), glyphs=UNICODE):
    log = OpenedLog.of_file(path)
    world = backend("nothing to open", exports=path.parent / "exports")
    app = ConsoleApp(world, log=log, glyphs=glyphs)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        viewer = Viewer(pilot, log)
        await viewer.until(lambda: viewer.is_settled)
        await pilot.pause()
        yield viewer
    log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n")
    return path


@pytest.fixture
def long(tmp_path: Path) -> Path:
    path = tmp_path / "long.log"
    path.write_bytes(b"".join(b"INFO 03-02 10:11:12 [a.py:1] line %d\n" % number for number in range(5000)))
    return path


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_log_is_shown_with_its_stages_counts_and_keys(path, size):
    async with viewing(path, size) as viewer:
        assert viewer.raws()[-2:] == LINES[-2:]
        await viewer.press("z")
        assert viewer.raws() == LINES[-len(viewer.raws()) :]
        assert viewer.words("#log-title").split("·")[1].startswith(" 19 lines")
        assert viewer.words("#log-title").endswith("following")
        assert "E 8" in viewer.words(LogFilters)
        assert "mem" in viewer.words(LogStages)
        assert "f filter" in viewer.words(KeyBar)
        strips = viewer.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {size[0]}


async def test_a_terminal_without_unicode_gets_ascii(path):
    with path.open("ab") as file:
        file.write("✓ 模型\n".encode())
    async with viewing(path, (80, 24), ASCII) as viewer:
        await viewer.press("exclamation_mark", "f")
        assert all(strip.text.isascii() for strip in viewer.screen._compositor.render_strips())


async def test_the_end_is_followed_until_a_person_moves_up(long):
    async with viewing(long) as viewer:
        assert viewer.raws()[-1].endswith("line 4999")
        await viewer.press("pageup")
        assert not viewer.view.following
        await viewer.until(lambda: not viewer.raws()[-1].endswith("line 4999"))
        top = viewer.raws()[0]
        with long.open("ab") as file:
            file.write(b"INFO 03-02 10:11:12 [a.py:1] line 5000\n")
        await viewer.until(lambda: viewer.log.index.line_count == 5001)
        assert viewer.raws()[0] == top
        await viewer.press("space")
        assert viewer.raws()[-1].endswith("line 5000")
        await viewer.press("home")
        assert viewer.raws()[0].endswith("line 0")
        await viewer.press("end")
        assert viewer.view.following


async def test_an_unfinished_line_is_drawn_again_when_it_goes_on(path):
    async with viewing(path) as viewer:
        for piece, shown in ((b"beg", "beg"), (b"un and done\n", "begun and done")):
            with path.open("ab") as file:
                file.write(piece)
            await viewer.until(lambda shown=shown: viewer.raws()[-1] == shown)


async def test_layers_level_and_stage_are_chosen_by_letters(path):
    async with viewing(path, (160, 24)) as viewer:
        await viewer.press("f", "e")
        assert all("EngineCore" in raw for raw in viewer.raws())
        assert "8 shown" in viewer.words("#log-title")
        await viewer.press("l", "l")
        assert "level ≥ error" in viewer.words(LogFilters)
        await viewer.until(lambda: "F 1 " in viewer.words(LogFilters))
        assert len(viewer.raws()) == 3
        await viewer.press("escape", "z", "f")
        assert len(viewer.raws()) == 7
        await viewer.press("e", "l", "s")
        assert "stage config" in viewer.words(LogFilters)
        assert viewer.raws() == LINES[:2]
        await viewer.press("a", "escape")
        assert viewer.raws() == LINES
        await viewer.press("e")
        assert viewer.raws() == LINES


async def test_a_search_is_counted_and_gone_through(path):
    async with viewing(path) as viewer:
        await viewer.ask("slash", "No available memory")
        await viewer.until(lambda: "1 of 2" in viewer.words(LogFilters))
        assert viewer.view.marked == 13
        await viewer.press("n")
        assert viewer.view.marked == 16
        assert "2 of 2" in viewer.words(LogFilters)
        await viewer.press("n")
        assert viewer.view.marked == 13
        await viewer.press("N")
        assert viewer.view.marked == 16
        await viewer.press("escape")
        assert "find" not in viewer.words(LogFilters)


async def test_a_search_counts_only_what_is_shown_and_grows_with_the_log(path):
    async with viewing(path) as viewer:
        await viewer.press("f", "f", "escape")
        await viewer.ask("slash", "Engine")
        await viewer.until(lambda: "1 of 1" in viewer.words(LogFilters))
        with path.open("ab") as file:
            file.write(b"(APIServer pid=10) INFO 03-02 10:12:12 [api_server.py:1] Engine\n")
        await viewer.until(lambda: "1 of 2" in viewer.words(LogFilters))


async def test_a_wrong_pattern_is_told_where_it_is_typed(path):
    async with viewing(path) as viewer:
        await viewer.ask("slash", "a(")
        about = viewer.pilot.app.screen.query_one("#about", Words).shown.plain
        assert "missing ), unterminated subpattern" in about
        await viewer.press("escape")
        assert viewer.log.found(None) is None


async def test_next_error_next_stage_and_a_line_by_its_number(long):
    with long.open("ab") as file:
        file.write(LOAD + b"\n")
    async with viewing(long) as viewer:
        await viewer.press("home", "exclamation_mark")
        assert viewer.view.marked == 5010
        await viewer.press("exclamation_mark")
        assert viewer.view.marked == 5014
        await viewer.press("E")
        assert viewer.view.marked == 5010
        await viewer.ask("G", "1,200")
        assert viewer.view.marked == 1199
        assert any(raw.endswith("line 1199") for raw in viewer.raws())
        await viewer.press("g")
        assert viewer.view.marked == 5000
        await viewer.ask("G", "999999")
        assert viewer.view.marked == 5018


async def test_hostile_bytes_are_shown_as_data(tmp_path):
    path = tmp_path / "hostile.log"
    lines = [
        b"\x1b]0;title\x07\x1b[31mred\x1b[0m [bold]x[/] [@click=app.quit]y[/]",
        b"nul \0 bell \a \xff\xfe \xe2\x80\xaeevil",
        b"x" * 300_000,
        "模型加载失败".encode(),
        b"hf_" + b"a" * 34,
    ]
    path.write_bytes(b"\n".join(lines))
    async with viewing(path, (80, 24)) as viewer:
        for _ in range(2):
            strips = viewer.screen._compositor.render_strips()
            assert {strip.cell_length for strip in strips} == {80}
            drawn = "\n".join(strip.text for strip in strips)
            assert "red [bold]x[/] [@click=app.quit]y[/]" in drawn
            assert "nul ␀ bell ␇" in drawn
            assert "模型加载失败" in drawn
            assert "aaaa" not in drawn
            assert not any(ord(character) < 32 for character in drawn if character != "\n")
            await viewer.press("r", "right", "left")


async def test_a_cut_and_a_rotated_file_go_on_behind_a_mark(path):
    async with viewing(path) as viewer:
        await viewer.press("home", "exclamation_mark")
        await viewer.ask("slash", "one")
        await viewer.until(lambda: "no line" in viewer.words(LogFilters))
        path.write_bytes(b"one\n")
        await viewer.until(lambda: viewer.raws() == ["the file was cut and begins anew here", "one"])
        await viewer.until(lambda: "1 line" in viewer.words(LogFilters) or "1 of 1" in viewer.words(LogFilters))
        assert viewer.view.marked is None
        new = path.with_suffix(".new")
        new.write_bytes(b"two\n")
        new.rename(path)
        await viewer.until(lambda: viewer.raws()[2:] == ["the file was rotated; a new one begins here", "two"])
        await viewer.ask("G", "2")
        assert viewer.view.marked == 1


async def test_an_empty_file_is_shown_and_filled(tmp_path):
    path = tmp_path / "empty.log"
    path.touch()
    async with viewing(path) as viewer:
        assert viewer.raws() == []
        await viewer.press("exclamation_mark", "g", "f", "e", "l", "s", "a", "escape", "pageup", "r")
        path.write_bytes(b"one\n")
        await viewer.until(lambda: viewer.raws() == ["one"])


async def test_what_is_shown_is_written_to_a_file_whose_path_is_told(path, tmp_path):
    exports = tmp_path / "exports"
    async with viewing(path) as viewer:
        await viewer.press("f", "e", "escape", "e")
        await viewer.until(lambda: "Written, 8 lines: " in viewer.words(KeyBar))
        written = (exports / "log.txt").read_text().splitlines()
        assert written == [line for line in LINES if "EngineCore" in line]
        await viewer.press("z", "y")
        assert (exports / "copy.txt").read_text().splitlines() == written


async def test_the_end_of_a_log_is_shown_before_it_is_indexed(long, monkeypatch):
    log = OpenedLog.of_file(long)
    monkeypatch.setattr(log.index, "advance", lambda _seconds: False)
    app = ConsoleApp(backend("nothing to open"), log=log, glyphs=UNICODE)
    async with app.run_test(size=(100, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        viewer = Viewer(pilot, log)
        await viewer.until(lambda: viewer.raws() and viewer.raws()[-1].endswith("line 4999"))
        assert "0 % read" in viewer.words("#log-title")
        await viewer.press("pageup", "exclamation_mark", "n", "g", "end")
        assert viewer.raws()[-1].endswith("line 4999")
    log.close()


async def test_nothing_is_drawn_again_while_nothing_changes(path, monkeypatch):
    async with viewing(path) as viewer:
        steps, drawn = [], []
        step, line = viewer.log.step, LogView.render_line
        monkeypatch.setattr(viewer.log, "step", lambda: steps.append(1) or step())
        await viewer.until(lambda: len(steps) > 2)
        monkeypatch.setattr(LogView, "render_line", lambda self, y: drawn.append(y) or line(self, y))
        await viewer.until(lambda: len(steps) > 6)
        assert not drawn


async def test_what_a_search_found_stands_out(path):
    async with viewing(path) as viewer:
        await viewer.ask("slash", "fused_m.e")
        await viewer.until(lambda: viewer.view.marked == 8)
        strips = [viewer.view.render_line(y) for y in range(viewer.view.size.height)]
        marks = [segment.text for strip in strips for segment in strip if segment.style and segment.style.reverse]
        assert marks == ["fused_moe"]


async def test_help_begins_with_the_keys_of_the_log(path):
    async with viewing(path) as viewer:
        await viewer.press("question_mark")
        text = viewer.pilot.app.screen.query_one("#text", Words).shown.plain
        assert text.startswith("In a log")
        await viewer.press("escape")
        assert isinstance(viewer.pilot.app.screen, LogViewerScreen)


async def test_leaving_asks_nothing(path):
    async with viewing(path) as viewer:
        await viewer.press("q")
        assert viewer.pilot.app.return_value == 0


def test_rows_and_lines_convert_both_ways_over_breaks_and_filters(path):
    log = OpenedLog.of_file(path)
    while log.step():
        pass
    new = path.with_suffix(".new")
    new.write_bytes(LOAD)
    new.rename(path)
    while log.step() or len(log.breaks) < 1 or not log.index.is_complete:
        pass
    for wanted in (Wanted(), Wanted(layers=frozenset({"engine"}))):
        log.want(wanted)
        rows = log.rows(0, log.row_count)
        assert len(rows) == log.row_count
        assert [log.rows(row, row + 1)[0] for row in range(len(rows))] == rows
        numbers = [(row, shown.number) for row, shown in enumerate(rows) if hasattr(shown, "number")]
        assert [log.row_of(number) for _, number in numbers] == [row for row, _ in numbers]
        assert [log.line_at(row) for row, _ in numbers] == [number for _, number in numbers]
    log.close()


def test_toggles_go_round():
    assert toggled(None, "engine") == {"engine"}
    assert toggled(frozenset({"engine"}), "engine") is None
    assert toggled(frozenset({"engine"}), "worker") == {"engine", "worker"}
    assert next_level(next_level(next_level(None))) is None
    assert next_stage(next_stage(None, ["config"]), ["config"]) is None
    assert next_stage(None, []) is None


def test_no_secret_reaches_a_row(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_bytes(b"token hf_" + b"a" * 34 + b"\n")
    log = OpenedLog.of_file(path)
    while log.step():
        pass
    assert not re.search("a{8}", str(log.rows(0, 1)))
    log.close()
