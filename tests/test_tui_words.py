"""What the screens say: whose stages, whose arguments, how long, in which order, and the same in ASCII."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.content import Content

from engine_probe.launch import Deployment, Launch
from playbooks.session import Step
from tests import tui_samples as samples
from tests.test_tui_console import body_of, now_of, start_at, until, wizard_at
from tests.tui_samples import FakeRun, backend, replaying
from tui.actions import ACTIONS
from tui.app import ConsoleApp
from tui.host_view import host_view
from tui.screens.help import draw_help
from tui.screens.leaving import leave_lines
from tui.screens.wizard_text import now_line
from tui.themes.glyphs import ASCII, UNICODE, choose
from tui.widgets.choice_list import ChoiceList
from tui.widgets.fixes import fix_detail, fixes_body
from tui.widgets.hypotheses import hypotheses_body
from tui.widgets.memory_pane import host_line
from tui.widgets.stage_strip import draw_stages
from tui.widgets.step_header import draw_steps
from tui.widgets.symptom import symptom_body
from tui.widgets.words import wrapped

TWO = Deployment(models=(Launch("a", "tiny-llama", {"max-model-len": 1}), Launch("b", "tiny-llama", {"seed": 2})))
UNDONE = "lower-max-model-len did not hold and was undone: one request failed"


def test_several_models_are_named_on_each_line():
    session = replace(samples.LOADING, deployment=TWO, model="b", progress=replace(samples.RUNS, up=("a", "b")))
    body = symptom_body(session, 78, UNICODE).plain
    assert "a: max-model-len 1" in body
    assert "b: seed 2" in body
    assert draw_stages(session.stages, 78, UNICODE, whose="b").plain.startswith("b: conf")
    assert "a, b is up" in leave_lines(replace(session, running=None), temporary=False)[0]


async def test_stage_strip_names_the_model_only_where_there_are_several():
    session = replace(samples.LOADING, deployment=TWO, model="b")
    app = ConsoleApp(backend(replaying(session)), start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await wizard_at(pilot, session)
        assert screen.query_one("#stages").shown.plain.startswith("b: ")


async def test_seconds_of_what_runs_tick_without_any_event():
    now = [samples.NOON]
    world = replace(backend(replaying(samples.LOADING)), clock=lambda: now[0])
    app = ConsoleApp(world, start="wizard")
    async with app.run_test(size=(80, 24)) as pilot:
        await wizard_at(pilot, samples.LOADING)
        assert now_of(app).endswith("read")
        now[0] += 7
        await until(pilot, lambda: now_of(app).endswith("  7 s"))


@pytest.mark.parametrize("width", [60, 78])
def test_stage_times_are_kept_on_a_narrow_screen(width):
    stages = samples.stages(9, 13, 6, 18, 2, 4, 1, 65)
    drawn = draw_stages(stages, width, UNICODE).plain
    assert ("9s" in drawn) == (width == 78)
    assert "65s" in draw_stages(stages, 78, UNICODE).plain
    fast = samples.stages(0.4, 0.3, 0.2, 0.1, 0.6, 0.7, state="failed")
    assert "0.7s" in draw_stages(fast, 78, UNICODE).plain
    assert "0.4s" in draw_stages(fast, 78, UNICODE).plain


def test_steps_and_case_are_apart():
    drawn = draw_steps(Step.FIX, Step.FIX, "2026-11-29-0002", 78, UNICODE).plain
    assert "4 Verify   " in drawn
    assert drawn.endswith("case 2026-11-29-0002")
    assert "4 Verify and review" in draw_steps(Step.FIX, Step.FIX, "2026-11-29-0002", 118, UNICODE).plain


def test_a_fix_that_was_undone_says_so_where_the_fixes_stand():
    fixes = (replace(samples.LOWER, outcome="did not hold"), samples.RAISE, samples.FP8)
    session = replace(samples.TESTED, fixes=fixes, notes=(UNDONE,))
    assert UNDONE in fixes_body(session, "raise-kv-memory", 100, UNICODE).above.plain
    assert "The fix is undone" in now_line(session, Step.FIX, False, None, 100, UNICODE).plain
    assert "undone" not in now_line(samples.TESTED, Step.FIX, False, None, 100, UNICODE).plain


def test_kept_fix_shows_the_report_path_on_a_narrow_screen(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".local/state/vllm-console/cases/2026-11-29-0002/report.md"
    session = replace(samples.VERIFIED, report_path=str(path))
    words = now_line(session, Step.VERIFY, True, None, 78, UNICODE).plain
    assert "kept" in words
    assert words.endswith("~/.local/state/vllm-console/cases/2026-11-29-0002/report.md")


def test_impossible_stands_apart_from_its_reason():
    rows = [row.plain for row in fix_detail(samples.FP8, 78)]
    assert any(row.startswith("  impossible the CPU engine") for row in rows)


def test_ascii_arrows_cannot_be_read_as_greater_than():
    row = ASCII.fit(Content("a → b   c ✓"))
    assert row.plain == "a -> b  c +"
    assert ASCII.text("≥ 5") == ">= 5"
    assert ASCII.text("up ↓ ✓") == "up v +"


def test_ascii_padding_gives_back_what_an_arrow_takes():
    wide = Content("4,096 → 1,408          low")
    assert ASCII.fit(wide).cell_length == wide.cell_length


@pytest.mark.parametrize(
    ("names", "is_ascii"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LANG": "C"}, True),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8"}, False),
    ],
)
def test_the_c_locale_gets_ascii(monkeypatch, names, is_ascii):
    monkeypatch.setattr("locale.getpreferredencoding", lambda _do_setlocale=True: "utf-8")
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert choose().ascii_only is is_ascii


async def test_ascii_screens_have_no_scroll_bar_in_unicode():
    app = ConsoleApp(backend(replaying(samples.TESTED)), glyphs=ASCII)
    async with app.run_test(size=(60, 16)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: app.screen.query("#page") and app.screen.query_one("#page").max_scroll_y > 0)
        drawn = "".join(strip.text for strip in app.screen._compositor.render_strips())
        assert drawn.isascii()


async def test_start_screen_offers_the_own_deployment_first():
    app = ConsoleApp(backend(FakeRun([])))
    async with app.run_test(size=(80, 24)) as pilot:
        await start_at(pilot)
        choices = app.screen.query_one(ChoiceList)
        assert choices.marked == "open"
        assert choices.shown.plain.index("Open a deployment") < choices.shown.plain.index("demo")


def test_a_long_path_breaks_after_a_slash():
    path = "/opt/engines/managed/vllm-0.32.0/environments/default/bin/python3.11"
    rows = [row.plain for row in wrapped(f"{path}, from the managed engine", 40)]
    assert all(len(row) <= 40 for row in rows)
    assert rows[0].endswith("/")
    assert "".join(rows).startswith(path)


def test_help_has_no_empty_heading_and_tells_the_enters_apart():
    text = draw_help(100, UNICODE).plain
    assert "In the report\n" not in text
    assert "scroll" in text
    for action in ACTIONS:
        if action.key == "enter" and "wizard" in action.places:
            assert f"{action.label} (step {action.step})" in text


def test_causes_name_the_model_and_no_claim_or_experiment_is_cut():
    for width in (78, 116, 140):
        text = hypotheses_body(samples.FAILED, None, width, UNICODE).plain
        assert "Likeliest causes for tiny, with confidence" in text
        joined = " ".join(text.split())
        for hypothesis in samples.CAUSE.hypotheses:
            first, last = hypothesis.claim.split()[0], hypothesis.claim.split()[-1]
            assert first in joined
            assert last in joined
        assert max(len(line) for line in text.split("\n")) <= width


def test_memory_says_what_the_number_means():
    assert "GiB used" in host_line(host_view(samples.HOST), 78, UNICODE).plain


def test_no_promise_is_cut_on_a_wide_screen():
    long = replace(samples.RAISE, promises=("GPU memory held by others < 1.00 GiB",))
    session = replace(samples.TESTED, fixes=(samples.LOWER, long, samples.FP8))
    body = fixes_body(session, "lower-max-model-len", 116, UNICODE)
    rows = [row.plain for choice in body.choices for row in choice.rows]
    assert any(long.promises[0] in row for row in rows)
    assert not any("…" in row for row in rows)
    assert max(len(row) for row in rows) <= 116


async def test_help_fits_its_page():
    app = ConsoleApp(backend(FakeRun([])))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: app.screen.query("#text") and app.screen.query_one("#text").shown.plain)
        text = app.screen.query_one("#text")
        await until(pilot, lambda: text.size.width > 0)
        assert max(len(row) for row in text.shown.plain.split("\n")) <= text.size.width


async def test_edited_price_is_not_claimed():
    app = ConsoleApp(backend(replaying(samples.TESTED)), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, samples.TESTED)
        screen.values["lower-max-model-len"] = "1024"
        await pilot.press("right")
        assert "→ 1,024" in body_of(app)
        assert "not worked out" in body_of(app)
