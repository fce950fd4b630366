"""A case whose first loads were stopped waits in the wizard: enter begins them again."""

from __future__ import annotations

from dataclasses import replace

from playbooks import decisions as decide
from tests import tui_samples as samples
from tests.test_tui_console import now_of, wizard_at
from tests.tui_samples import FakeRun, backend, until
from tui import actions
from tui.app import ConsoleApp

STOPPED = replace(samples.LOADING, running=None, verdict="stopped", progress=samples.DECIDING)


async def test_enter_loads_again_what_was_stopped():
    run = FakeRun([(STOPPED, None)], lambda _session, one: (samples.LOADING,) if one == decide.Begin() else ())
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, STOPPED)
        assert "enter loads again" in now_of(app)
        assert "load_again" in {one.id for one in actions.available(screen.moment())}
        await pilot.press("enter")
        await until(pilot, lambda: run.decided == [decide.Begin(), decide.Begin()])
        await until(pilot, lambda: "cold load of tiny" in now_of(app))
