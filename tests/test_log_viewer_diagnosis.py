"""`d` in the log viewer: causes with the lines that prove them, and from there back to the log."""

from __future__ import annotations

import os
import threading
from contextlib import asynccontextmanager

import pytest

from engine_probe.launch import Deployment, Launch
from engine_probe.locations import find_locations
from engine_probe.logs.sources import parse_source
from tests.memory_logs import LOADED, LOADING, PROFILED, SERVING, SIZED, failed, v1
from tests.test_log_viewer import Viewer
from tests.tui_samples import backend, until
from tui import actions, log_diagnosis
from tui.app import ConsoleApp
from tui.opened_log import OpenedLog
from tui.screens.diagnosis import DiagnosisScreen
from tui.screens.dialogs import Confirm
from tui.screens.help import HelpScreen, draw_help
from tui.screens.log_viewer import LogViewerScreen
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.step_pane import StepPane

DIVIDED = v1("0.13.0", LOADING, failed("AssertionError: 14336 is not divisible by 3", "distributed/utils.py:divide"))
HEALTHY = v1("0.13.0", LOADING, LOADED, PROFILED, SIZED) + SERVING + "\n"
INCOMPLETE = v1("0.13.0", LOADING)
UNEXPLAINED = v1("0.13.0", LOADING, failed("ValueError: the [bold]moon[/] is\x1b[31m in the wrong house", "v1/x.py:f"))
SIZES = [(80, 24), (120, 36), (200, 50)]


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "vllm.log"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@asynccontextmanager
async def diagnosing(log: OpenedLog, folder, size=(100, 30), glyphs=UNICODE):
    """The diagnosis of a log that has been read, once it is shown."""
    app = ConsoleApp(backend("nothing to open", exports=folder / "exports"), log=log, glyphs=glyphs)
    async with app.run_test(size=size) as pilot:
        viewer = Viewer(pilot, log)
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen) and viewer.is_settled)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DiagnosisScreen) and app.screen.moment() is not None)
        await until(pilot, lambda: "being read" not in app.screen.query_one("#title").shown.plain)
        yield viewer
    log.close()


def shown(viewer: Viewer) -> str:
    return viewer.pilot.app.screen.query_one(StepPane).body.plain


async def test_causes_fixes_and_what_would_tell_more(write, tmp_path):
    async with diagnosing(OpenedLog.of_file(write(DIVIDED)), tmp_path) as viewer:
        text = shown(viewer)
        assert text.startswith("vLLM 0.13.0: acme/m-7b does not start, at")
        assert "heads-not-divisible-by-tp" in text
        assert "line 8  AssertionError: 14336 is not divisible by 3" in text
        assert text.index("Fixes, one at a time") < text.index("Hypotheses") < text.index("What would tell more")
        keys = viewer.pilot.app.screen.query_one("#keys").shown.plain
        assert keys.strip().startswith("enter go to line   y copy   e export   esc back")


async def test_enter_goes_to_the_line_in_the_log(write, tmp_path):
    path = write("".join(f"INFO 11-29 09:00:00 [x.py:1] before {n}\n" for n in range(200)) + DIVIDED)
    async with diagnosing(OpenedLog.of_file(path), tmp_path) as viewer:
        await viewer.pilot.press("enter")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))
        assert viewer.view.marked == 207
        assert "Evidence, line 208" in viewer.words("#keys")
        assert any("14336 is not divisible by 3" in raw for raw in viewer.raws())
        await viewer.pilot.press("left_curly_bracket")
        assert viewer.view.marked != 207


async def test_a_click_twice_on_a_line_goes_there_too(write, tmp_path):
    async with diagnosing(OpenedLog.of_file(write(DIVIDED)), tmp_path) as viewer:
        rows = shown(viewer).split("\n")
        row = next(number for number, text in enumerate(rows) if "line 8" in text)
        await viewer.pilot.click("#choices", offset=(12, row), times=2)
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))
        assert viewer.view.marked == 7


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (HEALTHY, "vLLM 0.13.0: nothing is wrong in this log"),
        (INCOMPLETE, "the load neither failed nor served in stage weight_load; this log ends at line 3"),
        (UNEXPLAINED, "No playbook explains this failure"),
        ("one\ntwo\n", "no line of this log is vLLM's or tells of an error: is it the right one?"),
        ("", "no line of this log is vLLM's or tells of an error: is it the right one?"),
    ],
    ids=["healthy", "incomplete", "unexplained", "another", "empty"],
)
async def test_what_is_no_cause_is_said_in_words(log, words, write, tmp_path):
    async with diagnosing(OpenedLog.of_file(write(log)), tmp_path) as viewer:
        assert words in " ".join(shown(viewer).split())
        can_jump = log in (UNEXPLAINED, INCOMPLETE)
        assert ("enter go to line" in viewer.pilot.app.screen.query_one("#keys").shown.plain) == can_jump
        await viewer.pilot.press("pagedown", "escape")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
async def test_text_of_a_log_is_data(glyphs, write, tmp_path):
    async with diagnosing(OpenedLog.of_file(write(UNEXPLAINED)), tmp_path, glyphs=glyphs) as viewer:
        assert "the [bold]moon[/] is in the wrong house" in shown(viewer)
        await viewer.pilot.press("y")
        (copied,) = (tmp_path / "exports").iterdir()
        assert copied.read_text("utf-8") == viewer.pilot.app.clipboard
        assert "\x1b" not in viewer.pilot.app.clipboard
        assert "unexplained" in viewer.pilot.app.clipboard
        drawn = [strip.text for strip in viewer.pilot.app.screen._compositor.render_strips()]
        assert glyphs is UNICODE or all(line.isascii() for line in drawn)


async def test_export_writes_a_report_without_secrets(write, tmp_path):
    secret = "hf_" + "abcdefghij0123456789klmn"
    log = v1("0.13.0", failed(f"ValueError: {secret} is refused by the moon", "v1/x.py:f"))
    async with diagnosing(OpenedLog.of_file(write(log)), tmp_path) as viewer:
        assert secret not in shown(viewer)
        await viewer.pilot.press("e")
        (written,) = (tmp_path / "exports").iterdir()
        text = written.read_text("utf-8")
        assert text.startswith("# acme/m-7b does not start")
        assert secret not in text


async def test_each_of_several_logs_is_diagnosed_by_itself(write, tmp_path):
    first, second = write(HEALTHY, "chat.log"), write(DIVIDED, "code.log")
    log = OpenedLog.of_sources([parse_source(str(first)), parse_source(str(second))])
    async with diagnosing(log, tmp_path, size=(120, 60)) as viewer:
        text = shown(viewer)
        assert text.index("chat.log") < text.index("nothing is wrong in this log") < text.index("code.log")
        assert "line 8  AssertionError: 14336 is not divisible by 3" in text
        await viewer.pilot.press("enter")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))
        marked = viewer.view.marked
        assert marked is not None
        assert "14336 is not divisible" in log.index.lines_at((marked,))[0].text
        await viewer.press("m")
        await viewer.until(lambda: viewer.is_settled)
        await viewer.press("d")
        await until(viewer.pilot, lambda: "nothing is wrong" in shown(viewer))
        assert "code.log" not in shown(viewer)


async def test_a_pipe_is_diagnosed_as_far_as_it_came(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, DIVIDED.encode())
    log = OpenedLog.of_sources([parse_source("-")], stdin=reading)
    await_lines = DIVIDED.count("\n")
    app = ConsoleApp(backend("nothing to open"), log=log, glyphs=UNICODE)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen) and log.index.line_count == await_lines)
        await pilot.press("d")
        await until(pilot, lambda: "heads-not-divisible-by-tp" in app.screen.query_one(StepPane).body.plain)
        assert app.screen.query_one("#title").shown.plain.strip() == "Diagnosis of standard input"
        os.write(writing, b"INFO 11-29 10:01:00 [x.py:1] one more\n")
        await pilot.press("escape")
        await until(pilot, lambda: log.index.line_count == await_lines + 1)
    os.close(writing)
    log.close()


async def test_a_bug_in_the_diagnosis_is_said_and_the_viewer_goes_on(write, tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(log_diagnosis, "diagnose", broken)
    async with diagnosing(OpenedLog.of_file(write(DIVIDED)), tmp_path) as viewer:
        text = " ".join(shown(viewer).split())
        assert text.startswith("the diagnosis failed: internal error: ZeroDivisionError: division by zero, details in")
        (kept,) = (find_locations().state / "errors").iterdir()
        assert "in broken" in kept.read_text()
        await viewer.pilot.press("escape")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))
        await viewer.pilot.press("d")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, DiagnosisScreen))


async def test_keys_work_while_it_is_read_and_leaving_ends_it(write, tmp_path, monkeypatch):
    begun, gone, may_go_on = threading.Event(), threading.Event(), threading.Event()
    real = log_diagnosis.telling_records

    def slow(file, go_on):
        begun.set()
        may_go_on.wait(30)
        try:
            go_on()
        except Exception:
            gone.set()
            raise
        return real(file, go_on)

    monkeypatch.setattr(log_diagnosis, "telling_records", slow)
    log = OpenedLog.of_file(write(DIVIDED))
    app = ConsoleApp(backend("nothing to open"), log=log, glyphs=UNICODE)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await pilot.press("d")
        await until(pilot, begun.is_set)
        await until(pilot, lambda: app.screen.query_one("#title").shown.plain.endswith("being read"))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "Error, line" in app.screen.query_one("#keys").shown.plain)
        may_go_on.set()
        await until(pilot, gone.is_set)
    log.close()


async def test_the_deployment_of_a_case_is_evidence(write, tmp_path):
    deployment = Deployment(models=(Launch("m", "acme/m-7b", {"tensor-parallel-size": 3}),))
    log = OpenedLog.of_file(write(DIVIDED))
    app = ConsoleApp(backend("nothing to open"), log=OpenedLog.of_file(write(HEALTHY, "other.log")), glyphs=UNICODE)
    async with app.run_test(size=(100, 30)) as pilot:
        app.push_screen(LogViewerScreen(log, is_inner=True, deployment=deployment))
        await until(pilot, lambda: app.screen.query("#log-title") and log.has_been_read)
        await pilot.press("d")
        await until(pilot, lambda: "heads-not-divisible-by-tp" in app.screen.query_one(StepPane).body.plain)
        assert "the launch is not known" not in app.screen.query_one(StepPane).body.plain
    log.close()


async def test_a_log_that_was_cut_meanwhile_is_said(write, tmp_path):
    path = write(DIVIDED)
    async with diagnosing(OpenedLog.of_file(path), tmp_path) as viewer:
        generation = viewer.log.generation
        path.write_text("INFO 11-29 10:00:00 [x.py:1] anew\n", encoding="utf-8")
        await until(viewer.pilot, lambda: viewer.log.generation != generation)
        await viewer.pilot.press("enter")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))
        assert "The log was cut since it was diagnosed" in viewer.words("#keys")


async def test_q_and_ctrl_c_leave_without_a_question(write, tmp_path):
    async with diagnosing(OpenedLog.of_file(write(DIVIDED)), tmp_path) as viewer:
        await viewer.pilot.press("ctrl+c")
        await until(viewer.pilot, lambda: viewer.pilot.app.return_value is not None)
        assert not isinstance(viewer.pilot.app.screen, Confirm)


@pytest.mark.parametrize("size", SIZES)
async def test_no_line_is_wider_than_the_screen(size, write, tmp_path):
    async with diagnosing(OpenedLog.of_file(write(DIVIDED)), tmp_path, size=size) as viewer:
        assert max(len(line) for line in shown(viewer).split("\n")) <= min(size[0] - 3, 140)


def test_the_help_of_a_diagnosis_is_about_its_keys():
    text = draw_help(120, UNICODE, "diagnosis").plain
    assert text.startswith("In the diagnosis of a log\n")
    for action in actions.ACTIONS:
        assert (action.tooltip in " ".join(text.split())) == ("diagnosis" in action.places)


@pytest.mark.parametrize("size", SIZES, ids=["80", "120", "200"])
def test_pictures(snap_compare, monkeypatch, write, size):
    monkeypatch.delenv("NO_COLOR", raising=False)
    log = OpenedLog.of_file(write(DIVIDED))

    async def before(pilot):
        await until(pilot, lambda: isinstance(pilot.app.screen, LogViewerScreen) and log.is_derived)
        await pilot.press("d")
        await until(pilot, lambda: "divisible" in pilot.app.screen.query_one(StepPane).body.plain)
        await pilot.pause()

    app = ConsoleApp(backend("nothing to open"), log=log, glyphs=UNICODE)
    assert snap_compare(app, terminal_size=size, run_before=before)
    log.close()
