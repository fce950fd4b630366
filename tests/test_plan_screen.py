"""The memory plan driven by keys and mouse, at all sizes, on model folders made by hand."""

from __future__ import annotations

import re
import threading

import pytest
from textual.widgets import Input

from engine_probe.errors import InputError
from tests.plan_samples import SIX, TWO, console, one_a_gpu, plan_of, row_of, write_plan
from tests.test_monitor_screen import drawn, text_of
from tests.test_tui_console import keys_of
from tests.tui_samples import until, until_still
from tui import plan_inputs
from tui.screens.dialogs import AskText
from tui.screens.facts_dialog import FactsDialog
from tui.screens.help import HelpScreen
from tui.screens.monitor import MonitorScreen
from tui.screens.plan import PlanScreen
from tui.screens.start import StartScreen
from tui.themes.glyphs import ASCII
from tui.widgets.words import Words

SIZES = [(80, 24), (120, 36), (200, 50)]


# Each plan at each size


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(("gpus", "models"), [(1, 1), (8, 3), (8, 6), (16, 6)])
async def test_nothing_is_lost_or_overlaps(tmp_path, gpus, models, size):
    app = console(write_plan(tmp_path, one_a_gpu(models)), f"{gpus}xA100-80GB")
    async with app.run_test(size=size) as pilot:
        screen = await plan_of(pilot)
        regions = [widget.region for widget in screen.children if widget.display and widget.region.height]
        assert sum(region.height for region in regions) <= size[1]
        assert all(screen.region.contains_region(region) for region in regions)
        assert not any(one.overlaps(other) for one in regions for other in regions if one is not other)
        for pane in screen.panes.values():
            rows = [pane.content.heading, *(pane.content.rows if pane.is_open else ())]
            assert all(sum(len(text) for text, _ in row) <= pane.content_region.width for row in rows)
        for number in range(models):
            assert row_of(app, f"model-{number}")
        assert "q quit" in text_of(app)
        assert "? help" in text_of(app)


@pytest.mark.parametrize("size", [(1, 1), (10, 4), (20, 3), (40, 10), (60, 16)])
async def test_tiny_terminals_do_no_harm(tmp_path, size):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and app.screen.state is not None)
        await pilot.press("plus", "down", "t", "minus")
        await pilot.resize_terminal(120, 36)
        await until(pilot, lambda: "chat-70b" in text_of(app))


async def test_a_file_that_does_not_fit_is_told_at_the_top_on_the_gpu_and_at_the_model(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        top = drawn(app)[0]
        assert "deployment.yaml · vLLM 0.19.0 · 8×A100-80GB" in top
        assert top.endswith("does not fit: code-8b on GPU 0")
        gpu = next(line for line in drawn(app) if line.startswith("   0 "))
        assert re.search(r" 1█+▒+▓+2█*[▒▓]*! +7\d\.\d / 79\.\d GiB +! 2 code-8b over by 6\d\.\d GiB +1 chat", gpu)
        assert re.search(r"4 +1? *·+ +0 / 79\.\d GiB +free", next(one for one in drawn(app) if one.startswith("   4 ")))
        assert "✗ does not fit" in row_of(app, "2 code-8b")
        assert "✓ fits" in row_of(app, "1 chat-70b")
        assert "(co-located-models-budgets-exceed-gpu)" in text_of(app)
        assert " ▸ 2 code-8b" in text_of(app)


async def test_bars_are_as_long_as_their_numbers(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        screen = await plan_of(pilot)
        memory = screen.state.plan.models[0].worst
        gpu = next(line for line in drawn(app) if line.startswith("   1 "))
        bar = re.search(r"(1█+)(▒+)(▓+)(·+)", gpu)
        assert len(bar[1]) / len(bar[0]) == pytest.approx(memory.parts.weights.value / memory.total_gib, abs=0.03)
        assert len(bar[3]) / len(bar[0]) == pytest.approx(memory.kv_pool.value / memory.total_gib, abs=0.03)


async def test_gpus_that_hold_the_same_are_one_row_where_there_is_little_room(tmp_path):
    app = console(write_plan(tmp_path), "16xA100-80GB")
    async with app.run_test(size=(80, 24)) as pilot:
        await plan_of(pilot)
        assert [line[3:8].strip() for line in drawn(app)[3:6]] == ["0", "1–3", "4–15"]
        await pilot.resize_terminal(120, 60)
        await until(pilot, lambda: re.search(r"\n   15 ", text_of(app)))


async def test_the_detail_has_every_number_with_its_range_and_source(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        await plan_of(pilot)
        await pilot.press("up")
        text = text_of(app)
        for label in ("weights", "activation", "CUDA graphs", "non-torch", "CUDA context", "budget", "KV pool"):
            assert re.search(rf"   {label} +\d+\.\d\d GiB  \d+\.\d\d to \d+\.\d\d +(computed|declared|measured)", text)
        assert re.search(r"per token +81,920  bytes +[\d,]+ blocks of 16 tokens", text)
        assert re.search(r"KV tokens +[\d,]+ +\d+\.\d\d requests of 8,192 tokens at once", text)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        assert "chat-70b on GPU 0–3: fits" in app.screen.query_one("#question", Words).shown.plain


async def test_all_is_drawn_in_ascii(tmp_path):
    app = console(write_plan(tmp_path, SIX), glyphs=ASCII)
    async with app.run_test(size=(200, 50)) as pilot:
        await plan_of(pilot)
        assert [line for line in drawn(app) if not line.isascii()] == []
        assert re.search(r" 1#+-+=+\.+ ", text_of(app))
        assert " > 6 tiny-too" in text_of(app)


async def test_without_colours_marks_and_changes_are_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("minus")
        assert " ▸ 2 code-8b" in text_of(app)
        assert "▸util" in text_of(app)
        assert "0.89*" in row_of(app, "2 code-8b")


async def test_text_of_files_is_data(tmp_path):
    evil = "'[bold]x[/] [@click=app.quit]y'"
    app = console(write_plan(tmp_path, TWO.replace("name: code-8b", f"name: {evil}")))
    async with app.run_test(size=(200, 50)) as pilot:
        await plan_of(pilot)
        assert "[bold]x[/] [@click=app.quit]y" in text_of(app)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))


# Other screens


async def test_4_asks_for_a_file_and_the_plan_stays_while_other_screens_are_looked_at(tmp_path):
    app = console(None)
    app._start = "monitor"
    path = write_plan(tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen))
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = str(path)
        await pilot.press("enter")
        screen = await plan_of(pilot)
        await pilot.press("minus")
        assert "one change tried, not saved" in drawn(app)[1]
        await pilot.press("1")
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen))
        await pilot.press("4")
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: "one change tried, not saved" in drawn(app)[1])
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("4")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert "On the memory plan" in app.screen.query_one("#text", Words).shown.plain
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))


async def test_a_click_on_the_tab_line_leads_there_and_back(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        await pilot.click("#tabs", offset=(3, 0))
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen))
        await until(pilot, lambda: "4 Plan" in drawn(app)[1])
        await pilot.click("#tabs", offset=(drawn(app)[1].index("4 Plan") + 1, 0))
        await until(pilot, lambda: app.screen is screen)


# The mouse


async def test_a_click_marks_a_model_and_chooses_a_value_and_two_open_it(tmp_path):
    app = console(write_plan(tmp_path, SIX))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        lines = drawn(app)
        y = next(number for number, line in enumerate(lines) if "2 code-8b" in line[3:14])
        heading = next(line for line in lines if line.startswith(" Models"))
        await pilot.click(offset=(heading.index("length") + 3, y))
        assert screen.chosen == "code-8b"
        assert screen.focus_on == "length"
        assert "+ − change the length of code-8b, now 4,096" in text_of(app)
        await pilot.click(offset=(6, y), times=2)
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))


async def test_the_wheel_scrolls_what_has_more_than_its_room(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await plan_of(pilot)
        detail = screen.panes["detail"]
        assert re.search(r"1–\d+ of \d+", text_of(app))
        detail._scroll(3)
        await until(pilot, lambda: re.search(r" 4–\d+ of \d+", text_of(app)))
        await pilot.press("tab")
        assert screen.focused is detail
        await pilot.press("up", "up", "up")
        await until(pilot, lambda: re.search(r" 1–\d+ of \d+", text_of(app)))


async def test_bare_shows_nothing_but_text(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        await pilot.press("b")
        await until(pilot, lambda: drawn(app)[0].startswith(" GPU memory"))
        assert "q quit" not in text_of(app)
        await pilot.press("escape")
        await until(pilot, lambda: "q quit" in text_of(app))
        assert app.screen is screen


async def test_what_is_shown_can_be_written_to_a_file(tmp_path):
    app = console(write_plan(tmp_path), exports=tmp_path / "exports")
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("e")
        await until(pilot, lambda: "Written: " in text_of(app))
        (file,) = (tmp_path / "exports").iterdir()
        assert "does not fit: code-8b on GPU 0" in file.read_text(encoding="utf-8")


# Trouble


async def said_at(pilot) -> str:
    screen = await plan_of(pilot)
    assert screen.state is None
    return " ".join(text_of(pilot.app).split())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "config.json"),
        ("[" * 100_000, "config.json"),
        ('{"model_type": "llama", "num_hidden_layers": -3}', "num_hidden_layers"),
        (None, "there is no config.json"),
    ],
)
async def test_a_damaged_model_folder_is_one_sentence_and_keys_go_on_working(tmp_path, content, words):
    path = write_plan(tmp_path)
    config = tmp_path / "llama-8b" / "config.json"
    whole = config.read_text(encoding="utf-8")
    config.unlink()
    if content is not None:
        config.write_text(content, encoding="utf-8")
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        assert words in await said_at(pilot)
        assert "c another file h other GPUs v another release R read again" in " ".join(text_of(app).split())
        assert "more" not in keys_of(app)
        await pilot.press("plus", "enter", "g", "z", "o", "p", "d")
        assert isinstance(app.screen, PlanScreen)
        config.write_text(whole, encoding="utf-8")
        await pilot.press("R")
        await until(pilot, lambda: app.screen.state is not None)
        await until(pilot, lambda: "1 chat-70b" in text_of(app))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: [", "deployment.yaml"),
        (TWO.replace("max_model_len", "max-modell-len"), "max-modell-len"),
        (TWO.replace("./llama-8b", "./nowhere"), "nowhere"),
        (TWO.replace("0.90", "7.5"), "gpu-memory-utilization is"),
    ],
)
async def test_a_wrong_file_is_one_sentence(tmp_path, text, words):
    app = console(write_plan(tmp_path, text))
    async with app.run_test(size=(80, 24)) as pilot:
        assert words in await said_at(pilot)


async def test_what_runs_here_can_be_planned_or_it_is_said_that_nothing_does(tmp_path, monkeypatch):
    path = write_plan(tmp_path)
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        running = screen.state.inputs

        def nothing(_version):
            raise InputError("no vLLM server runs on this host")

        monkeypatch.setattr(plan_inputs, "running_inputs", nothing)
        for words in ("no vLLM server runs on this host", "what runs here · vLLM 0.19.0"):
            await pilot.press("c")
            await until(pilot, lambda: isinstance(app.screen, AskText))
            app.screen.query_one(Input).value = ""
            await pilot.press("enter")
            await until(pilot, lambda words=words: app.screen is screen and words in text_of(app))
            monkeypatch.setattr(plan_inputs, "running_inputs", lambda _version: running)


async def test_hardware_and_release_can_be_described(tmp_path):
    app = console(write_plan(tmp_path), "8xA9999")
    async with app.run_test(size=(120, 36)) as pilot:
        assert "A9999" in await said_at(pilot)
        await pilot.press("h")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = "4xH100-80GB"
        await pilot.press("enter")
        screen = await plan_of(pilot)
        assert "4×H100-80GB" in drawn(app)[0]
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = "0.11.2"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.state is not None)
        await until(pilot, lambda: "vLLM 0.11.2" in drawn(app)[0])


async def test_models_are_read_in_a_thread_and_the_last_reading_counts(tmp_path, monkeypatch):
    first, second = write_plan(tmp_path), write_plan(tmp_path, SIX, "six.yaml")
    go_on, real = threading.Event(), plan_inputs.read_inputs

    def slow(path, gpus, version):
        if path == first:
            assert go_on.wait(60)
        return real(path, gpus, version)

    monkeypatch.setattr(plan_inputs, "read_inputs", slow)
    app = console(first)
    try:
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: "Reading " in text_of(app))
            await pilot.press("c")
            await until(pilot, lambda: isinstance(app.screen, AskText))
            app.screen.query_one(Input).value = str(second)
            await pilot.press("enter")
            screen = await plan_of(pilot)
            assert "six.yaml" in drawn(app)[0]
            go_on.set()
            await app.workers.wait_for_complete()
            await until_still(pilot)
            assert screen.path == second
            assert "six.yaml" in drawn(app)[0]
    finally:
        go_on.set()


async def test_a_plan_that_cannot_be_made_leaves_what_is_shown(tmp_path, monkeypatch):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        before = screen.state

        def refuse(self, deployment=None):
            raise InputError("such a value is refused")

        monkeypatch.setattr(plan_inputs.PlanInputs, "plan", refuse)
        await pilot.press("plus")
        assert "such a value is refused" in keys_of(app)
        assert screen.state is before
