"""The one registry of actions: bindings, footer, help and the command palette all read it.

An action is offered only while `available` says so of the moment; nothing else decides what a key may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.binding import Binding

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.session import FixOption, Hypothesis, Session, Step

Place = Literal["monitor", "start", "wizard", "report", "help", "logs", "diagnosis", "plan"]


@dataclass(frozen=True)
class MonitorMoment:
    """What is marked on the monitor, and what it offers."""

    is_alert: bool = False
    has_facts: bool = False
    has_log: bool = False
    can_end: bool = False
    shows_processes: bool = False
    is_filtered: bool = False
    is_paused: bool = False
    is_bare: bool = False


@dataclass(frozen=True)
class PlanMoment:
    """What the memory plan shows, and what it offers."""

    is_read: bool = False
    is_changed: bool = False
    """Something differs from the file."""
    can_step_back: bool = False
    can_undo: bool = False
    """Something was saved that can be taken back."""
    has_proposal: bool = False
    has_several: bool = False
    is_bare: bool = False


@dataclass(frozen=True)
class Moment:
    """What a person looks at now; all that decides which actions are available."""

    place: Place
    session: Session | None = None
    shown: Step | None = None
    """Of the wizard."""
    hypothesis: Hypothesis | None = None
    fix: FixOption | None = None
    over: bool = False
    """The case has ended: nothing can be decided any more."""
    log_paused: bool = False
    memory_folded: bool = True
    filtering: bool = False
    """The next letter chooses what the log viewer shows."""
    has_search: bool = False
    has_several: bool = False
    """Several logs are shown, merged."""
    fold: Literal["open", "closed"] | None = None
    """The traceback that `enter` would close or open."""
    has_folds: bool = False
    has_models: bool = False
    """The log tells of more than one model."""
    is_bare: bool = False
    """Nothing but the text of a log is shown."""
    is_inner: bool = False
    """The log viewer lies over the screen that opened it."""

    can_jump: bool = False
    """A line of a log is marked in its diagnosis."""
    monitor: MonitorMoment = MonitorMoment()
    plan: PlanMoment = PlanMoment()


@dataclass(frozen=True)
class Action:
    """`key` as Textual names it, `shown_key` as a person reads it; `label` for the footer, `tooltip` a sentence."""

    id: str
    key: str
    shown_key: str
    label: str
    tooltip: str
    places: tuple[Place, ...]
    available: Callable[[Moment], bool] = lambda _moment: True
    in_footer: bool = True
    step: str = ""
    """The step in which the key means this, where it means something else in others; for the help."""
    group: Literal["", "filter", "move"] = ""
    """Under which heading the help has it, where a place has several."""


def _in_wizard(condition: str) -> Callable[[Moment], bool]:
    """One of tui/wizard_conditions.py."""

    def holds(moment: Moment) -> bool:
        from tui.wizard_conditions import CONDITIONS  # noqa: PLC0415 -- the first screen needs nothing of a case

        return CONDITIONS[condition](moment)

    return holds


def _has_report(moment: Moment) -> bool:
    return moment.session is not None and bool(moment.session.report_path)


_WIZARD: tuple[Place, ...] = ("wizard",)
_LOGS: tuple[Place, ...] = ("logs",)
_MONITOR: tuple[Place, ...] = ("monitor",)
_PLAN: tuple[Place, ...] = ("plan",)
_EVERYWHERE: tuple[Place, ...] = ("monitor", "start", "wizard", "report", "help", "logs", "diagnosis", "plan")


def _is_reading(moment: Moment) -> bool:
    return not moment.filtering


def _is_filtering(moment: Moment) -> bool:
    return moment.filtering


def _has_something_to_end(moment: Moment) -> bool:
    return moment.filtering or moment.has_search or moment.is_bare


def _can_find_next(moment: Moment) -> bool:
    return moment.has_search


def _can_choose_model(moment: Moment) -> bool:
    return moment.filtering and moment.has_models


def _has_plan(moment: Moment) -> bool:
    return moment.plan.is_read


def _can_save_plan(moment: Moment) -> bool:
    return moment.plan.is_read and (moment.plan.is_changed or moment.plan.has_proposal)


def _has_order(moment: Moment) -> bool:
    return moment.plan.is_read and moment.plan.has_several


def _shows_processes(moment: Moment) -> bool:
    return moment.monitor.shows_processes


ACTIONS: tuple[Action, ...] = (
    Action("what_to_do", "enter", "enter", "what to do", "What the marked alert means and what can be done about it",
           _MONITOR, lambda m: m.monitor.is_alert),
    Action("facts", "enter", "enter", "details", "All that is known of the marked row, each value with its source",
           _MONITOR, lambda m: m.monitor.has_facts and not m.monitor.is_alert),
    Action("pause_monitor", "space", "space", "pause", "Keep the picture as it is; readings go on being kept", _MONITOR,
           lambda m: not m.monitor.is_paused),
    Action("go_on", "space", "space", "go on", "Show readings as they come again", _MONITOR,
           lambda m: m.monitor.is_paused),
    Action("end_process", "k", "k", "end process", "Show what the marked process is, ask, then end it", _MONITOR,
           lambda m: m.monitor.can_end),
    Action("why_not_end", "k", "k", "end process", "Say why what is marked cannot be ended from here", _MONITOR,
           lambda m: not m.monitor.can_end, in_footer=False),
    Action("model_log", "d", "d", "log", "Open the log of the marked model", _MONITOR, lambda m: m.monitor.has_log),
    Action("sort", "s", "s", "sort", "Sort the processes by the next column: tree, GPU memory, RSS, CPU, since, pid",
           _MONITOR, _shows_processes),
    Action("reverse", "S", "S", "reverse", "Turn the order of the processes round", _MONITOR, _shows_processes,
           in_footer=False),
    Action("filter_processes", "f,slash", "f /", "filter", "Show only the processes that have the words you write",
           _MONITOR, _shows_processes),
    Action("unfilter", "escape", "esc", "done", "Show all processes again, or leave bare mode", _MONITOR,
           lambda m: m.monitor.is_filtered or m.monitor.is_bare),
    Action("pane_gpus", "g", "g", "GPUs", "Fold the GPUs to one line, or open them", _MONITOR, in_footer=False),
    Action("pane_host", "h", "h", "host", "Fold the host to one line, or open it", _MONITOR),
    Action("pane_models", "m", "m", "models", "Fold the models to one line, or open them", _MONITOR, in_footer=False),
    Action("pane_alerts", "a", "a", "alerts", "Fold the alerts to one line, or open them", _MONITOR, in_footer=False),
    Action("pane_processes", "p", "p", "processes", "Fold the processes to one line, or open them", _MONITOR),
    Action("slower", "plus,equals_sign", "+", "slower", "Read less often, up to once a minute", _MONITOR,
           in_footer=False),
    Action("faster", "minus", "−", "faster", "Read more often, up to twice a second", _MONITOR, in_footer=False),
    Action("bare_monitor", "b", "b", "bare", "Nothing but text that stands still, for the mouse to select", _MONITOR,
           in_footer=False),
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
    Action("tab_monitor", "1", "1", "monitor", "Go back to the monitor", ("start", "plan"), in_footer=False),
    Action("tab_logs", "2", "2", "logs", "Open a log file", ("monitor", "start", "plan"), in_footer=False),
    Action("tab_wizard", "3", "3", "wizard", "Find out why a model does not load, mend it, and prove it",
           ("monitor", "plan"), in_footer=False),
    Action("tab_plan", "4", "4", "plan", "See whether models fit on the GPUs together, before anything is loaded",
           ("monitor", "start"), in_footer=False),
    Action("choose", "enter", "enter", "choose", "Take the marked choice", ("start",)),
    Action("run_experiment", "enter", "enter", "run experiment", "Try to refute the marked claim", _WIZARD,
           _in_wizard("test"), step="2"),
    Action("apply_fix", "enter", "enter", "apply and verify", "Show the difference, ask, then apply and load again",
           _WIZARD, _in_wizard("apply"), step="3"),
    Action("keep", "enter", "enter", "keep and report", "Keep the fix, write the report, end what runs", _WIZARD,
           _in_wizard("keep"), step="4"),
    Action("next_step", "enter", "enter", "next step", "Look at the step after this one", _WIZARD,
           _in_wizard("advance"), step="1, 2"),
    Action("edit_value", "v", "v", "edit value", "Choose another value for the marked fix", _WIZARD,
           _in_wizard("edit")),
    Action("undo", "u", "u", "undo the fix", "Go back to the deployment as it was before the fix", _WIZARD,
           _in_wizard("undo")),
    Action("finish", "w", "w", "write report", "End the case as it is and write its report", _WIZARD,
           _in_wizard("finish")),
    Action("report", "r", "r", "report", "Read the report of this case", _WIZARD, _has_report),
    Action("stop", "x", "x", "stop load", "End what runs now; the case stays open", _WIZARD,
           _in_wizard("stop")),
    Action("left", "left", "←", "back a step", "Look back at the step before", _WIZARD, _in_wizard("go back"),
           in_footer=False),
    Action("right", "right", "→", "step on", "Look at the step after, as far as the case has come", _WIZARD,
           _in_wizard("go on"), in_footer=False),
    Action("pause_log", "space", "space", "pause log", "Stop following the log; it goes on being collected", _WIZARD,
           lambda m: not m.log_paused),
    Action("follow_log", "space", "space", "follow log", "Follow the end of the log again", _WIZARD,
           lambda m: m.log_paused),
    Action("log_big", "l", "l", "log", "Give the log the whole screen, with filters and search", _WIZARD),
    Action("memory_big", "m", "m", "memory", "Show host and GPU memory in full, or fold them", _WIZARD,
           lambda m: m.memory_folded),
    Action("done", "escape", "esc", "done", "Take letters as keys again, leave bare mode, or end the search", _LOGS,
           _has_something_to_end),
    Action("close_log", "escape", "esc", "back", "Back to the case, whose log this is", _LOGS,
           lambda m: m.is_inner and not _has_something_to_end(m)),
    Action("level", "l", "l", "level", "Show warnings and errors only, then errors only, then all", _LOGS,
           _is_filtering, group="filter"),
    Action("stage", "s", "s", "stage", "Show one load stage only, the next one at each press", _LOGS,
           _is_filtering, group="filter"),
    Action("model", "d", "d", "model", "Show the loads of one model only, the next one at each press", _LOGS,
           _can_choose_model, group="filter"),
    Action("show_all", "a", "a", "all", "Show all lines again", _LOGS,
           _is_filtering, group="filter"),
    Action("layer_f", "f", "f", "frontend", "Show or hide lines of the frontend", _LOGS,
           _is_filtering, group="filter"),
    Action("layer_e", "e", "e", "engine", "Show or hide lines of the engine core", _LOGS,
           _is_filtering, group="filter"),
    Action("layer_w", "w", "w", "worker", "Show or hide lines of the workers", _LOGS,
           _is_filtering, group="filter"),
    Action("layer_m", "m", "m", "model runner", "Show or hide lines of the model runner", _LOGS,
           _is_filtering, group="filter"),
    Action("layer_o", "o", "o", "outside", "Show or hide lines from outside vLLM", _LOGS,
           _is_filtering, group="filter"),
    Action("layer_u", "u", "u", "unknown", "Show or hide lines of which no layer is known", _LOGS,
           _is_filtering, group="filter"),
    Action("filter", "f", "f", "filter", "Choose layers, level and stage by a letter", _LOGS, _is_reading),
    Action("find", "slash", "/", "find", "Mark the lines that match a regular expression", _LOGS),
    Action("next_match", "n", "n", "next", "Go to the next line that matches", _LOGS, _can_find_next),
    Action("last_match", "N", "N", "before", "Go to the line before that matches", _LOGS, _can_find_next),
    Action("narrow", "ampersand", "&", "only these", "Show only the lines that match, or the others again", _LOGS,
           _can_find_next, in_footer=False),
    Action("next_error", "exclamation_mark", "!", "error", "Go to the next record of an error", _LOGS),
    Action("last_error", "E", "E", "error before", "Go to the record of an error before this one", _LOGS,
           in_footer=False),
    Action("open_fold", "enter", "enter", "open", "Show all lines of the marked traceback, or of the first one seen",
           _LOGS, lambda m: m.fold == "closed"),
    Action("close_fold", "enter", "enter", "close", "Fold the marked traceback, or the first one seen, to its cause",
           _LOGS, lambda m: m.fold == "open"),
    Action("diagnose", "d", "d", "diagnose", "Say why a load failed: causes, the lines that prove them, fixes", _LOGS,
           _is_reading),
    Action("next_cause", "c", "c", "cause", "Go to the root cause of the next load that failed", _LOGS,
           _is_reading),
    Action("go_to_line", "enter", "enter", "go to line", "Go to the marked line in the log", ("diagnosis",),
           lambda m: m.can_jump),
    Action("fold_all", "z", "z", "all tracebacks", "Open all tracebacks, or fold all to their causes", _LOGS,
           lambda m: m.has_folds, in_footer=False),
    Action("next_stage", "g", "g", "stage", "Go to the line at which the next load stage begins", _LOGS),
    Action("goto", "G", "G", "go to", "Go to a line by its number, or to a time: 10:11, 03-02 10:11", _LOGS),
    Action("merge", "m", "m", "merge", "Show the first log alone, the next one at each press, then all again", _LOGS,
           lambda m: m.has_several and not m.filtering),
    Action("raw", "r", "r", "raw", "Show lines as they were printed, or in columns again", _LOGS),
    Action("wrap", "w", "w", "wrap", "Fold long lines so that all of them is seen, or cut them again", _LOGS,
           _is_reading),
    Action("bare", "b", "b", "bare", "Show nothing but the text, for the mouse to select; b again leaves", _LOGS,
           _is_reading),
    Action("pause_view", "space", "space", "pause", "Stay here while the log goes on", _LOGS,
           lambda m: not m.log_paused),
    Action("follow_view", "space", "space", "follow", "Go to the end of the log and stay there", _LOGS,
           lambda m: m.log_paused),
    Action("down", "j", "j", "down", "Scroll down a row; so does ↓", _LOGS, in_footer=False, group="move"),
    Action("up", "k", "k", "up", "Scroll up a row; so does ↑", _LOGS, in_footer=False, group="move"),
    Action("half_down", "ctrl+d", "ctrl+d", "half down", "Scroll down half a page; pgdn a whole one", _LOGS,
           in_footer=False, group="move"),
    Action("half_up", "ctrl+u", "ctrl+u", "half up", "Scroll up half a page; pgup a whole one", _LOGS,
           in_footer=False, group="move"),
    Action("sideways_left", "h", "h", "left", "Scroll left in long lines; so does ←", _LOGS, in_footer=False,
           group="move"),
    Action("sideways_right", "l", "l", "right", "Scroll right in long lines; so does →", _LOGS, _is_reading,
           in_footer=False, group="move"),
    Action("mark_down", "J", "J", "mark next", "Mark the line below, for enter and for n, !, c and g to go on from",
           _LOGS, in_footer=False, group="move"),
    Action("mark_up", "K", "K", "mark before", "Mark the line above; a click marks a line too", _LOGS, in_footer=False,
           group="move"),
    Action("place_before", "left_curly_bracket", "{", "jump back", "Go back to where the last jump began", _LOGS,
           in_footer=False, group="move"),
    Action("place_behind", "right_curly_bracket", "}", "jump again", "Go where the jump led that { took back", _LOGS,
           in_footer=False, group="move"),
    Action("copy", "y", "y", "copy", "Copy what is shown to the terminal's clipboard and to a file",
           ("monitor", "wizard", "report", "logs", "diagnosis", "plan"), _is_reading),
    Action("export", "e", "e", "export", "Write what is shown to a file, whose path is said",
           ("monitor", "wizard", "report", "logs", "diagnosis", "plan"), _is_reading),
    Action("back", "escape", "esc", "back",
           "Close what is open, else back a step; from the first, ask to leave the case",
           ("start", "wizard", "report", "help", "diagnosis", "plan")),
    Action("theme", "t", "t", "light or dark", "Change between the dark and the light theme",
           tuple(place for place in _EVERYWHERE if place != "plan"), in_footer=False),
    Action("help", "question_mark", "?", "help", "All keys, and what the words mean",
           ("monitor", "start", "wizard", "report", "logs", "diagnosis", "plan")),
    Action("palette", "colon", ":", "commands", "Find an action by its name",
           ("monitor", "start", "wizard", "report", "logs", "diagnosis", "plan")),
    Action("quit", "q", "q", "quit", "Leave; a load that runs is ended cleanly first", _EVERYWHERE),
)  # fmt: skip


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
