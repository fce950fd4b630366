"""The ways out: what is asked, what is said afterwards, which keys come too late, and what a bug or a signal does."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import termios
from dataclasses import replace

import pytest

from engine_probe.errors import InputError
from playbooks import decisions as decide
from tests import tui_samples as samples
from tests.test_tui_console import until, wizard_at
from tests.test_tui_fix_values import about_of, burst
from tests.tui_samples import FakeRun, backend, replaying
from tui import app as app_module
from tui.app import ConsoleApp, exit_code, run_console
from tui.screens.dialogs import Confirm
from tui.screens.help import HelpScreen
from tui.screens.leaving import farewell
from tui.screens.start import StartScreen

APPLIED = replace(samples.VERIFIED, report_path=None, case_folder="cases/2026-11-29-0007")


async def test_leaving_says_that_the_fix_stays_and_where_the_report_is(tmp_path):
    session = replace(APPLIED, deployment=replace(samples.LAB, path=tmp_path / "tw.yaml"))
    app = ConsoleApp(backend(FakeRun([(session, None)], samples.whole_case)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, session)
        await pilot.press("escape", "escape", "escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        text = "".join(about_of(app).split())
        assert "tw.yaml" in text
        assert "Undoitwithu" in text
        assert "2026-11-29-0007/report.md" in text
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert decide.Finish() not in screen.driver.run.decided


async def test_ctrl_c_asks_and_a_second_one_leaves():
    run = FakeRun([(samples.FAILED, None)])
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, samples.FAILED)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert not app._notifications
        await pilot.press("ctrl+c")
        await until(pilot, lambda: run.finished and app.return_value is not None)


async def test_ctrl_c_says_no_to_a_question_about_a_change():
    run = FakeRun([(samples.TESTED, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        await pilot.press("right", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.screen is screen)
        assert run.decided == [decide.Begin()]


@pytest.mark.parametrize("start", ["monitor", "wizard"])
async def test_keys_after_the_decision_to_leave_are_dropped(start):
    class SlowEnd(FakeRun):
        async def drive(self, decisions, on_change):
            session = await super().drive(decisions, on_change)
            await may_end.wait()
            return session

    may_end = asyncio.Event()
    app = ConsoleApp(backend(SlowEnd([(samples.FAILED, None)])), start=start)
    async with app.run_test(size=(80, 24)) as pilot:
        if start == "wizard":
            await wizard_at(pilot, samples.FAILED)
            await pilot.press("q")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            burst(app, "enter", "question_mark", "t")
            await until(pilot, lambda: app.closing)
            await pilot.pause()
            assert not any(isinstance(screen, HelpScreen) for screen in app.screen_stack)
            assert app.theme == "console-dark"
            may_end.set()
        else:
            burst(app, "q", "question_mark", "question_mark")
        await until(pilot, lambda: app.return_value is not None)
    assert app.bug is None


async def test_going_back_to_where_a_case_is_chosen_takes_keys_again():
    app = ConsoleApp(backend(replaying(samples.UNEXPLAINED)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, samples.UNEXPLAINED)
        await until(pilot, lambda: screen.over)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_a_signal_ends_the_case_and_two_end_the_console():
    class NeverEnds(FakeRun):
        async def drive(self, decisions, on_change):
            await super().drive(decisions, on_change)
            await asyncio.Event().wait()

    run = NeverEnds([(samples.LOADING, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, samples.LOADING)
        app.end_by_signal(signal.SIGTERM)
        await until(pilot, lambda: run.decided[1:] == [decide.Stop(), decide.Finish()])
        assert app.return_value is None
        app.end_by_signal(signal.SIGTERM)
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value == 128 + signal.SIGTERM


async def test_a_lost_connection_ends_what_runs_and_leaves_the_case_open():
    run = FakeRun([(samples.LOADING, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, samples.LOADING)
        app.end_by_signal(signal.SIGHUP)
        await until(pilot, lambda: run.finished and app.return_value is not None)
    assert run.decided == [decide.Begin()]
    assert app.return_value == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("session", "code"),
    [
        (None, 0),
        (samples.LOADING, 0),
        (replace(samples.LOADING, verdict="stopped"), 0),
        (replace(samples.FAILED, verdict="stopped"), 1),
        (samples.FAILED, 1),
        (samples.VERIFIED, 0),
        (replace(samples.TESTED, verdict="not verified"), 1),
    ],
)
def test_exit_code_tells_a_failure_only_where_one_was_found(session, code):
    assert exit_code(session) == code


def test_farewell_says_verdict_report_and_the_fix_that_stays(tmp_path):
    path = tmp_path / "tw.yaml"
    session = replace(samples.VERIFIED, deployment=replace(samples.LAB, path=path), kept_file=f"{path}.r1")
    lines = farewell(session, temporary=False)
    assert "Verified" in lines[0]
    assert lines[1] == "report: cases/2026-11-29-0007/report.md"
    assert f"The fix stays in {path}" in lines[2]
    assert f"{path}.r1" in "\n".join(lines)
    assert str(path) not in "\n".join(farewell(session, temporary=True))
    assert "no cause was tested" in farewell(samples.FAILED, temporary=False)[0]


@pytest.mark.parametrize(("is_terminal", "term"), [(False, "xterm"), (True, "dumb"), (True, ""), (True, None)])
def test_without_a_terminal_there_is_one_clear_line(monkeypatch, is_terminal, term):
    for stream in (app_module.sys.stdin, app_module.sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    with pytest.raises(InputError, match=r"needs a terminal.*monitor --once.*replay"):
        run_console(start="wizard")


def test_wizard_in_a_pipe_ends_with_2_and_draws_nothing(capsys):
    from tui.cli import main

    with pytest.raises(SystemExit) as end:
        main(["wizard"])
    assert end.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1


async def test_a_bug_is_kept_for_the_error_file_and_not_printed(monkeypatch):
    app = ConsoleApp(backend(replaying(samples.FAILED)))

    async def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(app, "do_theme", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("t")
    assert isinstance(app.bug, RuntimeError)
    assert app._exit_renderables == []


def console_on_a_terminal(home) -> tuple[int, int, bytes]:
    """Its pid, its terminal and what was drawn, once the first screen stands. Only the clean way out can end it."""
    program = "import tui.app_run, tui.cli; tui.app_run.HANGUP_SECONDS = 3600; tui.cli.main()"
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", HOME=str(home), XDG_STATE_HOME=str(home))
        os.execv(sys.executable, [sys.executable, "-c", program])
    seen = b""
    while b"1 Monitor" not in seen:
        seen += os.read(terminal, 65536)
    return pid, terminal, seen


@pytest.mark.timeout(120)
def test_console_whose_terminal_is_gone_ends_by_the_clean_way(tmp_path):
    """As when the ssh connection breaks: a pseudo-terminal that is closed while the first screen stands."""
    pid, terminal, _ = console_on_a_terminal(tmp_path)
    os.close(terminal)
    ended, status = os.waitpid(pid, 0)
    assert ended == pid
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path, number):
    pid, terminal, seen = console_on_a_terminal(tmp_path)
    assert not termios.tcgetattr(terminal)[3] & termios.ICANON
    os.kill(pid, number)
    while b"\x1b[?1049l" not in seen[-4096:] or b"\x1b[?25h" not in seen[-4096:]:
        seen += os.read(terminal, 65536)
    flags = termios.tcgetattr(terminal)[3]
    assert flags & termios.ICANON
    assert flags & termios.ECHO
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + number
    os.close(terminal)


async def test_q_asked_twice_leaves():
    app = ConsoleApp(backend("nothing to open"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("q")
        await until(pilot, lambda: app.return_value is not None)


@pytest.mark.parametrize("size", [(20, 5), (10, 3)], ids=str)
async def test_on_a_low_terminal_a_question_shows_how_it_is_answered(size):
    app = ConsoleApp(backend("nothing to open"))
    async with app.run_test(size=size) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await until(pilot, lambda: app.screen.has_class("-lowest") and app.screen.query_one("#answers").region.height)
        assert app.screen.region.contains_region(app.screen.query_one("#answers").region)
