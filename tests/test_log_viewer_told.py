"""What the log viewer says of a jump, how the marked row is seen without colours, and the ways out of it."""

from __future__ import annotations

import os
import re

import pytest

from tests.test_log_viewer import viewing
from tests.vllm_log_samples import LOAD
from tui.log_silence import Silence
from tui.opened_log import OpenedLog
from tui.screens.dialogs import AskText, Confirm
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.key_bar import KeyBar
from tui.widgets.log_stages import LogStages
from tui.widgets.stage_strip import draw_stages
from tui.widgets.words import seconds


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n")
    return path


def drawn(viewer) -> list[str]:
    view = viewer.view
    return [view.render_line(y).text for y in range(view.scrollable_content_region.height)]


async def test_a_jump_to_what_is_on_the_screen_already_is_said(path):
    async with viewing(path, (120, 40)) as viewer:
        await viewer.press("exclamation_mark")
        assert viewer.words(KeyBar).startswith("Error, line 1")
        await viewer.press("home", "c")
        await viewer.until(lambda: viewer.words(KeyBar).startswith("Root cause, line "))
        assert "ValueError" in viewer.words(KeyBar)
        await viewer.press("home", "g")
        assert viewer.words(KeyBar).startswith("Stage ")
        await viewer.press("j")
        assert "f filter" in viewer.words(KeyBar), "the keys are back"


@pytest.mark.parametrize(("glyphs", "sign"), [(UNICODE, "▸"), (ASCII, ">")], ids=["unicode", "ascii"])
async def test_the_marked_row_has_a_sign_and_as_printed_it_is_reversed(path, glyphs, sign):
    async with viewing(path, (100, 40), glyphs) as viewer:
        await viewer.press("home", "z", "J")
        assert [row[8] for row in drawn(viewer) if row.strip()].count(sign) == 1
        await viewer.press("r")
        view = viewer.view
        rows = [view.render_line(y) for y in range(view.scrollable_content_region.height)]
        assert (
            sum(all(part.style.reverse for part in row if part.text.strip()) for row in rows if row.text.strip()) == 1
        )


async def test_ctrl_c_leaves_a_log_at_once(path):
    async with viewing(path) as viewer:
        await viewer.press("ctrl+c")
        await viewer.until(lambda: viewer.pilot.app.return_value is not None)
        assert not isinstance(viewer.pilot.app.screen, Confirm)


async def test_a_line_behind_the_last_is_the_last_and_what_is_no_line_is_told_first(path):
    async with viewing(path) as viewer:
        await viewer.press("z")
        await viewer.ask("G", "9999")
        assert viewer.view.marked == 18
        assert "only 19 lines" in viewer.words(KeyBar)
        await viewer.ask("G", "noon")
        about = viewer.pilot.app.screen.query_one("#about").shown
        assert isinstance(viewer.pilot.app.screen, AskText)
        assert about.plain.startswith("no line or time: noon; a line from 1 to 19")
        assert {span.style for span in about.spans} == {"$warning"}


@pytest.mark.parametrize(
    ("count", "words"),
    [(0.3, "0.3s"), (12, "12s"), (245, "4m05s"), (3599, "59m59s"), (3720, "1h02m"), (86399, "23h59m"),
     (2 * 86400 + 3 * 3600 + 5, "2d03h")],
)  # fmt: skip
def test_long_times_are_short(count, words):
    assert seconds(count) == words


async def test_stages_that_do_not_fit_end_in_dots(path):
    async with viewing(path) as viewer:
        stages = viewer.screen.query_one(LogStages)._known[1]
    for width in (10, 30, 50):
        row = draw_stages(stages, width, UNICODE)
        assert row.cell_length <= width
        assert row.plain.endswith("…")


@pytest.mark.parametrize("size", [(20, 7), (20, 6), (20, 5), (80, 4), (10, 3), (10, 2)], ids=str)
async def test_on_a_low_terminal_most_rows_are_the_log(path, size):
    async with viewing(path, size) as viewer:
        assert viewer.view.scrollable_content_region.height >= 0.6 * size[1]
        assert sum(bool(row.strip()) for row in drawn(viewer)) >= 0.6 * size[1]


async def test_on_a_low_terminal_the_filters_take_the_place_of_the_title(path):
    async with viewing(path, (60, 5)) as viewer:
        await viewer.press("f")
        assert viewer.screen.query_one("#log-filters").region.height == 1
        assert not viewer.screen.query_one("#log-title").display


@pytest.mark.parametrize("size", [(20, 5), (10, 3)], ids=str)
async def test_on_a_low_terminal_what_is_written_into_a_dialog_is_seen(path, size):
    async with viewing(path, size) as viewer:
        await viewer.press("slash", "a")
        await viewer.until(lambda: isinstance(viewer.pilot.app.screen, AskText))
        screen = viewer.pilot.app.screen
        await viewer.until(lambda: screen.query_one("#value").region.height == 1)
        assert screen.region.contains_region(screen.query_one("#value").region)
        strips = screen._compositor.render_strips()
        assert any("a" in strip.text for strip in strips[screen.query_one("#value").region.y :][:1])


async def test_an_error_is_also_a_bare_line_that_a_load_died_of(tmp_path):
    path = tmp_path / "bare.log"
    path.write_bytes(
        b"INFO 03-02 10:11:12 [api_server.py:1] vLLM API server version 0.13.0\n"
        b"ERROR 03-02 10:11:13 [config.py:1] a value is odd\n"
        b"INFO 03-02 10:11:14 [llm_engine.py:1] Initializing an LLM engine with config: model='acme/m'\n"
        b"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    )
    async with viewing(path) as viewer:
        log = viewer.log
        await viewer.until(lambda: log.causes_are_known)
        assert [log.next_error(line) for line in (-1, 1, 3)] == [1, 3, 1]
        assert [log.last_error(line) for line in (1, 3, 99)] == [3, 1, 3]
        await viewer.press("home", "exclamation_mark", "exclamation_mark")
        assert viewer.words(KeyBar).startswith("Error, line 4: ")


LOADS = LOAD[: LOAD.index(b"(EngineCore_DP0 pid=20) ERROR")]


@pytest.mark.parametrize(
    ("content", "is_silent"),
    [(LOADS, True), (LOAD, False), (b"nothing of a load\n", False),
     (LOADS + b"(APIServer pid=10) INFO 03-02 10:12:40 [api_server.py:1] Application startup complete.\n", False)],
    ids=["hangs", "failed", "no load", "serves"],
)  # fmt: skip
def test_a_load_that_went_silent_is_told(tmp_path, content, is_silent):
    path = tmp_path / "vllm.log"
    path.write_bytes(content)
    log = OpenedLog.of_file(path)
    silence, changed = Silence(log), path.stat().st_mtime
    assert silence.words(changed + 100) == "", "nothing is known yet"
    while log.step():
        pass
    assert silence.words(changed + 50) == ""
    told = silence.words(changed + 300)
    assert (re.fullmatch(r"silent since (03-02 )?10:11:4\d", told) is not None) == is_silent, told
    assert ("03-02 10:11:4" in silence.words(changed + 3 * 86400)) == is_silent
    log.close()


async def test_the_title_tells_of_the_silence(path):
    path.write_bytes(LOADS)
    os.utime(path, (0, 1_000_000))
    async with viewing(path) as viewer:
        await viewer.until(lambda: "silent since 03-02 10:11:4" in viewer.words("#log-title"))
        with path.open("ab") as file:
            file.write(b"(EngineCore_DP0 pid=20) INFO 03-02 10:20:01 [core.py:1] it goes on\n")
        await viewer.until(lambda: "silent" not in viewer.words("#log-title"))


async def test_the_first_row_of_another_day_shows_the_day(tmp_path):
    path = tmp_path / "days.log"
    stamps = ["11-29 23:59:58", "11-29 23:59:59", "11-30 00:00:00", "11-30 00:00:01", "12-01 09:00:00"]
    path.write_text("".join(f"INFO {stamp} [a.py:1] a line\nbare\n" for stamp in stamps))
    async with viewing(path) as viewer:
        clocks = [row[:8].strip() for row in drawn(viewer)[:10]][::2]
        assert clocks == ["23:59:58", "23:59:59", "11-30", "00:00:01", "12-01"]
        await viewer.press("w")
        assert [row[:8].strip() for row in drawn(viewer)[:10]][::2] == clocks
