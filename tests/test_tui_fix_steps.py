"""A fix in steps in the wizard: each step with its difference, no value to edit, and all of it in the question."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playbooks import decisions as decide
from playbooks.session import FixStep, Step
from tests import tui_samples as samples
from tests.test_tui_console import body_of, keys_of, wizard_at
from tests.tui_samples import FakeRun, backend, replaying, until
from tui.app import ConsoleApp
from tui.screens.dialogs import Confirm
from tui.widgets.words import Words


def step_of(launch: str, key: str, *promises: str) -> FixStep:
    title = f"{key} of {launch}: 0.8 → 0.47"
    diff = (f"   {launch}:", f"-  args.{key}: 0.8", f"+  args.{key}: 0.47")
    return FixStep(launch, f"args.{key}", "0.8", "0.47", title, diff, ("load.is_serving is true",), promises)


STEPS = (
    step_of("chat", "gpu-memory-utilization", "the model serves: yes"),
    step_of("tiny", "gpu-memory-utilization", "the model serves: yes"),
)
ALIKE = replace(
    samples.LOWER,
    id="share-the-card-alike",
    launch=None,
    key="steps",
    new_value="",
    title="gpu-memory-utilization of chat: 0.8 → 0.47, then of tiny: 0.8 → 0.47 (2 steps)",
    diff=(*STEPS[0].diff, *STEPS[1].diff),
    why="Both models then have an equal share.",
    promises=("the model serves: yes",),
    steps=STEPS,
)
SESSION = replace(samples.TESTED, step=Step.FIX, fixes=(ALIKE, samples.LOWER))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_steps_stand_one_under_the_other(size):
    app = ConsoleApp(backend(replaying(SESSION)), start="wizard")
    async with app.run_test(size=size) as pilot:
        screen = await wizard_at(pilot, SESSION)
        await pilot.press("right")
        await until(pilot, lambda: screen.shown is Step.FIX, 20)
        body = body_of(app)
        assert body.index("1 of 2  ") < body.index("of chat: 0.8 → 0.47", body.index("1 of 2  "))
        assert body.index("1 of 2  ") < body.index("2 of 2  ") < body.index("Both models then have an equal share.")
        assert "+  args.gpu-memory-utilization: 0.47" in body
        assert "v edit value" not in keys_of(app)
        await pilot.press("down")
        await until(pilot, lambda: "1 of 2  " not in body_of(app))


async def test_the_question_shows_the_steps_and_the_decision_is_the_fix():
    run = FakeRun([(SESSION, None)], samples.whole_case)
    app = ConsoleApp(backend(run), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await wizard_at(pilot, SESSION)
        await pilot.press("right")
        await until(pilot, lambda: screen.shown is Step.FIX, 20)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and app.screen.query("#about"))
        about = app.screen.query_one("#about", Words).shown.plain
        assert "1 of 2  " in about
        assert "2 of 2  " in about
        await pilot.press("enter")
        await until(pilot, lambda: decide.ApplyFix(ALIKE.id, None) in run.decided)
