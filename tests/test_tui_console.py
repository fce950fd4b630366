"""The console driven by keys and mouse, over sizes and states, on a driver that replays hand-made sessions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.widgets import Input

from playbooks import decisions as decide
from playbooks.session import Step
from tests import tui_samples as samples
from tests.tui_samples import FakeRun, backend, lines_shown, replaying, until, until_still
from tui import actions
from tui.app import ConsoleApp
from tui.exports import keep_text
from tui.screens.dialogs import AskText, Confirm
from tui.screens.help import HelpScreen
from tui.screens.log_viewer import LogViewerScreen
from tui.screens.monitor import MonitorScreen
from tui.screens.report import ReportScreen
from tui.screens.start import StartScreen
from tui.screens.wizard import WizardScreen
from tui.themes.glyphs import ASCII
from tui.widgets.choice_list import ChoiceList
from tui.widgets.key_bar import KeyBar
from tui.widgets.live_log import LiveLog
from tui.widgets.memory_pane import MemoryPane
from tui.widgets.step_pane import StepPane
from tui.widgets.words import Words

SIZES = [(80, 24), (120, 36), (200, 50)]


async def wizard_at(pilot, session):
    """The wizard's screen, once it shows `session`."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.session == session)
    await pilot.pause()
    return app.screen


async def start_at(pilot):
    """The screen on which a case is chosen, opened from the monitor."""
    await until(pilot, lambda: isinstance(pilot.app.screen, MonitorScreen))
    await pilot.press("3")
    await until(
        pilot, lambda: isinstance(pilot.app.screen, StartScreen) and pilot.app.screen.query_one(ChoiceList).marked
    )
    return pilot.app.screen


def keys_of(app) -> str:
    return app.screen.query_one(KeyBar).shown.plain


def body_of(app) -> str:
    return app.screen.query_one(StepPane).body.plain


def now_of(app) -> str:
    return app.screen.query_one("#now", Words).shown.plain


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("state", "now", "body"),
    [
        ("loading", "cold load of tiny", "Nothing is wrong so far"),
        ("failed", "choose a claim", "82 %  The KV cache cannot hold one request of max_model_len"),
        ("tested", "likeliest causes", "confirmed"),
        ("verifying", "verifying on a cold load", "measuring"),
        ("verified", "Verified", "412 answered"),
        ("unexplained", "Unexplained", "No playbook explains this failure"),
        ("no-engine", "cannot be run", "python3 has no module vllm"),
    ],
)
async def test_state_is_said_in_words(size, state, now, body):
    app = ConsoleApp(backend(replaying(samples.STATES[state])), start="wizard")
    async with app.run_test(size=size) as pilot:
        screen = await wizard_at(pilot, samples.STATES[state])
        if state == "unexplained":
            screen.action_look_at(Step.HYPOTHESES.value)
        assert now in now_of(app)
        assert body in body_of(app)
        pane = screen.query_one(StepPane)
        assert pane.size.height >= 6
        assert max(len(line) for line in pane.body.plain.split("\n")) <= size[0] - 2
        assert "q quit" in keys_of(app)
        assert "? help" in keys_of(app)


@pytest.mark.parametrize("size", [(10, 4), (40, 12), (59, 30), (60, 16), (80, 20), (110, 28), (250, 60)])
async def test_any_size_can_be_drawn(size):
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=size) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        enlarge = screen.query_one("#enlarge")
        assert enlarge.display == (size[0] < 60 or size[1] < 16)
        assert screen.query_one(StepPane).display != enlarge.display
        if enlarge.display:
            assert "enlarge it to at least 60×16" in screen.query_one("#enlarge", Words).shown.plain
        await pilot.resize_terminal(250, 60)
        await until(pilot, lambda: screen.query_one(StepPane).display)
        assert not enlarge.display


async def test_start_screen_says_what_the_host_has():
    app = ConsoleApp(backend(replaying(samples.FAILED), engine=samples.MISSING))
    async with app.run_test(size=(80, 24)) as pilot:
        await start_at(pilot)
        words = app.screen.query_one("#text", Words)
        await until(pilot, lambda: "23.4 GiB" in words.shown.plain and "none found" in words.shown.plain)
        assert isinstance(app.screen, StartScreen)
        text = " ".join(words.shown.plain.split())
        assert "none found, because python3 has no module vllm" in text
        assert "GPUs none, because NVML cannot be loaded" in text


async def test_lab_case_opens_by_enter_and_begins():
    run = replaying(samples.FAILED)
    app = ConsoleApp(backend(run))
    async with app.run_test(size=(80, 24)) as pilot:
        await start_at(pilot)
        await pilot.press("down", "down", "enter")
        await wizard_at(pilot, samples.FAILED)
        assert run.decided == [decide.Begin()]


async def test_deployment_that_cannot_be_opened_is_said_where_it_was_chosen(tmp_path):
    path = tmp_path / "deployment.yaml"
    path.write_text("modles: []\n")
    app = ConsoleApp(backend('deployment.yaml:1: unknown key "modles", did you mean "models"?'))
    async with app.run_test(size=(120, 36)) as pilot:
        await start_at(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = str(tmp_path / "absent.yaml")
        await pilot.press("enter")
        assert "There is no file" in app.screen.query_one("#about", Words).shown.plain
        app.screen.query_one(Input).value = str(path)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        said = app.screen.query_one("#said", Words)
        await until(pilot, lambda: 'did you mean "models"' in said.shown.plain)


async def test_whole_case_by_keys():
    """Experiment, fix with its question, verification, keep."""
    run = FakeRun([(samples.FAILED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.FAILED)
        assert "enter run experiment" in keys_of(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: screen.session.fixes)
        assert run.decided[-1] == decide.RunExperiment(samples.CAUSE.id, samples.TOO_SMALL.id)
        assert screen.shown is Step.FIX
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "+      max-model-len: 1408" in app.screen.query_one("#about", Words).shown.plain
        await pilot.press("enter")
        await until(pilot, lambda: screen.session.verdict == "verified")
        assert run.decided[-1] == decide.ApplyFix("lower-max-model-len")
        assert "u undo the fix" in keys_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: screen.over)
        assert run.decided[-1] == decide.Finish()
        assert "enter" not in keys_of(app)


async def test_no_answer_changes_nothing():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert run.decided == [decide.Begin()]


async def test_edited_value_is_shown_in_the_difference_and_sent():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "v")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = "1024"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        assert "+  args.max-model-len: 1024" in body_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: decide.ApplyFix("lower-max-model-len", "1024") in run.decided)


async def test_unavailable_fix_cannot_be_applied():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "down", "down")
        assert screen.moment().fix == samples.FP8
        assert "not possible" in body_of(app)
        assert "impossible the CPU engine has no fp8 KV cache" in body_of(app)
        assert "apply" not in keys_of(app)
        await pilot.press("enter")
        assert app.screen is screen


async def test_undo_goes_back():
    waiting = replace(samples.VERIFIED, report_path=None)
    run = FakeRun([(waiting, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, waiting)
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "It was verified" in app.screen.query_one("#about", Words).shown.plain
        assert decide.Undo() not in run.decided
        await pilot.press("enter")
        await until(pilot, lambda: screen.session.applied_fix is None)
        assert run.decided[-1] == decide.Undo()


async def test_arrows_and_escape_go_back_a_step():
    app = ConsoleApp(backend(replaying(samples.VERIFYING)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.VERIFYING)
        await pilot.press("left", "left", "escape", "left")
        assert screen.shown is Step.SYMPTOM
        assert "▸ does not start" in body_of(app)
        await pilot.press("right", "right", "right", "right")
        assert screen.shown is Step.VERIFY
        await pilot.press("escape")
        assert screen.shown is Step.FIX


async def test_click_marks_a_claim_and_a_click_on_the_header_looks_at_a_step():
    app = ConsoleApp(backend(replaying(samples.FAILED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.FAILED)
        lines = screen.query_one("#choices").shown.plain.split("\n")
        row = next(i for i, line in enumerate(lines) if line.strip().startswith("The KV cache was given"))
        await pilot.click("#choices", offset=(5, row))
        assert screen.moment().hypothesis == samples.TOO_SMALL
        await pilot.click("#steps", offset=(3, 0))
        await until(pilot, lambda: screen.shown is Step.SYMPTOM)


async def test_click_on_a_key_does_what_the_key_does():
    app = ConsoleApp(backend(replaying(samples.FAILED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await wizard_at(pilot, samples.FAILED)
        await pilot.click(KeyBar, offset=(keys_of(app).index("? help") + 1, 0))
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_tab_moves_between_panes():
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await until(pilot, lambda: lines_shown(screen) == len(samples.LOG))
        seen = set()
        for _ in range(4):
            await pilot.press("tab")
            seen.add(screen.focused.id)
        assert seen == {"choices", "log-view"}


async def test_log_and_memory_open_by_key():
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await until(pilot, lambda: lines_shown(screen) == len(samples.LOG))
        small = screen.query_one(LiveLog).size.height
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await until(pilot, lambda: app.screen.view.size.height > small + 5)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("m")
        folded = screen.query_one("#folded", MemoryPane)
        await until(pilot, lambda: "No GPU memory to show" in folded.shown.plain)
        await pilot.press("m")
        await until(pilot, lambda: folded.shown.plain.count("\n") == 1)


async def test_gpu_bars_have_numbers_and_unknown_has_a_reason():
    app = ConsoleApp(backend(replaying(samples.TESTED), host=samples.HOST_WITH_GPUS), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        pane = screen.query_one("#memory", MemoryPane)
        await until(pilot, lambda: "71.8 of 79.3 GiB" in pane.shown.plain)
        assert "unknown, because the driver does not" in pane.shown.plain


async def test_quit_while_a_load_runs_asks_and_awaits_the_end():
    class SlowEnd(FakeRun):
        may_end = asyncio.Event()

        async def drive(self, decisions, on_change):
            session = await super().drive(decisions, on_change)
            self.finished = False
            await self.may_end.wait()
            self.finished = True
            return session

    run = SlowEnd([(samples.LOADING, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.LOADING)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "cold load of tiny" in app.screen.query_one("#about", Words).shown.plain
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert run.decided == [decide.Begin()]
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: run.decided[1:] == [decide.Stop(), decide.Finish()])
        assert app.is_running
        assert "Ending the case" in now_of(app)
        run.may_end.set()
        await until(pilot, lambda: not app.is_running)
    assert run.finished


async def test_quit_asks_and_ends_a_case_that_waits():
    run = FakeRun([(samples.FAILED, None)])
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, samples.FAILED)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: run.finished)
        await until(pilot, lambda: app.return_code is not None)
    assert app.return_value == 1


@pytest.mark.parametrize(("state", "code"), [("verified", 0), ("unexplained", 3), ("no-engine", 4)])
async def test_exit_code_says_how_the_case_ended(state, code):
    app = ConsoleApp(backend(replaying(samples.STATES[state])), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.STATES[state])
        await until(pilot, lambda: screen.over)
        await pilot.press("q")
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value == code


async def test_driver_that_breaks_is_said_and_the_console_stays():
    class Broken(FakeRun):
        async def drive(self, decisions, on_change):
            raise RuntimeError("[red]the pipe[/] is gone")

    app = ConsoleApp(backend(Broken([])), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, WizardScreen) and app.screen.over)
        assert "RuntimeError: [red]the pipe[/] is gone" in now_of(app)
        assert "[red]the pipe[/] is gone" in body_of(app)
        assert app.is_running


async def test_copy_goes_to_the_clipboard_and_to_a_file(tmp_path):
    app = ConsoleApp(backend(replaying(samples.FAILED), exports=tmp_path / "exports"), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await wizard_at(pilot, samples.FAILED)
        await pilot.press("y", "y")
        files = sorted((tmp_path / "exports").iterdir())
        assert [file.name for file in files] == [
            "2026-11-29-0007-copy-2.txt",
            "2026-11-29-0007-copy.txt",
        ]
        assert files[1].read_text(encoding="utf-8") == app.clipboard
        assert "82 %  The KV cache cannot hold" in app.clipboard


async def test_export_says_its_path_on_the_last_line_and_when_it_cannot(tmp_path):
    folder = tmp_path / "exports"
    app = ConsoleApp(backend(replaying(samples.FAILED), exports=folder), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        await wizard_at(pilot, samples.FAILED)
        await pilot.press("e")
        file = folder / "2026-11-29-0007-export.txt"
        assert "engine.log:72" in file.read_text(encoding="utf-8")
        assert "Written: " in keys_of(app)
        assert keys_of(app).endswith("2026-11-29-0007-export.txt")
        assert not app._notifications
        await pilot.press("t")
        assert "q quit" in keys_of(app)
        file.unlink()
        folder.rmdir()
        folder.write_text("in the way", encoding="utf-8")
        await pilot.press("e")
        assert "Not written" in keys_of(app)


def test_kept_text_never_writes_over_a_file(tmp_path):
    first = keep_text(tmp_path, "../case", "export", "one")
    assert first.parent == tmp_path
    assert keep_text(tmp_path, "../case", "export", "two") != first
    assert first.read_text(encoding="utf-8") == "one"


async def test_report_is_read_from_its_file(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("# Report\n\n[bold]not markup[/]\n\x1b[31mred\x1b[0m\n", encoding="utf-8")
    session = replace(samples.VERIFIED, report_path=str(path))
    app = ConsoleApp(backend(replaying(session)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, session)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen))
        await until(pilot, lambda: "[bold]not markup[/]\nred" in app.screen.query_one("#text", Words).shown.plain)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, WizardScreen))


async def test_report_that_is_gone_says_so():
    session = replace(samples.VERIFIED, report_path="absent/report.md")
    app = ConsoleApp(backend(replaying(session)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, session)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen))
        await until(pilot, lambda: "cannot be read" in app.screen.query_one("#text", Words).shown.plain)


async def test_palette_offers_only_what_works_now():
    app = ConsoleApp(backend(replaying(samples.FAILED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.FAILED)
        offered = {action.id for action in actions.available(screen.moment())}
        assert {"run_experiment", "finish", "help"} <= offered
        assert not {"apply_fix", "undo", "report", "stop"} & offered
        await pilot.press("colon")
        await until(pilot, lambda: type(app.screen).__name__ == "CommandPalette")
        await pilot.press("h", "e", "l", "p")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_ascii_terminal_gets_only_ascii():
    run = replaying(samples.TESTED, [*samples.LOG, *samples.HOSTILE])
    app = ConsoleApp(backend(run), start="wizard", glyphs=ASCII)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await until(pilot, lambda: lines_shown(screen) >= len(samples.LOG) + len(samples.HOSTILE))
        await pilot.press("right")
        await until_still(pilot)
        drawn = [strip.text for strip in screen._compositor.render_strips()]
        assert [line for line in drawn if not line.isascii()] == []
        assert any("+8.9s" in line for line in drawn)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await until_still(pilot)
        assert [one.text for one in app.screen._compositor.render_strips() if not one.text.isascii()] == []


async def test_theme_changes_and_colours_come_from_it():
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        dark = screen.styles.background
        await pilot.press("t")
        assert app.theme == "console-light"
        await until(pilot, lambda: screen.styles.background != dark)


def test_help_names_every_action_once():
    from tui.screens.help import draw_help
    from tui.themes.glyphs import UNICODE

    text = draw_help(120, UNICODE).plain
    for action in actions.ACTIONS:
        assert text.count(action.tooltip) == 1, action.id


def test_wizard_refuses_a_wrong_deployment_before_it_opens(tmp_path, capsys):
    from tui.cli import main

    path = tmp_path / "deployment.yaml"
    path.write_text("modles: []\n")
    with pytest.raises(SystemExit) as end:
        main(["wizard", "--deployment", str(path)])
    assert end.value.code == 2
    assert f"{path}:1" in capsys.readouterr().err


async def test_a_held_gpu_is_asked_about_before_the_first_load():
    holder = "GPU 0 is held by pid 4711 (python): 10.0 GiB"
    run = FakeRun([(samples.FAILED, None)], holders=(holder,))
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert holder in app.screen.query_one("#about", Words).shown.plain
        assert run.decided == []
        await pilot.press("enter")
        await wizard_at(pilot, samples.FAILED)
        assert run.decided == [decide.Begin()]


async def test_a_no_to_a_held_gpu_loads_nothing_and_goes_back():
    run = FakeRun([(samples.FAILED, None)], holders=("GPU 0 is held by pid 4711 (python): 10.0 GiB",))
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        assert run.decided == []


async def test_the_measured_number_is_whole_at_the_usual_size():
    app = ConsoleApp(backend(replaying(samples.VERIFIED)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.VERIFIED)
        rows = screen.query_one(StepPane).body.plain.split("\n")
        row = next(row for row in rows if "what the fix promised" in row)
        assert "KV cache tokens ≥" in row
        assert row.rstrip().endswith("1,536")


async def test_what_is_below_the_fold_of_a_new_step_can_be_scrolled_to():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 20)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.session.verdict == "verified")
        await pilot.pause()
        pane = screen.query_one(StepPane)
        assert pane.max_scroll_y > 0
        await pilot.press("pagedown")
        await until(pilot, lambda: pane.scroll_y > 0)
