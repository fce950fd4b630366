"""What can be done in a log and in its diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.action import Action

if TYPE_CHECKING:
    from tui.action import Moment, Place

_LOGS: tuple[Place, ...] = ("logs",)


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


LOG_ACTIONS: tuple[Action, ...] = (
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
)  # fmt: skip
