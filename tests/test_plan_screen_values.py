"""What if: each value by its key, marked against the file, with the bars moving at once; ways back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from textual.widgets import Input

from engine_probe.deployment import read_deployment
from engine_probe.revisions import write_changes
from tests.plan_samples import EIGHT, RELEASE, SIX, console, plan_of, row_of, write_plan
from tests.test_monitor_screen import drawn, text_of
from tests.test_tui_console import keys_of
from tests.tui_samples import until
from tui.plan_inputs import inputs_of
from tui.plan_whatif import CannotStepError, Changed, changes_between, gpus_in, moved, stepped, with_gpus
from tui.screens.dialogs import AskText


def bar_of(app, gpu: int) -> str:
    return next(line for line in drawn(app) if re.match(rf" [▸ ] {gpu} ", line))


async def test_utilisation_moves_by_a_hundredth_and_the_bar_with_it(tmp_path):
    app = console(write_plan(tmp_path, SIX))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        before = bar_of(app, 4)
        await pilot.press("minus")
        assert "0.34*" in row_of(app, "6 tiny-too")
        assert "now 0.34, in the file 0.35" in text_of(app)
        await until(pilot, lambda: "* utilisation 0.34, the file says 0.35" in text_of(app))
        await pilot.press(*["minus"] * 9)
        assert "0.25*" in row_of(app, "6 tiny-too")
        assert "✓ fits" in row_of(app, "6 tiny-too")
        assert bar_of(app, 4) != before
        assert "!" not in bar_of(app, 4)
        assert drawn(app)[0].endswith("all fit")
        await pilot.press(*["plus"] * 10)
        assert "0.35 " in row_of(app, "6 tiny-too")
        assert screen.state.changes == ()
        assert "tried, not saved" not in drawn(app)[1]


async def test_lengths_go_by_powers_and_stop_at_what_the_model_was_made_for(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("up", "l", "minus")
        assert "6,144*" in row_of(app, "1 chat-70b")
        await pilot.press("minus")
        assert "4,096*" in row_of(app, "1 chat-70b")
        await pilot.press("plus", "plus", "plus")
        assert "8,192 " in row_of(app, "1 chat-70b")
        assert "8,192 tokens is the most that is tried here" in keys_of(app)


async def test_tp_doubles_and_halves_and_gpus_go_with_it(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("up", "t", "plus")
        assert re.search(r" 8\* .* 0–7\* ", row_of(app, "1 chat-70b"))
        await pilot.press("plus")
        assert "tensor-parallel-size is 8, and there are 8 GPUs" in keys_of(app)
        await pilot.press("minus", "minus")
        assert re.search(r" 2\* .* 0–1\* ", row_of(app, "1 chat-70b"))
        assert "2 changes tried, not saved" in drawn(app)[1]


async def test_gpus_are_moved_by_one_or_written(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        for wrong, words in (
            ("9", "there is no GPU 9: they are 0 to 7"),
            ("x", "x is no GPU"),
            ("1,1", "each GPU once"),
        ):
            app.screen.query_one(Input).value = wrong
            await pilot.press("enter")
            await until(pilot, lambda words=words: words in text_of(app))
        app.screen.query_one(Input).value = "4"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        assert re.search(r" 4\* .*✓ fits", row_of(app, "2 code-8b"))
        await pilot.press("plus")
        assert re.search(r" 5\* .*✓ fits", row_of(app, "2 code-8b"))
        assert bar_of(app, 5).lstrip("▸ ").startswith("5     2█")
        await pilot.press("plus", "plus", "plus")
        assert "there is no GPU behind those that it has" in keys_of(app)


async def test_requests_at_once_go_by_powers_of_two(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("s", "minus", "minus")
        assert " 64* " in row_of(app, "2 code-8b")
        await pilot.press("right", "right", "left", "plus")
        assert " 64* " in row_of(app, "2 code-8b")
        assert " 1* " in row_of(app, "2 code-8b")  # GPU 0, then 1: what stands to the right of seqs


async def test_who_starts_first_has_the_room(tmp_path):
    app = console(write_plan(tmp_path, SIX))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("O", "O")
        assert "✓ fits" in row_of(app, "4 tiny-too")
        assert "✗ does not fit" in row_of(app, "5 tiny ")
        assert "Models order*" in text_of(app)
        await pilot.press("o", "o", "o")
        assert "tiny-too starts last already" in keys_of(app)
        assert "Models order*" not in text_of(app)


async def test_z_goes_back_step_by_step_and_r_to_the_file(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        await pilot.press("minus", "minus", "l", "minus")
        assert "0.88*" in row_of(app, "2 code-8b")
        await pilot.press("z")
        assert "4,096 " in row_of(app, "2 code-8b")
        await pilot.press("z")
        assert "0.89*" in row_of(app, "2 code-8b")
        await pilot.press("minus", "r")
        assert screen.state.changes == ()
        assert "r reset" not in keys_of(app)
        await pilot.press("z")
        assert re.search(r" 0\.89\* +3,072\* ", row_of(app, "2 code-8b"))


async def test_keys_that_have_nothing_to_do_are_not_offered(tmp_path):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        await plan_of(pilot)
        assert "z undo" not in keys_of(app)
        assert "enter save" not in keys_of(app)
        await pilot.press("minus")
        assert "z undo" in keys_of(app)
        assert "enter save" in keys_of(app)


# Without a screen


@pytest.fixture
def plan(tmp_path):
    return inputs_of(read_deployment(write_plan(tmp_path)), EIGHT, RELEASE).plan()


def test_each_value_ends_somewhere(plan):
    for field in ("utilization", "length", "tp", "sequences", "gpus"):
        for by in (1, -1):
            now, steps = plan, 0
            with pytest.raises(CannotStepError):
                while True:
                    deployment = stepped(now, "chat-70b", field, by)
                    now = replace(now, deployment=deployment, models=(_as(now.models[0], deployment), now.models[1]))
                    steps += 1
            assert steps < 200


def _as(model, deployment):
    """The model with the launch's new values, without counting anything again."""
    from engine_probe.memory.accounting_values import values_of

    launch = deployment.models[0]
    return replace(
        model, launch=launch, worst=None, gpus=launch.gpus, asked=replace(model.asked, values=values_of(launch))
    )


def test_a_share_between_hundredths_goes_to_the_next(plan):
    deployment = replace(
        plan.deployment,
        models=(plan.deployment.models[0].with_arg("gpu-memory-utilization", 0.905), plan.deployment.models[1]),
    )
    odd = replace(plan, deployment=deployment, models=(_as(plan.models[0], deployment), plan.models[1]))
    assert stepped(odd, "chat-70b", "utilization", 1).models[0].arg("gpu-memory-utilization") == 0.91
    assert stepped(odd, "chat-70b", "utilization", -1).models[0].arg("gpu-memory-utilization") == 0.9


def test_changes_are_named_as_revisions_take_them(plan):
    before = plan.deployment
    after = moved(with_gpus(stepped(plan, "code-8b", "utilization", -1), "code-8b", (4,)), "code-8b", -1)
    assert changes_between(before, after) == (
        Changed("code-8b", "gpus", (4,)),
        Changed("code-8b", "args.gpu-memory-utilization", 0.89),
        Changed(None, "deployment.order", ("code-8b", "chat-70b")),
    )
    assert write_changes(before.path, before, changes_between(before, after)).after == after
    assert changes_between(after, after) == ()


@pytest.mark.parametrize(("text", "gpus"), [("0-3", (0, 1, 2, 3)), ("6, 0–1", (6, 0, 1)), (" 7 ", (7,))])
def test_gpus_as_people_write_them(text, gpus):
    assert gpus_in(text, range(8)) == gpus


@pytest.mark.parametrize("text", ["", "8", "3-1", "-1", "0-99999999", "0,0", "²", "a"])
def test_what_are_no_gpus(text):
    with pytest.raises(CannotStepError):
        gpus_in(text, range(8))
