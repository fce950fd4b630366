"""What can be done where a case is chosen, in the wizard, and with cases and playbooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.action import Action

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.action import Moment, Place

_WIZARD: tuple[Place, ...] = ("wizard",)
_LISTS: tuple[Place, ...] = ("playbooks", "cases")


def _in_wizard(condition: str) -> Callable[[Moment], bool]:
    """One of tui/wizard_conditions.py."""

    def holds(moment: Moment) -> bool:
        from tui.wizard_conditions import CONDITIONS  # noqa: PLC0415 -- the first screen needs nothing of a case

        return CONDITIONS[condition](moment)

    return holds


def _has_report(moment: Moment) -> bool:
    return moment.session is not None and bool(moment.session.report_path)


WIZARD_ACTIONS: tuple[Action, ...] = (
    Action("choose", "enter", "enter", "choose", "Take the marked choice", ("start",)),
    Action("run_experiment", "enter", "enter", "run experiment", "Try to refute the marked claim", _WIZARD,
           _in_wizard("test"), step="2"),
    Action("apply_fix", "enter", "enter", "apply and verify", "Show the difference, ask, then apply and load again",
           _WIZARD, _in_wizard("apply"), step="3"),
    Action("keep", "enter", "enter", "keep and report", "Keep the fix, write the report, end what runs", _WIZARD,
           _in_wizard("keep"), step="4"),
    Action("load_again", "enter", "enter", "load again", "Begin the loads again that were stopped", _WIZARD,
           _in_wizard("load again"), step="1"),
    Action("next_step", "enter", "enter", "next step", "Look at the step after this one", _WIZARD,
           _in_wizard("advance"), step="1, 2"),
    Action("all_causes", "a", "a", "all causes", "Show the less likely causes and claims too", _WIZARD,
           lambda m: m.wizard.has_more_causes and not m.wizard.shows_all),
    Action("likeliest", "a", "a", "likeliest", "Show the likeliest causes and claims alone", _WIZARD,
           lambda m: m.wizard.has_more_causes and m.wizard.shows_all),
    Action("all_fixes", "a", "a", "all fixes", "Show also the fixes that are not possible here, and why", _WIZARD,
           lambda m: m.wizard.has_more_fixes and not m.wizard.shows_all),
    Action("possible_fixes", "a", "a", "possible fixes", "Show the fixes that are possible alone", _WIZARD,
           lambda m: m.wizard.has_more_fixes and m.wizard.shows_all),
    Action("edit_value", "v", "v", "edit value", "Choose another value for the marked fix", _WIZARD,
           _in_wizard("edit")),
    Action("say_why_no_edit", "v", "v", "why no value", "Say why the marked fix takes no other value now", _WIZARD,
           _in_wizard("no edit"), in_footer=False),
    Action("say_why_no_fix", "enter", "enter", "why not", "Say why the marked fix cannot be applied now", _WIZARD,
           _in_wizard("no apply"), in_footer=False, step="3"),
    Action("skip_fix", "s", "s", "skip", "Leave the marked fix out; the same key takes it in again", _WIZARD,
           _in_wizard("skip")),
    Action("unskip_fix", "s", "s", "do not skip", "Take the marked fix in again", _WIZARD, _in_wizard("unskip")),
    Action("undo", "u", "u", "undo the fix", "Go back to the deployment as it was before the fix", _WIZARD,
           _in_wizard("undo")),
    Action("write_deployment", "d", "d", "deployment file",
           "Write the launch that the log printed as a file, so that a fix can be applied", _WIZARD,
           lambda m: m.wizard.can_write_deployment),
    Action("draft_playbook", "p", "p", "save as playbook",
           "Write a playbook from this case: its error, its lines, the fix that held", _WIZARD,
           lambda m: m.wizard.can_draft),
    Action("finish", "w", "w", "write report", "End the case as it is and write its report", _WIZARD,
           _in_wizard("finish")),
    Action("report", "r", "r", "report", "Read the report of this case", _WIZARD, _has_report),
    Action("stop", "x", "x", "stop load", "End what runs now; the case stays open", _WIZARD,
           _in_wizard("stop")),
    Action("left", "left", "←", "back a step", "Look back at the step before", _WIZARD, _in_wizard("go back"),
           in_footer=False),
    Action("right", "right", "→", "step on", "Look at the step after, as far as the case has come", _WIZARD,
           _in_wizard("go on"), in_footer=False),
    Action("log_here", "l", "l", "log here", "Open the log at the line that shows what is marked", _WIZARD,
           lambda m: m.wizard.has_line),
    Action("log_big", "l", "l", "log", "Give the log the whole screen, with filters and search", _WIZARD,
           lambda m: not m.wizard.has_line),
    Action("log_whole", "L", "L", "whole log", "Give the log of the whole case the screen, at its end", _WIZARD,
           lambda m: m.wizard.has_line, in_footer=False),
    Action("memory_big", "m", "m", "memory", "Show host and GPU memory in full, or fold them", _WIZARD,
           lambda m: m.memory_folded),
    Action("pause_log", "space", "space", "pause log", "Stop following the log; it goes on being collected", _WIZARD,
           lambda m: m.wizard.has_log and not m.log_paused),
    Action("follow_log", "space", "space", "follow log", "Follow the end of the log again", _WIZARD,
           lambda m: m.log_paused),
    Action("open_marked", "enter", "enter", "open", "Show what is marked", _LISTS, lambda m: m.list.has_marked),
    Action("filter_list", "f,slash", "f /", "filter", "Show only those that have the words you write", _LISTS),
    Action("unfilter_list", "escape", "esc", "all", "Show all again", _LISTS, lambda m: m.list.is_filtered),
    Action("resume_case", "g", "g", "go on", "Go on where the marked case was cut off", ("cases",),
           lambda m: m.list.can_resume),
    Action("case_report", "r", "r", "report", "Read the report of the marked case", ("cases",),
           lambda m: m.list.has_marked),
    Action("moment_before", "left", "←", "before", "What the case knew a moment before", ("recorded",),
           lambda m: m.list.can_step),
    Action("moment_behind", "right,enter", "→", "after", "What came of it", ("recorded",), lambda m: m.list.can_step),
    Action("recorded_report", "r", "r", "report", "Read the report that this past case wrote", ("recorded",)),
    Action("recorded_draft", "p", "p", "save as playbook", "Write a playbook from this past case", ("recorded",)),
)  # fmt: skip
