"""The wizard on a log, as a person drives it: the line that proves, the file that can be written, what is copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from engine_probe.deployment import read_deployment
from playbooks import decisions as decide
from playbooks.library import load_library
from playbooks.proof import BURST
from playbooks.session import Check, Outcome, Step
from tests import tui_samples as samples
from tests.test_from_log import KV, written
from tests.test_tui_console import body_of, keys_of, now_of, wizard_at
from tests.tui_samples import FakeRun, backend, replaying, until
from tui.app import ConsoleApp
from tui.engine_backend import open_case
from tui.running import Opening
from tui.screens.dialogs import AskText, Confirm
from tui.screens.log_viewer import LogViewerScreen
from tui.screens.wizard import WizardScreen
from tui.screens.wizard_evidence import LogAtLine
from tui.screens.wizard_text import Look, first_choices
from tui.screens.wizard_text import body_of as body_drawn
from tui.themes.glyphs import UNICODE
from tui.widgets.fixes import fixes_body
from tui.widgets.words import Words


def console(tmp_path, opening: Opening) -> ConsoleApp:
    """On the real back end; no engine is needed."""
    real = replace(
        backend(exports=tmp_path / "state" / "exports"), open_case=lambda one: open_case(one, None, ("warm", "cold"))
    )
    return ConsoleApp(real, opening=opening, start="wizard")


async def decided(pilot) -> WizardScreen:
    app = pilot.app
    await until(
        pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session.progress.phase == "deciding", 60
    )
    await until(pilot, lambda: bool(body_of(app).strip()))
    return app.screen


async def at_step(pilot, screen, step) -> None:
    while screen.shown is not step:
        before = screen.shown
        await pilot.press("left" if list(Step).index(step) < list(Step).index(before) else "right")
        await until(pilot, lambda before=before: screen.shown is not before)


async def test_it_opens_on_what_is_wrong_and_l_goes_to_the_line(tmp_path):
    app = console(tmp_path, Opening(logs=(written(tmp_path),)))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await decided(pilot)
        await at_step(pilot, screen, Step.SYMPTOM)
        assert "▸ does not start" in body_of(app)
        assert "vllm.log:8" in body_of(app)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogAtLine) and app.screen.view.marked is not None)
        assert app.screen.view.marked == 7  # line 8
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_without_a_deployment_a_fix_is_shown_and_its_command_copied(tmp_path):
    app = console(tmp_path, Opening(logs=(written(tmp_path),)))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await decided(pilot)
        await at_step(pilot, screen, Step.FIX)
        assert "nothing can be applied here" in now_of(app)
        assert "start with" in body_of(app)
        assert "apply and verify" not in keys_of(app)
        await pilot.press("y")
        await until(pilot, lambda: "Command copied" in keys_of(app))
        (copied,) = (tmp_path / "state" / "exports").glob("*command*")
        assert "--max-model-len 24576" in copied.read_text()


async def test_the_launch_of_the_log_becomes_a_deployment_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = console(tmp_path, Opening(logs=(written(tmp_path),)))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await decided(pilot)
        assert "d deployment file" in keys_of(app)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, AskText) and app.screen.query(Input))
        about = app.screen.query_one("#about", Words)
        await until(pilot, lambda: "the arguments that vLLM printed, line 2" in " ".join(about.shown.plain.split()))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen is not screen, 60)
        again = await decided(pilot)
        assert again.session.deployment.path == Path("deployment.yaml")
        assert again.session.symptom.headline == screen.session.symptom.headline
    (launch,) = read_deployment(tmp_path / "deployment.yaml").models
    assert (launch.model, launch.args["gpu-memory-utilization"]) == ("acme/small", 0.8)


async def test_a_log_that_is_not_there_is_said_on_the_screen(tmp_path):
    app = console(tmp_path, Opening(logs=(str(tmp_path / "none.log"),)))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.over, 60)
        assert "No such file" in body_of(app)


async def test_a_case_is_saved_as_a_playbook(tmp_path):
    app = ConsoleApp(backend(replaying(samples.VERIFIED), exports=tmp_path), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await wizard_at(pilot, samples.VERIFIED)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, AskText) and app.screen.query(Input))
        question = app.screen.query_one("#question", Words)
        await until(pilot, lambda: f"playbook {samples.CAUSE.id} explains this failure" in question.shown.plain)
        app.screen.query_one(Input).value = KV
        await pilot.press("enter")
        await until(pilot, lambda: "already" in keys_of(app))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, AskText) and app.screen.query(Input))
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await until(pilot, lambda: "Playbook written" in keys_of(app))
    assert any(one.id == "mine" for one in load_library())


async def test_a_fix_is_skipped_and_taken_in_again():
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await at_step(pilot, screen, Step.FIX)
        marked = screen.marked[Step.FIX]
        await pilot.press("s")
        await until(pilot, lambda: body_of(app).count("skipped") == 1)
        assert screen.marked[Step.FIX] == marked
        await pilot.press("s")
        await until(pilot, lambda: "skipped" not in body_of(app))


def test_after_a_value_that_failed_the_mark_goes_to_a_fix_that_is_not_left_out():
    third = replace(samples.LOWER, id="third")
    failed = replace(samples.LOWER, outcome="did not hold")
    session = replace(samples.TESTED, fixes=(failed, samples.RAISE, third))
    marked = {Step.HYPOTHESES: None, Step.FIX: failed.id}
    assert first_choices(session, marked, frozenset({samples.RAISE.id}))[Step.FIX] == "third"


def with_impossible(count):
    greyed = tuple(replace(samples.FP8, id=f"no-{n}", title=f"impossible {n}") for n in range(count))
    return replace(samples.TESTED, fixes=(samples.LOWER, *greyed))


async def test_fixes_that_are_not_possible_are_one_line_until_they_are_wanted():
    session = with_impossible(4)
    app = ConsoleApp(backend(FakeRun([(session, None)])), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, session)
        await at_step(pilot, screen, Step.FIX)
        await until(pilot, lambda: "4 more are not possible here: a shows why" in body_of(app))
        assert "impossible" not in body_of(app)
        await pilot.press("a", "down")
        await until(pilot, lambda: "impossible 3" in body_of(app) and screen.marked[Step.FIX] == "no-0")
        await pilot.press("v")
        await until(pilot, lambda: "Not possible: the CPU engine" in keys_of(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "Not possible: the CPU engine" in keys_of(app))
        await pilot.press("a")
        await until(pilot, lambda: "impossible" not in body_of(app))
        assert screen.marked[Step.FIX] == samples.LOWER.id


def test_fixes_that_read_alike_say_which_cause_each_is_of():
    twins = tuple(replace(samples.LOWER, id=name, title="gpus → ?") for name in ("one", "two"))
    causes = tuple(
        replace(samples.CAUSE, id=fix.id, title=f"cause of {fix.id}",
                hypotheses=(replace(samples.OTHERS, fixes=(fix.id,)),))
        for fix in twins
    )  # fmt: skip
    session = replace(samples.TESTED, causes=causes, fixes=(*twins, samples.RAISE))
    text = fixes_body(session, None, 80, UNICODE).plain
    assert "for: cause of one" in text
    assert text.count("for: ") == 2


async def test_another_fix_takes_the_place_of_the_applied_one():
    def answers(session, decision):
        if isinstance(decision, decide.ApplyFix):
            return (replace(APPLIED, applied_fix=decision.fix, fixes=session.fixes),)
        if isinstance(decision, decide.Undo):
            return (samples.TESTED,)
        return ()

    run = FakeRun([(APPLIED, None)], answers)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, APPLIED)
        await at_step(pilot, screen, Step.FIX)
        assert screen.marked[Step.FIX] == "raise-kv-memory"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and app.screen.query("#question"))
        await pilot.press("enter")
        await until(pilot, lambda: screen.session.applied_fix == "raise-kv-memory")
        assert run.decided[1:] == [decide.Undo(), decide.ApplyFix("raise-kv-memory", None)]


APPLIED = replace(samples.VERIFIED, report_path=None, verdict=None)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_less_likely_claims_are_folded_until_they_are_wanted(size):
    many = replace(samples.CAUSE, hypotheses=samples.CAUSE.hypotheses + tuple(
        replace(samples.OTHERS, id=f"more-{n}", claim=f"Claim number {n}.") for n in range(4)
    ))  # fmt: skip
    causes = (many, samples.SECOND, *(replace(samples.SECOND, id=f"c{n}", confidence=0.02) for n in range(3)))
    session = replace(samples.FAILED, causes=causes)
    app = ConsoleApp(backend(FakeRun([(session, None)])), start="wizard")
    async with app.run_test(size=size) as pilot:
        screen = await wizard_at(pilot, session)
        assert "3 less likely causes and 4 more claims: a shows them" in body_of(app)
        assert "Claim number 3" not in body_of(app)
        await pilot.press("a")
        await until(pilot, lambda: "Claim number 3" in body_of(app))
        assert "a likeliest" in keys_of(app) or size[0] == 80
        await pilot.press("a")
        await until(pilot, lambda: "Claim number 3" not in body_of(app))
        assert screen.shown is Step.HYPOTHESES


def test_while_many_requests_run_the_memory_stands_beside_them_with_its_course():
    burst = Check(BURST, "many requests at once", "all answered", outcome=Outcome.RUNNING)
    session = replace(samples.VERIFYING, checks=(*samples.CHECKS[:2], burst))
    look = Look(Step.VERIFY, {}, running_seconds=34.0, memory_gib=(1.0, 1.5, 1.5))
    text = body_drawn(session, look, 120, UNICODE).plain
    assert "▆██ 1.5 GiB  34s" in text
    assert "1.5 GiB" not in body_drawn(session, replace(look, memory_gib=()), 120, UNICODE).plain


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_beside_a_given_log_no_empty_one_is_shown(tmp_path, size):
    app = console(tmp_path, Opening(logs=(written(tmp_path),)))
    async with app.run_test(size=size) as pilot:
        screen = await decided(pilot)
        await until(pilot, lambda: not screen.query_one("#lower").display)
        assert "pause log" not in keys_of(app)
        await pilot.press("L")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))


def test_a_message_of_several_lines_is_one_line_and_stands_once():
    text = "ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified max_model_len (8192) is"
    again = replace(samples.SYMPTOM.evidence[0], line=90, text="pydantic_core._pydantic_core." + text)
    first = replace(again, line=72, text=text)
    symptom = replace(samples.SYMPTOM, headline=text, evidence=(first, again))
    shown = body_drawn(replace(samples.FAILED, symptom=symptom), Look(Step.SYMPTOM, {}), 120, UNICODE).plain
    assert "for ModelConfig Value error" in shown
    assert shown.count("validation error") == 1


def test_headings_do_not_run_into_each_other():
    for width in range(60, 141):
        for row in body_drawn(samples.FAILED, Look(Step.HYPOTHESES, {}), width, UNICODE).plain.split("\n"):
            if "experiment  " in row and "verdict" in row:
                assert " experiment " in row
                assert "  verdict" in row
