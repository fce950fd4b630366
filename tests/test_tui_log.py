"""The log in the wizard: lines are data, whatever is in them, and a real load is seen as it goes on."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

import pytest
from rich.cells import cell_len
from textual.app import App

from engine_probe import events as ev
from engine_probe.engine import local_engine
from engine_probe.logs.layers import layer_of_logger
from engine_probe.supervisor import Probe
from tests import tui_samples as samples
from tests.stand_in.probing import StandInLaunch, free_port
from tests.tui_samples import FakeRun, backend, lines_shown, replaying, until, until_still
from tui.app import ConsoleApp
from tui.screens.dialogs import Confirm
from tui.screens.log_viewer import LogViewerScreen
from tui.screens.wizard import WizardScreen
from tui.themes.glyphs import ASCII, UNICODE, choose
from tui.themes.palette import DARK
from tui.widgets.clean_text import clean
from tui.widgets.live_log import LiveLog
from tui.widgets.log_view import LogView


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
        ("vllm_console.probe", "outside"),
        ("vllm.utils", "unknown"),
    ],
)
def test_layer_of_a_logger(logger, layer):
    assert layer_of_logger(logger) == layer


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
    """The pane alone, over a file that a test writes."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def get_theme_variable_defaults(self):
        return dict(DARK.variables)

    def compose(self):
        yield LiveLog(lambda: self.path, UNICODE)


def append(path, *lines):
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def numbered(start, stop):
    return [f"line {number}" for number in range(start, stop)]


async def test_there_is_a_title_before_there_is_a_log(tmp_path):
    app = OnlyLog(None)
    async with app.run_test(size=(80, 12)) as pilot:
        pane = app.query_one(LiveLog)
        assert pane.border_title == "Log · nothing yet"
        pane.follow(False)
        assert pane.following
        append(tmp_path / "log", "one")
        app.path = tmp_path / "log"
        await until(pilot, lambda: lines_shown(app.screen) == 1)
        await until(pilot, lambda: pane.border_title == "Log · 1 line · following")


async def test_a_log_that_cannot_be_read_says_why(tmp_path):
    app = OnlyLog(tmp_path)
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: "no regular file" in str(app.query_one(LiveLog).border_title))


async def test_following_pauses_by_scrolling_up_and_goes_on_by_scrolling_to_the_end(tmp_path):
    append(tmp_path / "log", *numbered(0, 50))
    app = OnlyLog(tmp_path / "log")
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: lines_shown(app.screen) == 50)
        pane, view = app.query_one(LiveLog), app.query_one(LogView)
        await until(pilot, lambda: view.visible_rows()[-1].text == "line 49")
        view.focus()
        await pilot.press("pageup")
        assert not pane.following
        await until(pilot, lambda: view.visible_rows()[-1].text != "line 49")
        seen = [row.text for row in view.visible_rows()]
        append(tmp_path / "log", *numbered(50, 70))
        await until(pilot, lambda: lines_shown(app.screen) == 70)
        assert [row.text for row in view.visible_rows()] == seen
        await until(pilot, lambda: "paused, space follows" in str(pane.border_title))
        await pilot.press("end")
        await until(pilot, lambda: pane.following and view.visible_rows()[-1].text == "line 69")


async def test_nothing_is_drawn_while_nothing_changes(tmp_path):
    append(tmp_path / "log", *numbered(0, 50))
    app = OnlyLog(tmp_path / "log")
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: lines_shown(app.screen) == 50)
        await until_still(pilot)
        view, drawn, steps = app.query_one(LogView), [], []
        view.refresh = lambda *_args, **_named: drawn.append(1)
        opened = app.query_one(LiveLog).opened
        step = opened.step
        opened.step = lambda: (steps.append(1), step())[1]
        await until(pilot, lambda: len(steps) > 5)
        assert drawn == []


async def test_hostile_lines_are_shown_as_data_and_do_not_break_the_layout():
    run = replaying(samples.TESTED, samples.HOSTILE)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == samples.TESTED)
        screen = app.screen
        await until(pilot, lambda: lines_shown(screen) >= len(samples.HOSTILE))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await until_still(pilot)
        strips = app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}
        drawn = "\n".join(strip.text for strip in strips)
        assert "[bold red]markup[/] [@click=app.quit]press[/] [/nothing]" in drawn
        assert "nul ␀ bell ␇" in drawn
        assert "模型加载失败" in drawn
        assert not any(ord(character) < 32 for character in drawn if character != "\n")
        await pilot.press("right", "right")
        await until_still(pilot)
        assert {strip.cell_length for strip in app.screen._compositor.render_strips()} == {80}


async def test_the_whole_viewer_opens_over_the_same_log_and_closes_again():
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == samples.TESTED)
        screen = app.screen
        await until(pilot, lambda: lines_shown(screen) == len(samples.LOG))
        opened = screen.query_one(LiveLog).opened
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        viewer = app.screen
        await pilot.press("f", "e", "escape")
        await until(pilot, lambda: opened.is_filtered and opened.is_derived)
        assert app.screen is viewer
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: viewer.view.marked is not None)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        title = screen.query_one(LiveLog)
        await until(pilot, lambda: f"10 lines, {opened.wanted_count} shown" in str(title.border_title))
        await pilot.press("space")
        assert not screen.query_one(LiveLog).following
        await pilot.press("space")
        assert screen.query_one(LiveLog).following


async def test_leaving_from_the_viewer_ends_the_case_where_it_is_seen():
    run = replaying(samples.LOADING)
    run.answers = samples.whole_case
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and lines_shown(app.screen) > 0)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
    assert app.bug is None
    assert run.finished
    assert run.log.path is not None
    assert not run.log.path.exists()


@dataclass
class StandInRun(FakeRun):
    """A real load of the stand-in, through a real probe."""

    behaviour: str = "chatter"
    told: tuple = ()

    async def drive(self, decisions, on_change):
        await decisions.get()
        self.log.open_privately()
        launch = StandInLaunch(self.behaviour, free_port(), name="tiny")
        async with Probe(local_engine(sys.executable, "the test")) as probe:
            await probe.load(launch, "cold")
            async for event in probe.events():
                self.log.add(event)
                on_change(samples.LOADING, event)
                await asyncio.sleep(0)
                if isinstance(event, ev.Ended):
                    break
        self.log.flush()
        on_change(samples.FAILED, None)
        await asyncio.Event().wait()


async def test_a_load_that_floods_is_kept_whole_and_keys_are_answered():
    run = StandInRun()
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == samples.FAILED)
        screen = app.screen
        await until(pilot, lambda: lines_shown(screen) > 60_000)
        await until(pilot, lambda: "load of tiny over" in screen.query_one(LogView).visible_rows()[-1].text)
        index = screen.query_one(LiveLog).opened.index
        printed = [line.text for line in index.lines(0, index.line_count) if line.text.startswith("line ")]
        assert printed == numbered(0, 60_000)


async def test_a_real_failure_is_in_the_pane_with_its_traceback():
    app = ConsoleApp(backend(StandInRun(behaviour="traceback")), start="wizard")
    async with app.run_test(size=(120, 60)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == samples.FAILED)
        await until(pilot, lambda: lines_shown(app.screen) > 3)
        opened = app.screen.query_one(LiveLog).opened
        await until(pilot, lambda: "over, cleaned up" in opened.index.lines(0, opened.index.line_count)[-1].text)
        lines = opened.index.lines(0, opened.index.line_count)
        (began,) = [line for line in lines if "cold load of tiny started" in line.text]
        assert began.layer == "outside"
        assert any(line.text == "ValueError: the pool is too small" for line in lines)
        assert any(line.text.startswith("RuntimeError: Engine core initialization failed.") for line in lines)
        (failed,) = [line for line in lines if "load of tiny failed after" in line.text]
        assert failed.level == "ERROR"
