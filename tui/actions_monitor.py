"""What can be done on the monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.action import Action

if TYPE_CHECKING:
    from tui.action import Moment, Place

_MONITOR: tuple[Place, ...] = ("monitor",)


def _shows_processes(moment: Moment) -> bool:
    return moment.monitor.shows_processes


MONITOR_ACTIONS: tuple[Action, ...] = (
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
)  # fmt: skip
