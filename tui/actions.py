"""The one registry of actions: bindings, footer, help and the command palette all read it.

An action is offered only while `available` says so of the moment; nothing else decides what a key may do.
"""

from __future__ import annotations

from textual.binding import Binding

from tui.action import Action as Action  # noqa: PLC0414 -- re-exported, as those below
from tui.action import ListMoment as ListMoment  # noqa: PLC0414
from tui.action import Moment as Moment  # noqa: PLC0414
from tui.action import MonitorMoment as MonitorMoment  # noqa: PLC0414
from tui.action import Place as Place  # noqa: PLC0414
from tui.action import PlanMoment as PlanMoment  # noqa: PLC0414
from tui.action import WizardMoment as WizardMoment  # noqa: PLC0414
from tui.actions_logs import LOG_ACTIONS
from tui.actions_monitor import MONITOR_ACTIONS
from tui.actions_plan import PLAN_ACTIONS
from tui.actions_wizard import WIZARD_ACTIONS

_EVERYWHERE: tuple[Place, ...] = (
    "monitor", "start", "wizard", "report", "help", "logs", "diagnosis", "plan", "playbooks", "cases", "recorded",
)  # fmt: skip
_TABBED: tuple[Place, ...] = ("monitor", "start", "plan", "playbooks", "cases")
_READ: tuple[Place, ...] = (
    "monitor",
    "wizard",
    "report",
    "logs",
    "diagnosis",
    "plan",
    "playbooks",
    "cases",
    "recorded",
)


def _without(*places: Place) -> tuple[Place, ...]:
    return tuple(place for place in _TABBED if place not in places)


def _is_reading(moment: Moment) -> bool:
    return not moment.filtering


_TABS: tuple[Action, ...] = (
    Action("tab_monitor", "1", "1", "monitor", "Go back to the monitor", _without("monitor"), in_footer=False),
    Action("tab_logs", "2", "2", "logs", "Open a log file", _TABBED, in_footer=False),
    Action("tab_wizard", "3", "3", "wizard", "Find out why a model does not load, mend it, and prove it",
           _without("start"), in_footer=False),
    Action("tab_plan", "4", "4", "plan", "See whether models fit on the GPUs together, before anything is loaded",
           _without("plan"), in_footer=False),
    Action("tab_playbooks", "5", "5", "playbooks", "What the console knows: each root cause with its fixes",
           _without("playbooks"), in_footer=False),
    Action("tab_cases", "6", "6", "cases", "What was diagnosed and mended before, and what was cut off",
           _without("cases"), in_footer=False),
)  # fmt: skip
_COMMON: tuple[Action, ...] = (
    Action("copy", "y", "y", "copy", "Copy what is shown to the terminal's clipboard and to a file",
           _READ, _is_reading),
    Action("export", "e", "e", "export", "Write what is shown to a file, whose path is said",
           _READ, _is_reading),
    Action("back", "escape", "esc", "back",
           "Close what is open, else back a step; from the first, ask to leave the case",
           ("start", "wizard", "report", "help", "diagnosis", "plan", "playbooks", "cases", "recorded")),
    Action("theme", "t", "t", "light or dark", "Change between the dark and the light theme",
           tuple(place for place in _EVERYWHERE if place != "plan"), in_footer=False),
    Action("help", "question_mark", "?", "help", "All keys, and what the words mean",
           (*_READ, "start")),
    Action("palette", "colon", ":", "commands", "Find an action by its name",
           (*_READ, "start")),
    Action("quit", "q", "q", "quit", "Leave; a load that runs is ended cleanly first", _EVERYWHERE),
)  # fmt: skip
ACTIONS: tuple[Action, ...] = (*MONITOR_ACTIONS, *PLAN_ACTIONS, *_TABS, *WIZARD_ACTIONS, *LOG_ACTIONS, *_COMMON)


def by_id(action_id: str) -> Action:
    return next(action for action in ACTIONS if action.id == action_id)


def available(moment: Moment) -> tuple[Action, ...]:
    """What can be done at `moment`, in footer order."""
    return tuple(action for action in ACTIONS if moment.place in action.places and action.available(moment))


def is_available(action_id: str, moment: Moment) -> bool:
    action = by_id(action_id)
    return moment.place in action.places and action.available(moment)


def bindings(place: Place) -> list[Binding]:
    """A screen's bindings; several actions may share a key, the available one answers."""
    return [
        Binding(action.key, f"do('{action.id}')", action.label, tooltip=action.tooltip, key_display=action.shown_key)
        for action in ACTIONS
        if place in action.places
    ]
