"""The wizard driven by keys on the real engine: five faults of the lab, each from its symptom to a verified fix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_probe.shared_probe import SharedProbe
from engine_probe.supervisor import Probe
from playbooks.kept_cases import find_case
from playbooks.session import Step
from tests.test_tui_console import body_of, now_of
from tests.tui_samples import until
from tui.app import ConsoleApp
from tui.backend import real_backend
from tui.running import Opening
from tui.screens.dialogs import Confirm
from tui.screens.wizard import WizardScreen

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

LOADED = 300.0
"""Seconds: a first load imports vLLM, and other tests may load beside it."""


async def opened(pilot) -> WizardScreen:
    """The wizard, once its first loads are over and a person decides."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, WizardScreen), 60)
    screen = app.screen
    await until(pilot, lambda: screen.over or screen.session.progress.phase == "deciding", LOADED)
    return screen


async def go_to(pilot, screen, step) -> None:
    """By the arrow keys, as far as the case has come."""
    order = list(Step)
    while screen.shown is not step:
        before = screen.shown
        await pilot.press("right" if order.index(step) > order.index(before) else "left")
        await until(pilot, lambda before=before: screen.shown is not before)


async def apply_marked(pilot, screen) -> None:
    """The fix that the mark stands on, after the question; until it is proved or undone."""
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, Confirm) and pilot.app.screen.query("#about"))
    await pilot.press("enter")
    await until(pilot, lambda: screen.session.applied_fix is not None, 60)
    await until(pilot, lambda: screen.over or screen.session.progress.phase == "deciding", LOADED)


FAULTS = {
    "kv-cache-too-small-for-max-model-len": "kv-cache-too-small-for-max-model-len",
    "batched-tokens-below-max-num-seqs": "batched-tokens-below-max-num-seqs",
    "weights-cut": "safetensors-file-corrupt",
    "lora-rank-above-limit": "lora-rank-exceeds-max",
    "heads-not-divisible-by-tp": "heads-not-divisible-by-tp",
}


async def test_five_faults_are_led_to_a_verified_fix_on_one_warm_engine(engine):
    async with Probe(engine) as probe, SharedProbe(probe) as shared:
        await probe.warm()
        for fault, cause in FAULTS.items():
            async with shared.lease() as lease:
                await lead_to_a_fix(fault, cause, lease)
            assert lease.left_behind == []


async def lead_to_a_fix(fault, cause, lease) -> None:
    real = real_backend()
    on_lease = replace(real, open_case=lambda opening: replace(real.open_case(opening), probe=lease))
    app = ConsoleApp(on_lease, opening=Opening(fault=fault), start="wizard")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, screen, Step.SYMPTOM)
        assert "▸ " in body_of(app)
        assert "Where evidence was looked for" in body_of(app)
        await go_to(pilot, screen, Step.HYPOTHESES)
        assert screen.session.causes[0].id == cause
        await go_to(pilot, screen, Step.FIX)
        await apply_marked(pilot, screen)
        assert screen.session.verdict == "verified", (screen.session.notes, body_of(app))
        await go_to(pilot, screen, Step.VERIFY)
        await pilot.press("enter")
        await until(pilot, lambda: screen.over, 60)
        assert "Verified" in now_of(app)
    assert find_case(real.state, screen.session.case).has_report
