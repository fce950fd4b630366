"""The lists of playbooks and of cases; a past case stepped through; what a cut-off case offers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from textual.widgets import Input

from engine_probe.errors import InputError
from playbooks import resuming
from playbooks.case import CaseFolder
from playbooks.case_summary import CaseSummary, write_summary
from playbooks.cut_off import cut_off
from playbooks.kept_cases import KeptCase
from playbooks.library import load_library
from playbooks.owning import this_process
from playbooks.resuming import Unfinished
from playbooks.session import Step
from tests import tui_samples as samples
from tests.kept_case_samples import KV, SHORTER, keep_case, kv_deployment
from tests.test_tui_console import body_of, keys_of, start_at
from tests.tui_samples import backend, replaying, until, until_still
from tui.app import ConsoleApp
from tui.running import Opening
from tui.screens.case_list import CasesScreen, _rows
from tui.screens.dialogs import AskText
from tui.screens.monitor import MonitorScreen
from tui.screens.playbook_list import PlaybooksScreen
from tui.screens.recorded import RecordedScreen
from tui.screens.start import StartScreen
from tui.screens.text_page import TextPage
from tui.screens.wizard import WizardScreen


def console(state) -> ConsoleApp:
    return ConsoleApp(backend(replaying(samples.FAILED), exports=state / "exports"))


async def list_at(pilot, kind, key):
    """The screen of that key, once its list is there."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, (MonitorScreen, StartScreen, CasesScreen, PlaybooksScreen)))
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, kind) and "being read" not in body_of(app))
    return app.screen


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 36), (200, 50)])
async def test_playbooks_are_listed_filtered_and_shown(tmp_path, size):
    app = console(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await list_at(pilot, PlaybooksScreen, "5")
        count = len(load_library())
        assert f"{count} of {count} playbooks" in body_of(app)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, AskText) and app.screen.query(Input))
        app.screen.query_one(Input).value = "memory kv cache max_model_len"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.marked == KV)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        text = app.screen.plain_text()
        assert "Hypotheses" in text
        assert "serve-a-shorter-context" in text
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("escape")
        await until(pilot, lambda: f"{count} of {count}" in body_of(app))
        await pilot.press("1")
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen))


async def test_a_past_case_is_stepped_through(tmp_path):
    case, session = await keep_case(kv_deployment(tmp_path), tmp_path)
    app = console(tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await list_at(pilot, CasesScreen, "6")
        assert case.name in body_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RecordedScreen) and "does not start" in body_of(app))
        screen = app.screen
        seen = []
        for _ in range(20):
            await until_still(pilot)
            seen.append(screen._moments[screen._at].step)
            if screen._at + 1 == len(screen._moments):
                break
            await pilot.press("right")
        assert seen[0] is Step.SYMPTOM
        assert {Step.HYPOTHESES, Step.FIX, Step.VERIFY} <= set(seen)
        assert screen.session.verdict == session.verdict == "verified"
        assert screen.session.applied_fix == SHORTER
        await pilot.press("left")
        await until(pilot, lambda: screen._at == len(screen._moments) - 2)
        await pilot.press("r")
        await until(pilot, lambda: app.screen is not screen and "Case" in app.screen.plain_text())
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, CasesScreen))


async def test_a_case_without_a_recording_says_so(tmp_path):
    (tmp_path / "cases" / "2026-11-29-0001").mkdir(parents=True)
    app = console(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await list_at(pilot, CasesScreen, "6")
        assert "cut off" in body_of(app)
        assert "g go on" in keys_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RecordedScreen) and "Nothing can be shown" in body_of(app))
        await pilot.press("r")
        await until(pilot, lambda: "no report" in keys_of(app))


async def test_a_case_that_a_console_works_on_was_not_cut_off(tmp_path):
    folder = tmp_path / "cases" / "2026-11-29-0001"
    folder.mkdir(parents=True)
    begun = {"event": "begun", **this_process()}
    (folder / "events.jsonl").write_text(json.dumps(begun, separators=(",", ":")) + "\n", encoding="utf-8")
    app = console(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await list_at(pilot, CasesScreen, "6")
        assert "still runs" in body_of(app)
        assert "cut off" not in body_of(app)
        assert "g go on" not in keys_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RecordedScreen) and app.screen._past is not None)
        await pilot.press("r")
        await until(pilot, lambda: "console still runs" in keys_of(app))


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_case_in_the_list_tells_its_cause_its_fix_its_file_and_when(tmp_path, width):
    summary = CaseSummary("tiny", KV, SHORTER, "verified", "/srv/models/a/long/way/down/deployment.yaml", "/srv", 0.0)
    folder = tmp_path / "2026-11-29-0001"
    folder.mkdir()
    write_summary(folder, summary)
    rows = [row.plain for row in _rows(KeptCase(folder, None), "session", width)]
    assert all(len(row) <= width for row in rows)
    assert "kv-cache-too" in rows[0]
    assert width < 140 or "serve-a-shorter-context verified" in rows[0]
    assert "tiny" in rows[1]
    assert summary.when in rows[1]
    assert rows[1].endswith("yaml")


async def test_without_cases_the_list_says_what_makes_them(tmp_path):
    app = console(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await list_at(pilot, CasesScreen, "6")
        assert "No case is kept yet" in body_of(app)
        assert "enter open" not in keys_of(app)
        await pilot.press("5")
        await until(pilot, lambda: isinstance(app.screen, PlaybooksScreen))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_start_screen_offers_all_ways_in(tmp_path, size):
    app = console(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await start_at(pilot)
        for key, question in (("", "deployment file"), ("down", "Which log"), ("down down", "Which fault")):
            await pilot.press(*key.split(), "enter")
            await until(pilot, lambda: isinstance(app.screen, AskText) and app.screen.query("#question"))
            assert question in str(app.screen.query_one("#question").shown.plain)
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is screen)
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, CasesScreen))


async def test_a_wrong_fault_is_answered_with_the_nearest(tmp_path):
    app = console(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await start_at(pilot)
        await pilot.press("down", "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, AskText) and app.screen.query(Input))
        app.screen.query_one(Input).value = "weights-cutt"
        await pilot.press("enter")
        await until(pilot, lambda: "did you mean" in app.screen.query_one("#about").shown.plain)


async def test_a_case_that_was_cut_off_is_offered_first(tmp_path, monkeypatch):
    case = CaseFolder(tmp_path / "cases" / "2026-11-29-0007")
    monkeypatch.setattr(resuming, "unfinished", lambda _state: Unfinished(case, tmp_path / "deployment.yaml"))
    opened = []
    run = replaying(samples.FAILED)
    real = replace(backend(run, exports=tmp_path / "exports"), open_case=lambda one: opened.append(one) or run)
    app = ConsoleApp(real)
    async with app.run_test(size=(80, 24)) as pilot:
        await start_at(pilot)
        await until(pilot, lambda: "Go on with case 2026-11-29-0007" in app.screen.query_one("#choices").shown.plain)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, WizardScreen))
    assert opened == [Opening(resume="2026-11-29-0007")]


def test_only_a_case_that_was_cut_off_can_go_on(tmp_path):
    with pytest.raises(InputError, match="no case was cut off"):
        cut_off(tmp_path, "")
    folder = tmp_path / "cases" / "2026-11-29-0001"
    folder.mkdir(parents=True)
    with pytest.raises(InputError, match="no deployment file"):
        cut_off(tmp_path, folder.name)
    (folder / "report.md").write_text("# Case\n")
    with pytest.raises(InputError, match="its report is written"):
        cut_off(tmp_path, folder.name)


@pytest.mark.parametrize("size", [(60, 16), (80, 20)])
async def test_on_a_small_terminal_the_start_screen_shows_what_can_be_chosen(tmp_path, size):
    app = console(tmp_path)
    async with app.run_test(size=size) as pilot:
        screen = await start_at(pilot)
        await until(pilot, lambda: "Look at a past case" in screen.query_one("#choices").shown.plain)
        await until_still(pilot)
        choices, page = screen.query_one("#choices"), screen.query_one("#page")
        assert choices.region.bottom <= page.region.bottom
