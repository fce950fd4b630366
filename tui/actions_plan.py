"""What can be done on the memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.action import Action

if TYPE_CHECKING:
    from tui.action import Moment, Place

_PLAN: tuple[Place, ...] = ("plan",)


def _has_plan(moment: Moment) -> bool:
    return moment.plan.is_read


def _can_save_plan(moment: Moment) -> bool:
    return moment.plan.is_read and (moment.plan.is_changed or moment.plan.has_proposal)


def _has_order(moment: Moment) -> bool:
    return moment.plan.is_read and moment.plan.has_several


PLAN_ACTIONS: tuple[Action, ...] = (
    Action("more", "plus,equals_sign", "+", "more", "The chosen value of the marked model one step up", _PLAN,
           _has_plan),
    Action("less", "minus,underscore", "−", "less", "The chosen value of the marked model one step down", _PLAN,
           _has_plan),
    Action("save_plan", "enter,w", "enter", "save", "Show what differs from the file or is proposed, ask, then save it",
           _PLAN, _can_save_plan),
    Action("try_proposal", "p", "p", "proposal", "Show the plan with all that is proposed", _PLAN,
           lambda m: m.plan.is_read and m.plan.has_proposal),
    Action("choose_utilization", "u", "u", "util", "Let + and − change the share of the GPUs: gpu-memory-utilization",
           _PLAN, _has_plan),
    Action("choose_length", "l", "l", "length", "Let + and − change the length: max-model-len", _PLAN, _has_plan),
    Action("choose_tp", "t", "t", "tp", "Let + and − double or halve tensor-parallel-size; GPUs go with it", _PLAN,
           _has_plan),
    Action("choose_sequences", "s", "s", "seqs", "Let + and − change the requests at once: max-num-seqs", _PLAN,
           _has_plan),
    Action("plan_gpus", "g", "g", "GPUs", "Write which GPUs the marked model gets; + and − move them by one", _PLAN,
           _has_plan),
    Action("later", "o", "o", "later", "The marked model starts one place later", _PLAN, _has_order),
    Action("earlier", "O", "O", "earlier", "The marked model starts one place earlier", _PLAN, _has_order,
           in_footer=False),
    Action("step_back", "z", "z", "undo", "Take the last change back", _PLAN, lambda m: m.plan.can_step_back),
    Action("undo_saved", "z", "z", "undo saving", "Give the file the content that it had before it was saved", _PLAN,
           lambda m: m.plan.can_undo and not m.plan.can_step_back),
    Action("reset_plan", "r", "r", "reset", "All values as the file has them", _PLAN,
           lambda m: m.plan.is_read and m.plan.is_changed),
    Action("plan_details", "d", "d", "details", "All numbers of the marked model, with ranges and sources", _PLAN,
           _has_plan),
    Action("value_left", "left", "←", "value before", "Choose the value to the left", _PLAN, _has_plan,
           in_footer=False),
    Action("value_right", "right", "→", "value behind", "Choose the value to the right", _PLAN, _has_plan,
           in_footer=False),
    Action("hardware", "h", "h", "hardware", "Plan for other GPUs, such as 8xA100-80GB, or for this host", _PLAN),
    Action("release", "v", "v", "release", "Plan for another release of vLLM", _PLAN),
    Action("other_file", "c", "c", "other file", "Plan another deployment file", _PLAN, in_footer=False),
    Action("read_again", "R", "R", "read again", "Read the file, the models and the GPUs again", _PLAN,
           in_footer=False),
    Action("bare_plan", "b", "b", "bare", "The plan as text alone, for the mouse to select", _PLAN,
           in_footer=False),
    Action("plan_theme", "T", "T", "light or dark", "Dark letters on light, or light ones on dark", _PLAN,
           in_footer=False),
)  # fmt: skip
