"""The log pane: lines are data, whatever is in them, and memory stays bounded, however many come."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.app import App

from engine_probe import events as ev
from tests import tui_samples as samples
from tests.tui_samples import FakeRun, backend, replaying, until
from tui.app import ConsoleApp
from tui.screens.wizard import WizardScreen
from tui.themes.glyphs import ASCII, UNICODE, choose
from tui.themes.palette import DARK
from tui.widgets.clean_text import clean
from tui.widgets.log_lines import LogRow, clock_of, layer_of, rows_of
from tui.widgets.log_pane import MOST_ROWS, LogPane


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2J\x1b[Hhome", "home"),
        ("\x9b31mred", "red"),
        ("a\x00b\x07c", "a␀b␇c"),
        ("a\tb", "a       b"),
        ("progress 1\rprogress 2", "progress 1␍progress 2"),
        ("\u202eevil", "<U+202E>evil"),
        ("[bold]x[/]", "[bold]x[/]"),
        ("line\r\n", "line"),
    ],
)
def test_clean(text, shown):
    assert clean(text) == shown


def test_clean_bounds_an_endless_line():
    assert clean("x" * 1_000_000) == "x" * 4_000 + " … 996,000 more characters"


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            "(EngineCore pid=2620) ERROR 11-29 17:39:04 [core.py:1510] EngineCore failed to start.",
            LogRow(clock_of(samples.NOON), "engine", "error", "core.py: EngineCore failed to start."),
        ),
        (
            "(APIServer pid=1) INFO 11-29 17:38:40 [api_utils.py:286] non-default args",
            LogRow(clock_of(samples.NOON), "frontend", "info", "api_utils.py: non-default args"),
        ),
        (
            "(Worker pid=2632) INFO 11-29 17:39:03 [cpu_model_runner.py:68] Starting to load model",
            LogRow(clock_of(samples.NOON), "model_runner", "info", "cpu_model_runner.py: Starting to load model"),
        ),
        (
            "(Worker_TP0 pid=2) WARNING 11-29 17:39:03 [parallel_state.py:7] slow",
            LogRow(clock_of(samples.NOON), "worker", "warn", "parallel_state.py: slow"),
        ),
    ],
)
def test_row_of_a_printed_line(line, row):
    assert rows_of(ev.Text(time=samples.NOON, line=line)) == (row,)


def test_line_that_is_also_a_record_is_shown_once():
    record = ev.LogRecord(time=samples.NOON, level="WARNING", logger="vllm.v1.engine.core", message="two\nlines")
    text = ev.Text(time=samples.NOON, line="two", also_record=True)
    rows = [row for event in (record, text) for row in rows_of(event)]
    assert [row.text for row in rows] == ["two", "lines"]
    assert rows[0].layer == "engine"


@pytest.mark.parametrize(
    ("logger", "layer"),
    [
        ("vllm.entrypoints.openai.api_server", "frontend"),
        ("vllm.v1.engine.core", "engine"),
        ("vllm.v1.core.kv_cache_utils", "engine"),
        ("vllm.v1.worker.gpu_worker", "worker"),
        ("vllm.v1.worker.gpu_model_runner", "model_runner"),
        ("vllm.model_executor.model_loader.weight_utils", "model_runner"),
        ("torch.distributed", "outside"),
        ("huggingface_hub", "outside"),
        ("vllm.utils", None),
        ("", None),
    ],
)
def test_layer_of_a_logger(logger, layer):
    assert layer_of(logger, "") == layer


def test_layer_of_a_shared_module_is_that_of_its_process():
    assert layer_of("vllm.utils", "EngineCore_DP0") == "engine"
    assert layer_of("", "Worker_TP1") == "worker"


def test_ascii_is_chosen_for_a_locale_without_unicode():
    assert choose(encoding="ANSI_X3.4-1968") is ASCII
    assert choose(encoding="ISO-8859-1") is ASCII
    assert choose(encoding="UTF-8") is UNICODE
    assert choose(True, encoding="UTF-8") is ASCII


def test_ascii_text_keeps_its_width_but_for_signs_of_two_letters():
    text = "模型 ✓ 1 — …"
    assert ASCII.text(text).isascii()
    assert len(ASCII.text(text)) == cell_len(text)


class OnlyLog(App):
    def get_theme_variable_defaults(self):
        return dict(DARK.variables)

    def compose(self):
        yield LogPane(UNICODE, most_rows=100)


def numbered(count: int) -> list[LogRow]:
    return [LogRow("12:00:00", "engine", "info", f"line {number}") for number in range(count)]


async def test_following_pauses_by_scrolling_up_and_goes_on_by_scrolling_to_the_end():
    app = OnlyLog()
    async with app.run_test(size=(80, 12)) as pilot:
        log = app.query_one(LogPane)
        log.add(numbered(50))
        await until(pilot, lambda: log.total_rows == 50)
        assert log.scroll_offset.y == log.max_scroll_y > 0
        log.focus()
        await pilot.press("pageup")
        assert not log.following
        await until(pilot, lambda: log.scroll_offset.y < log.max_scroll_y)
        top = log.scroll_offset.y
        log.add(numbered(20))
        await until(pilot, lambda: log.total_rows == 70)
        assert log.scroll_offset.y == top
        await pilot.press("end")
        await until(pilot, lambda: log.following)


async def test_paused_rows_stay_in_place_while_old_ones_are_dropped():
    app = OnlyLog()
    async with app.run_test(size=(80, 12)) as pilot:
        log = app.query_one(LogPane)
        log.add(numbered(100))
        await until(pilot, lambda: log.total_rows == 100)
        log.follow(False)
        log.scroll_to(y=60, animate=False, immediate=True)
        seen = log.rows[log.scroll_offset.y].text
        log.add(numbered(30))
        await until(pilot, lambda: log.total_rows == 130)
        assert log.rows[log.scroll_offset.y].text == seen
        assert "last 100 kept" in str(log.border_title)


async def test_hostile_lines_are_shown_as_data_and_do_not_break_the_layout():
    run = replaying(samples.TESTED, samples.HOSTILE)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == samples.TESTED)
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: log.total_rows == len(samples.HOSTILE))
        await pilot.press("l")
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}
        drawn = "\n".join(strip.text for strip in strips)
        assert "[bold red]markup[/] [@click=app.quit]press[/] [/nothing]" in drawn
        assert "nul ␀ bell ␇" in drawn
        assert "模型加载失败" in drawn
        assert not any(ord(character) < 32 for character in drawn if character != "\n")
        await pilot.press("right", "right")
        assert {strip.cell_length for strip in app.screen._compositor.render_strips()} == {80}


async def test_200_000_lines_keep_memory_bounded():
    lines = [(samples.LOADING, ev.Text(time=samples.NOON, line=f"INFO line {n}")) for n in range(200_000)]
    app = ConsoleApp(backend(FakeRun([*lines, (samples.FAILED, None)])), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == samples.FAILED)
        log = app.screen.query_one(LogPane)
        await until(pilot, lambda: log.total_rows == 200_000)
        assert len(log.rows) == MOST_ROWS
        assert log.rows[-1].text == "INFO line 199999"
        assert "200,000 lines, last 20,000 kept" in str(log.border_title)
