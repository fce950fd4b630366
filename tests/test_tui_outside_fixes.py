"""A file that is to be restored, in the wizard: its commands are shown, and a person may say where a whole one is."""

from __future__ import annotations

from dataclasses import replace

from textual.widgets import Input

from engine_probe.facts import Known
from playbooks import decisions as decide
from playbooks.session import FixOption
from tests import tui_samples as samples
from tests.test_tui_console import body_of, until, wizard_at
from tests.test_tui_fix_values import about_of
from tests.tui_samples import FakeRun, backend
from tui.app import ConsoleApp
from tui.screens.dialogs import AskText, Confirm

CUT = "cut (12 of 99 bytes)"
WHY = "a whole copy: unknown, because no whole copy of model.safetensors is known: give the folder, --files-from DIR"
RESTORE = FixOption(
    id=samples.TESTED.fixes[0].id,
    launch=samples.TESTED.model,
    key="files.model.safetensors",
    old_value=CUT,
    new_value="?",
    title=f"model.safetensors of tiny: {CUT} → from ?",
    diff=(),
    why="It is whole.",
    expect=("load.is_serving is true",),
    you_lose="Nothing.",
    risk="low",
    unavailable=WHY,
)
FACTS = {
    "files.folder": Known("/m/tiny", "measured", "a look"),
    "files.now.model.safetensors": Known(CUT, "measured", ""),
}
SESSION = replace(samples.TESTED, fixes=(RESTORE,), facts={**samples.TESTED.facts, **FACTS})


async def test_a_source_can_be_given_where_none_was_known() -> None:
    run = FakeRun([(SESSION, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(140, 48)) as pilot:
        screen = await wizard_at(pilot, SESSION)
        await pilot.press("right")
        await until(pilot, lambda: "--files-from DIR" in body_of(app))
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        assert "the folder or file that holds a whole one" in about_of(app)
        app.screen.query_one(Input).value = "hub:nothing"
        await pilot.press("enter")
        assert "names no repository" in about_of(app)
        app.screen.query_one(Input).value = "/models/copy"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: "cp -L /models/copy/model.safetensors" in body_of(app))
        assert "mv -f /m/tiny/model.safetensors.r1 /m/tiny/model.safetensors" in body_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "cp -L /models/copy/model.safetensors" in about_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: decide.ApplyFix(RESTORE.id, "/models/copy") in run.decided)
