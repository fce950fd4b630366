"""Bare mode: nothing but the lines as they were printed, and the mouse is the terminal's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_log_viewer import LINES, viewing
from tests.vllm_log_samples import LOAD
from tui.screens.dialogs import AskText
from tui.screens.help import HelpScreen
from tui.terminal_mouse import take_mouse
from tui.themes.glyphs import ASCII, UNICODE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n\x1b[31m[bold]red\x1b[0m\n")
    return path


@pytest.fixture
def mouse(monkeypatch) -> list[bool]:
    """Who had it, one after another."""
    taken: list[bool] = []
    monkeypatch.setattr("tui.screens.log_looks.take_mouse", lambda _app, is_taken: taken.append(is_taken))
    return taken


def screen_rows(viewer) -> list[str]:
    return [strip.text.rstrip() for strip in viewer.screen._compositor.render_strips()]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_only_the_text_of_the_lines_is_on_the_screen(path, mouse, glyphs):
    async with viewing(path, (150, 30), glyphs) as viewer:
        await viewer.press("b")
        assert mouse[-1] is False
        assert "b or esc leaves" in screen_rows(viewer)[-1]
        await viewer.press("up")
        assert screen_rows(viewer)[:20] == [*(line[:150].rstrip() for line in LINES), "[bold]red"]
        assert not any(screen_rows(viewer)[20:])
        await viewer.press("b")
        assert mouse[-1] is True
        assert "f filter" in screen_rows(viewer)[-1]


async def test_it_is_left_by_escape_and_the_end_is_followed_again(path, mouse):
    async with viewing(path, (80, 10)) as viewer:
        await viewer.press("b")
        assert not viewer.view.following
        with path.open("ab") as file:
            file.write(b"later\n")
        await viewer.until(lambda: viewer.log.index.line_count == 21)
        assert "later" not in viewer.raws()
        await viewer.press("escape")
        assert viewer.view.following
        assert viewer.raws()[-1] == "later"
        await viewer.press("b", "pageup", "b")
        assert not viewer.view.following


async def test_keys_work_and_words_are_said_in_a_line_that_goes(path, mouse):
    async with viewing(path, (150, 10)) as viewer:
        await viewer.press("b", "exclamation_mark", "w", "r", "r")
        await viewer.ask("slash", "nowhere")
        await viewer.press("n")
        assert "No line matches" in screen_rows(viewer)[-1]
        await viewer.press("j")
        assert "No line matches" not in screen_rows(viewer)[-1]
        assert viewer.view.bare


async def test_a_question_and_the_help_have_the_mouse(path, mouse):
    async with viewing(path) as viewer:
        await viewer.press("b")
        for key, screen in (("slash", AskText), ("question_mark", HelpScreen)):
            await viewer.press(key)
            await viewer.until(lambda screen=screen: isinstance(viewer.pilot.app.screen, screen))
            assert mouse[-1] is True
            await viewer.press("escape")
            assert mouse[-1] is False
        await viewer.press("q")
    assert mouse[-1] is True


class Driver:
    is_headless = False

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None: ...


def test_all_modes_that_textual_sets_are_taken_back():
    class App:
        _driver = Driver()

    take_mouse(App(), False)
    take_mouse(App(), True)
    assert App._driver.written == "".join(f"\x1b[?{mode}{end}" for end in "lh" for mode in (1000, 1003, 1015, 1006))
