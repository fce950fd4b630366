"""Pictures of the memory plan with hand-made numbers, so that they change with the screen alone.

After a wanted change: look at the report, then `pytest tests/test_plan_screen_snapshots.py --snapshot-update`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine_probe.memory.accounting import Asked
from engine_probe.memory.accounting_kv import Room
from engine_probe.memory.accounting_result import Parts, RankMemory
from engine_probe.memory.accounting_values import Batch, values_of
from engine_probe.memory.estimates import Estimate
from engine_probe.memory.limits import WhyNot
from playbooks.placement import PlacedModel, Plan
from playbooks.placement_host import HostNeeds
from tests.plan_samples import EIGHT, SIX, console, plan_of, write_plan
from tests.tui_samples import until, until_still
from tui import plan_inputs, plan_proposed
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.plan_advice import Proposed

WEIGHTS = {"chat-70b": 32.9, "code-8b": 15.0, "lite-moe": 29.3, "tiny": 0.9, "vision-27b": 25.9, "tiny-too": 0.9}
CARD = 79.25
CASES = [
    ((80, 24), UNICODE, ()),
    ((120, 36), UNICODE, ()),
    ((200, 50), UNICODE, ()),
    ((120, 36), ASCII, ()),
    ((120, 36), UNICODE, ("T",)),
    ((120, 36), UNICODE, ("minus", "O")),
    ((120, 36), UNICODE, ("p", "enter")),
    ((120, 36), UNICODE, ("d",)),
    ((80, 24), UNICODE, ("g",)),
]


def about(value: float, spread: float = 0.0, source: str = "computed: by hand") -> Estimate:
    return Estimate(value, value - spread, value + spread, source)


def memory_of(launch) -> RankMemory:
    share, length = float(launch.arg("gpu-memory-utilization") or 0.9), int(launch.arg("max-model-len") or 32768)
    weights, budget = WEIGHTS[launch.name], CARD * share
    pool = budget - weights - 0.75
    parts = Parts(
        weights=about(weights, 0.2, "computed: config.json; rank 0"),
        activation=about(0.5, 0.1, "computed: profile run of 2048 tokens and 256 requests"),
        graphs=about(0.6, 0.1, "computed: 51 sizes up to 512"),
        graphs_in_budget=about(0.0),
        non_torch=about(0.25, 0.2, "declared: by hand"),
        context=about(0.5, 0.1, "declared: by hand"),
        stranded=about(0.0),
        sampler=about(0.1),
    )
    return RankMemory(
        rules="vLLM 0.19.0 by hand",
        total_gib=CARD,
        utilization=share,
        parts=parts,
        batch=Batch(256, 2048, "declared: by hand"),
        budget=about(budget),
        kv_pool=about(pool, 1.0, "computed: what is left"),
        pool_is_fixed=False,
        taken_gib=0.0,
        free_at_start=about(CARD),
        after_profile=about(CARD - weights),
        after_warm_up=about(3.0),
        max_len=length,
        fits_length=False,
        caches_anything=True,
        room=Room(131072, 16, int(pool * 512), int(pool * 8192), pool * 8192 / length, 0.5, True, 32768),
    )


def by_hand(deployment, shapes, cards, version, *_how):
    """Every share that is asked for is taken, in start order, until a GPU is full."""
    taken = {card.index: 0.0 for card in cards}
    models = []
    for launch in deployment.models:
        memory = memory_of(launch)
        wanted = memory.budget.value + 1.1
        free = min(CARD - taken[gpu] for gpu in launch.gpus)
        text = f"{memory.budget.value:.1f} GiB must be free at the start, and {free:.1f} GiB are"
        why_not = WhyNot("co-located-models-budgets-exceed-gpu", text) if wanted > free else None
        for gpu in launch.gpus if why_not is None else ():
            taken[gpu] += wanted
        asked = Asked(values_of(launch), shapes[launch.name], version)
        models.append(PlacedModel(launch, asked, launch.gpus, dict.fromkeys(launch.gpus, memory), memory, why_not))
    needs = HostNeeds(about(37.0), about(1.8))
    return Plan(deployment, tuple(cards), version, tuple(models), needs, ("the notes of a plan stand here",))


def proposal(plan):
    return Proposed(
        _smaller(plan.deployment),
        (("tiny-too: gpu-memory-utilization 0.25", "21.3 GiB are free on GPU 4; it costs: 8.0 GiB of KV cache"),),
        alternatives=("tiny-too: an FP8 KV cache, then it starts",),
    )


def _smaller(deployment):
    smaller = deployment.launch("tiny-too").with_arg("gpu-memory-utilization", 0.25)
    return replace(deployment, models=tuple(smaller if one.name == "tiny-too" else one for one in deployment.models))


@pytest.fixture(autouse=True)
def _fixed(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(plan_inputs, "plan_of", by_hand)
    monkeypatch.setattr(plan_proposed, "proposed_for", proposal)


def name_of(case):
    (width, height), glyphs, keys = case
    return "-".join([f"{width}x{height}", *(["ascii"] if glyphs is ASCII else []), *keys])


@pytest.mark.parametrize(("size", "glyphs", "keys"), CASES, ids=map(name_of, CASES))
def test_plan(snap_compare, tmp_path, monkeypatch, size, glyphs, keys):
    monkeypatch.chdir(tmp_path)

    async def before(pilot):
        screen = await plan_of(pilot)
        await until(pilot, lambda: screen.proposed is not None)
        await pilot.press(*keys)
        await until(pilot, lambda: screen.proposed is not None or screen.state.plan.fits)
        await until_still(pilot)

    write_plan(tmp_path, SIX)
    app = console(Path("deployment.yaml"), EIGHT, glyphs=glyphs)
    assert snap_compare(app, terminal_size=size, run_before=before)


def test_what_cannot_be_read(snap_compare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def before(pilot):
        await plan_of(pilot)

    write_plan(tmp_path, SIX)
    monkeypatch.setattr(plan_inputs, "model_folder", lambda launch: Path(launch.model).relative_to(tmp_path))
    Path("lite/config.json").write_text("{", encoding="utf-8")
    app = console(Path("deployment.yaml"), EIGHT)
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)
