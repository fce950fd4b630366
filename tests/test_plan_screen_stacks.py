"""What a GPU's bar is made of: others first, then models by purpose, then what does not fit; cells add up."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.facts import Unknown
from engine_probe.memory.estimates import exact
from tests.plan_samples import EIGHT, RELEASE, SIX, write_plan
from tui import actions
from tui.actions import Moment, PlanMoment
from tui.plan_inputs import inputs_of
from tui.screens.plan_layout import PANES, heights
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.plan_gpus import draw_plan_gpus
from tui.widgets.plan_stacks import cells_of, draw_stack, stacks_of
from tui.widgets.row_pane import cells_of as width_of
from tui.widgets.row_pane import plain_of


@pytest.fixture
def inputs(tmp_path):
    return inputs_of(read_deployment(write_plan(tmp_path, SIX)), EIGHT, RELEASE)


def with_others(inputs, *amounts):
    cards = [replace(card, others_gib=amount) for card, amount in zip(inputs.cards, amounts, strict=False)]
    return replace(inputs, cards=(*cards, *inputs.cards[len(cards) :]))


def test_parts_add_up_to_what_the_plan_says_is_held(inputs):
    stacks = stacks_of(inputs.plan())
    assert [part.purpose for part in stacks[4].parts] == ["weights", "rest", "pool"] * 3
    assert [holder.name for holder in stacks[4].holders] == ["code-8b", "tiny", "tiny-too"]
    assert stacks[4].used_gib == pytest.approx(sum(one.gib for one in stacks[4].holders if one.fits))
    assert stacks[4].is_too_full
    lacking = stacks[4].holders[-1]
    assert lacking.lacks_gib == pytest.approx(stacks[4].used_gib + lacking.gib - stacks[4].total_gib)


def test_other_processes_come_first_and_push_models_over(inputs):
    stack = stacks_of(with_others(inputs, exact(20.0, "measured: by hand")).plan())[0]
    assert stack.parts[0].purpose == "others"
    assert stack.is_too_full
    bar = plain_of(draw_stack(stack, 40, UNICODE))
    assert bar.startswith("╳" * 10 + "1")
    assert bar.endswith("!")
    assert len(bar) == 40
    assert plain_of(draw_stack(stack, 40, ASCII)).startswith("x" * 10 + "1#")


def test_what_others_hold_is_not_known_and_its_reason_is_told(inputs):
    plan = with_others(inputs, Unknown("the driver does not say")).plan()
    stacks = stacks_of(plan)
    assert stacks[0].others == "the driver does not say"
    row = draw_plan_gpus(stacks, on_cpu=False, width=160, glyphs=UNICODE).rows[0]
    assert "others ? the driver does not say" in plain_of(row)


def test_neighbours_that_hold_the_same_are_joined_and_others_are_not(inputs):
    joined = stacks_of(inputs.plan(), joins_alike=True)
    assert [(one.first, one.last) for one in joined] == [(0, 3), (4, 4), (5, 5), (6, 7)]
    odd = with_others(inputs, exact(0.0, ""), exact(1.0, "measured: by hand"))
    assert [(one.first, one.last) for one in stacks_of(odd.plan(), joins_alike=True)][:3] == [(0, 0), (1, 1), (2, 3)]


def test_workers_on_cpus_share_the_hosts_memory(tmp_path):
    path = write_plan(tmp_path, "models: [{name: a, model: ./qwen, args: {tensor-parallel-size: 2}}]")
    one = inputs_of(read_deployment(path), "cpu-64GB", "0.32.0+cpu")
    (stack,) = stacks_of(one.plan())
    memory = one.plan().models[0].worst
    weights = next(part.gib for part in stack.parts if part.purpose == "weights")
    assert weights == pytest.approx(2 * memory.parts.weights.value)


@pytest.mark.parametrize("width", [1, 7, 40, 200])
@pytest.mark.parametrize("sizes", [(), (80.0,), (0.1,) * 9, (30.0, 30.0, 30.0), (1e12, 1.0), (-5.0, 10.0)])
def test_a_bar_never_has_more_cells_than_its_width(sizes, width):
    cells = cells_of(sizes, 80.0, width)
    assert all(count >= 0 for count in cells)
    assert sum(cells) <= width
    assert cells_of(sizes, 0.0, width) == [0] * len(sizes)


@pytest.mark.parametrize("width", [30, 60, 76, 116, 196])
def test_rows_are_never_wider_than_their_pane(inputs, width):
    content = draw_plan_gpus(stacks_of(inputs.plan()), on_cpu=False, width=width, glyphs=UNICODE)
    assert all(width_of(row) <= width for row in content.rows)


@pytest.mark.parametrize("height", range(40))
def test_panes_get_no_more_rows_than_there_are_and_none_that_they_do_not_fill(height):
    for wanted in itertools.product((1, 2, 9, 17), repeat=len(PANES)):
        given = heights(dict(zip(PANES, wanted, strict=True)), height)
        assert sum(given.values()) <= height
        assert all(given[pane] <= rows for pane, rows in zip(PANES, wanted, strict=True))
        assert sum(given.values()) == min(height, sum(wanted))


def test_no_key_means_two_things_at_once():
    names = [one.name for one in fields(PlanMoment)]
    for values in itertools.product((False, True), repeat=len(names)):
        moment = Moment(place="plan", plan=PlanMoment(**dict(zip(names, values, strict=True))))
        keys = [key for action in actions.available(moment) for key in action.key.split(",")]
        assert sorted(keys) == sorted(set(keys))
