"""Pictures of the monitor on hand-made hosts, at a clock that stands still.

After a wanted change: look at the report, then `pytest tests/test_monitor_screen_snapshots.py --snapshot-update`.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests import monitor_samples as hosts
from tests.monitor_samples import ALERTS
from tests.test_monitor_screen import console
from tests.tui_samples import until, until_still
from tui.screens.monitor import MonitorScreen
from tui.themes.glyphs import ASCII, UNICODE

CASES = [
    ("eight", (80, 24), UNICODE, ()),
    ("eight", (120, 36), UNICODE, ()),
    ("eight", (200, 50), UNICODE, ()),
    ("eight", (120, 36), ASCII, ()),
    ("eight", (120, 36), UNICODE, ("t",)),
    ("eight", (120, 36), UNICODE, ("enter",)),
    ("sixteen", (80, 24), UNICODE, ()),
    ("unknown", (120, 36), UNICODE, ()),
    ("mig", (120, 36), UNICODE, ()),
    ("none", (80, 24), UNICODE, ()),
]


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def name_of(case):
    host, (width, height), glyphs, keys = case
    return "-".join([host, f"{width}x{height}", *(["ascii"] if glyphs is ASCII else []), *keys])


@pytest.mark.parametrize(("host", "size", "glyphs", "keys"), CASES, ids=map(name_of, CASES))
def test_monitor(snap_compare, host, size, glyphs, keys):
    async def before(pilot):
        app = pilot.app
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen) and app.screen.look is not None)
        screen = app.screen
        if host == "eight":
            for reading in hosts.moving(count=12):
                screen.set_look(replace(screen.look, reading=reading))
        await pilot.press(*keys)
        await until_still(pilot)

    alerts = ALERTS if host in ("eight", "sixteen") else ()
    app = console(hosts.READINGS[host], alerts=alerts, glyphs=glyphs, every_seconds=60.0)
    assert snap_compare(app, terminal_size=size, run_before=before)
