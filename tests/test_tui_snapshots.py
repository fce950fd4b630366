"""Pictures of the main states at the sizes that matter, at a clock that stands still.

After a wanted change: look at the report, then `pytest tests/test_tui_snapshots.py --snapshot-update`.
"""

from __future__ import annotations

import time

import pytest

from tests import tui_samples as samples
from tests.test_tui_console import start_at
from tests.tui_samples import backend, lines_shown, replaying, until_still
from tui.app import ConsoleApp
from tui.screens.wizard import WizardScreen
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.words import Words

CASES = [
    ("loading", (80, 24), ()),
    ("failed", (80, 24), ()),
    ("tested", (80, 24), ("right",)),
    ("verified", (80, 24), ()),
    ("loading", (120, 36), ()),
    ("failed", (120, 36), ()),
    ("failed", (120, 36), ("left",)),
    ("tested", (120, 36), ("right",)),
    ("tested", (120, 36), ("right", "enter")),
    ("verifying", (120, 36), ()),
    ("unexplained", (120, 36), ()),
    ("no-engine", (120, 36), ()),
    ("verified", (200, 50), ()),
    ("failed", (80, 24), ("left",)),
    ("failed", (200, 50), ("left",)),
    ("failed", (200, 50), ()),
    ("experimenting", (80, 24), ()),
    ("experimenting", (120, 36), ()),
    ("tested", (200, 50), ("right",)),
    ("outside", (80, 24), ("right",)),
    ("outside", (120, 36), ("right",)),
    ("outside", (120, 36), ("right", "enter")),
    ("outside", (120, 36), ("right", "s")),
    ("from-log", (80, 24), ("left",)),
    ("from-log", (120, 36), ("left",)),
    ("from-log", (120, 36), ("right",)),
    ("verifying", (80, 24), ()),
    ("verifying", (200, 50), ()),
]


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def pressing(state, keys):
    """Waits until the console shows all of `state`, then presses `keys`."""

    async def before(pilot):
        app = pilot.app
        session = samples.STATES[state]
        for _ in range(400):
            await pilot.pause(0.01)
            screen = app.screen
            if (
                isinstance(screen, WizardScreen)
                and screen.session == session
                and screen.over == (session.verdict is not None)
                and lines_shown(screen) == len(samples.LOG)
                and "node7" in screen.query_one("#top", Words).shown.plain
            ):
                break
        else:
            raise AssertionError("the state was never shown whole")
        await pilot.press(*keys)
        await until_still(pilot)

    return before


def name_of(case):
    state, (width, height), keys = case
    return "-".join([state, f"{width}x{height}", *keys])


@pytest.mark.parametrize(("state", "size", "keys"), CASES, ids=map(name_of, CASES))
def test_wizard(snap_compare, state, size, keys):
    app = ConsoleApp(backend(replaying(samples.STATES[state])), start="wizard", glyphs=UNICODE)
    assert snap_compare(app, terminal_size=size, run_before=pressing(state, keys))


def test_wizard_in_ascii(snap_compare):
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard", glyphs=ASCII)
    assert snap_compare(app, terminal_size=(80, 24), run_before=pressing("tested", ()))


def test_wizard_on_a_light_terminal(snap_compare):
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard", glyphs=UNICODE)
    assert snap_compare(app, terminal_size=(120, 36), run_before=pressing("tested", ("right", "t")))


def test_start_screen(snap_compare):
    async def before(pilot):
        await start_at(pilot)
        words = pilot.app.screen.query_one("#text", Words)
        for _ in range(400):
            await pilot.pause(0.01)
            if "23.4 GiB" in words.shown.plain and "0.32.0" in words.shown.plain:
                await until_still(pilot)
                return
        raise AssertionError("the host was never shown")

    app = ConsoleApp(backend(replaying(samples.FAILED)), glyphs=UNICODE)
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)
