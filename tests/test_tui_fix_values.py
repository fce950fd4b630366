"""The marked fix and the value that a person chose for it: list, difference, question and decision say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from playbooks import decisions as decide
from playbooks.case import CaseFolder
from playbooks.resuming import Resumable
from playbooks.session import Session, Step
from tests import tui_samples as samples
from tests.test_tui_console import body_of, until, wizard_at
from tests.tui_samples import FakeRun, backend
from tui.app import ConsoleApp
from tui.commands.replay_run import _resumed
from tui.screens.dialogs import AskText, Confirm
from tui.screens.wizard import WizardScreen
from tui.screens.wizard_text import now_line
from tui.themes.glyphs import UNICODE
from tui.widgets.fixes import fixes_body
from tui.widgets.words import Words


def burst(app, *keys):
    """Keys as a slow connection delivers them: all at once, before any is handled."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


def about_of(app) -> str:
    return app.screen.query_one("#about", Words).shown.plain


@pytest.mark.parametrize("key", ["enter", "v"])
async def test_keys_in_one_burst_act_on_the_row_that_is_marked(key):
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right")
        burst(app, "down", key)
        await until(pilot, lambda: isinstance(app.screen, (Confirm, AskText)))
        await until(pilot, lambda: app.screen.query("#answers"))
        await until(pilot, lambda: about_of(app))
        shown = app.screen.query_one("#question", Words).shown.plain + about_of(app)
        assert "kv-cache-memory-bytes" in shown
        assert "max-model-len" not in shown
        assert screen.moment().fix == samples.RAISE


async def test_experiment_in_one_burst_is_the_marked_one():
    run = FakeRun([(samples.FAILED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await wizard_at(pilot, samples.FAILED)
        burst(app, "down", "enter")
        await until(pilot, lambda: len(run.decided) > 1)
        assert run.decided[-1] == decide.RunExperiment(samples.CAUSE.id, samples.TOO_SMALL.id)


async def test_edited_value_stands_everywhere_and_the_proposal_is_kept():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "down", "v")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        assert "now 96 MiB (100,663,296 bytes), proposed 288 MiB" in about_of(app)
        assert "bytes, or 288MiB" in about_of(app)
        app.screen.query_one(Input).value = "12x"
        await pilot.press("enter")
        assert isinstance(app.screen, AskText)
        assert "'12x' cannot be used" in about_of(app)
        app.screen.query_one(Input).value = "264MiB"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        assert "96 MiB → 264 MiB" in body_of(app)
        assert "→ 288 MiB" not in body_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        text = about_of(app)
        assert "96 MiB → 264 MiB" in text.split("\n")[0]
        assert "276824064" in text
        assert "301989888" not in text
        assert "not worked out for this value" in text
        await pilot.press("enter")
        await until(pilot, lambda: decide.ApplyFix("raise-kv-memory", "276824064") in run.decided)


async def test_question_names_the_file_that_changes_and_where_it_is_kept(tmp_path):
    path = tmp_path / "tw.yaml"
    path.write_text("models: []\n", encoding="utf-8")
    session = replace(samples.TESTED, deployment=replace(samples.LAB, path=path))
    app = ConsoleApp(backend(FakeRun([(session, None)], samples.whole_case)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await wizard_at(pilot, session)
        await pilot.press("right", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "tw.yaml.r1" in about_of(app).replace("\n", "")
        assert Path("tw.yaml").name in about_of(app)


async def test_a_value_typed_in_one_burst_is_what_was_typed():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "v")
        await until(pilot, lambda: app.screen.query(Input) and app.screen.query_one(Input).has_focus)
        burst(app, "backspace", "9", "left", "left", "7", "enter")
        await until(pilot, lambda: app.screen is screen)
        assert screen.values == {"lower-max-model-len": "14709"}


async def test_after_a_failed_value_the_proposal_is_applied_where_it_is_shown():
    tried = replace(samples.LOWER, new_value="32000", proposed="1408", outcome="did not hold")
    session = replace(samples.TESTED, fixes=(tried, samples.RAISE))
    run = FakeRun([(session, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, session)
        await pilot.press("right", "up", "v")
        await until(pilot, lambda: app.screen.query(Input) and app.screen.query_one(Input).has_focus)
        app.screen.query_one(Input).value = "1408"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        assert "→ 1,408" in body_of(app)
        assert "did not hold" not in body_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await until(pilot, lambda: app.screen.query("#answers"))
        await pilot.press("enter")
        await until(pilot, lambda: decide.ApplyFix(tried.id, "1408") in run.decided)


def test_a_case_that_goes_on_says_in_step_3_what_became_of_it_and_says_it_once(tmp_path):
    words = "case 2026-11-29-0007 was cut off while it verified raise-kv-memory; it goes on from there: found"
    cut = replace(samples.TESTED, notes=(words,))
    found = _resumed(Resumable(CaseFolder(tmp_path), words, cut), (words,))
    assert found is not None
    assert found[1].notes == (words,)
    above = fixes_body(found[1], None, 120, UNICODE).above.plain
    assert "was cut off while it verified raise-kv-memory" in " ".join(above.split())


class GoesOn(FakeRun):
    """A case that was cut off: its first picture has its fixes already, before anything is told."""

    @property
    def session(self) -> Session:
        return replace(samples.TESTED, notes=(CUT_OFF,))


CUT_OFF = "case 2026-11-29-0007 was cut off between two steps; it goes on from there: found in tiny"


async def test_the_first_picture_of_a_case_that_goes_on_has_a_mark_and_takes_enter():
    app = ConsoleApp(backend(GoesOn([], begins_with=None)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen))
        assert "Fixes, one change each" in body_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await until(pilot, lambda: app.screen.query("#about"))
        assert "max-model-len" in about_of(app)


def test_a_case_that_was_only_cut_off_has_nothing_undone():
    cut = replace(samples.TESTED, notes=(CUT_OFF,))
    undone = replace(cut, notes=(CUT_OFF, "raise-kv-memory did not hold and is undone: it failed"))
    first, again = (
        now_line(one, Step.FIX, over=False, error=None, width=120, glyphs=UNICODE).plain for one in (cut, undone)
    )
    assert "undone" not in first
    assert "choose a fix" in first
    assert "is undone, and why is below" in again
