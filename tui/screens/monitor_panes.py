"""The monitor's picture: one reading drawn in five panes, of which only what changed is drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.actions import Moment, MonitorMoment
from tui.screens.base import when_whole
from tui.screens.monitor_facts import reasons_of
from tui.screens.monitor_history import History
from tui.screens.monitor_layout import PANES, Pane, Room, heights
from tui.screens.paned import PanedScreen
from tui.widgets.alert_pane import AlertPane, alert_at, draw_alerts, fold_alerts
from tui.widgets.clean_text import clean
from tui.widgets.gpu_pane import GpuPane, draw_gpus, fold_gpus, index_of
from tui.widgets.host_pane import HostPane, draw_host, fold_host, host_lines
from tui.widgets.model_table import ModelTable, draw_models, fold_models
from tui.widgets.one_line import draw_tabs, draw_top
from tui.widgets.process_table import Entry, ProcessTable, Wanted, draw_processes, entries_of, fold_processes
from tui.widgets.row_pane import MARK_CELLS, PaneContent, Row, RowPane, fit, plain_of

if TYPE_CHECKING:
    from engine_probe.hardware.reading import ProcessReading, Reading, Server
    from playbooks.alert import Alert
    from tui.watching import Look
    from tui.widgets.host_pane import HostLine

_COLOURS = ("$layer-frontend", "$layer-engine", "$layer-model-runner", "$layer-worker", "$layer-outside")
_CLASSES: dict[Pane, type[RowPane]] = {
    "gpus": GpuPane,
    "host": HostPane,
    "models": ModelTable,
    "alerts": AlertPane,
    "processes": ProcessTable,
}


class MonitorPanes(PanedScreen[Pane]):
    """Everything is drawn from one `Look`; what is kept beside it are the history and what a person chose."""

    def __init__(self) -> None:
        super().__init__({name: _CLASSES[name] for name in PANES}, last_line="detail")
        self._newest: Look | None = None
        self._kept = History()
        self.look: Look | None = None
        """What is shown; older than the newest while the picture is paused."""
        self.history = self._kept
        self.paused = False
        self.wanted = Wanted()
        self._entries: tuple[Entry, ...] = ()
        self._chosen: dict[Pane, tuple[bool, int]] = {}
        self._colours: dict[int, str] = {}
        self._moment: Moment | None = None

    # Readings

    def set_look(self, look: Look) -> None:
        self._newest = look
        self._kept.add(look.reading)
        if not self.paused:
            self.look = look
            if self.is_current:
                self.draw()

    @property
    def reading(self) -> Reading | None:
        return self.look.reading if self.look is not None else None

    @property
    def alerts(self) -> tuple[Alert, ...]:
        return self.look.alerts if self.look is not None else ()

    # Drawing

    @when_whole
    def draw(self) -> None:
        width = self.size.width - 2
        if width < 1 or not self._last.is_attached:
            return
        if self.look is None:
            self._top.show((("vllm-console", "$accent bold"), ("   this host is looked at", "$quiet")))
        else:
            self._draw_panes(self.look, width)
            self._top.show(draw_top(self.look.reading, width))
        self.draw_lines()

    def draw_lines(self) -> None:
        """What stands around the panes."""
        width = self.size.width - 2
        self._tabs.show(draw_tabs("tab_monitor", self.state_words(), width))
        self._last.show(fit(self._detail_row(), max(width, 1)))
        moment = self.moment()
        if moment != self._moment:
            self._moment = moment
            self.refresh_keys()

    def state_words(self) -> Row:
        """How often it is read, and whether the picture stands still."""
        return ()

    def _draw_panes(self, look: Look, width: int) -> None:
        reading, glyphs, text = look.reading, self.console.glyphs, max(width - MARK_CELLS, 1)
        self._colours = _colours_of(reading, self._colours)
        self._entries = entries_of(reading, self.wanted)
        lines = host_lines(reading.host, look.own_percent)
        opened = {
            "gpus": draw_gpus(reading, self.history, self._colours, text, glyphs),
            "host": draw_host(lines, text, glyphs),
            "models": draw_models(reading, self._colours, text, glyphs),
            "alerts": draw_alerts(look.alerts, text, glyphs),
            "processes": draw_processes(reading, self._entries, self.wanted, text),
        }
        self._give_heights(opened)
        for name in PANES:
            is_open = self._heights[name] > 1
            content = opened[name] if is_open else self._folded(name, opened[name], lines, text)
            self.panes[name].set_content(content)

    def _folded(self, name: Pane, content: PaneContent, lines: tuple[HostLine, ...], width: int) -> PaneContent:
        assert self.look is not None
        reading = self.look.reading
        if name == "gpus":
            return fold_gpus(content, reading)
        if name == "host":
            return fold_host(lines, width)
        if name == "models":
            return fold_models(reading, width)
        if name == "alerts":
            return fold_alerts(self.look.alerts, width)
        return fold_processes(self._entries, self.wanted)

    def _give_heights(self, opened: dict[Any, PaneContent]) -> None:
        rooms = {}
        for name in PANES:
            is_open, turn = self._chosen.get(name, (None, 0))
            rooms[name] = Room(name, len(opened[name].rows) + 1, is_open, turn)
        self.give(heights(rooms, self.room))
        self._keep_focus()

    def _keep_focus(self) -> None:
        """A folded pane has no row that could be marked."""
        focused = self.focused
        if isinstance(focused, RowPane) and focused.can_focus:
            return
        first = next((pane for pane in self.panes.values() if pane.can_focus), None)
        self.set_focus(first)

    def on_resize(self) -> None:
        self._moment = None
        self.draw()

    def on_screen_resume(self) -> None:
        self._moment = None
        self.draw()

    def turn_pane(self, name: Pane) -> None:
        """Open it, with the keys in it, or fold it."""
        is_open = self._heights.get(name, 0) > 1
        turn = max((turn for _, turn in self._chosen.values()), default=0) + 1
        self._chosen[name] = (not is_open, turn)
        self.draw()
        if not is_open and self.panes[name].can_focus:
            self.panes[name].focus()

    # What is marked

    @property
    def marked_pane(self) -> Pane | None:
        focused = self.focused
        return next((name for name, pane in self.panes.items() if pane is focused and pane.can_focus), None)

    def _marked_in(self, name: Pane) -> str | None:
        return self.panes[name].marked if self.marked_pane == name else None

    @property
    def marked_alert(self) -> Alert | None:
        return alert_at(self.alerts, self._marked_in("alerts"))

    @property
    def marked_server(self) -> Server | None:
        key = self._marked_in("models")
        servers = self.reading.servers if self.reading is not None else ()
        return next((server for server in servers if str(server.pid) == key), None)

    def server_of(self, pid: int | None) -> Server | None:
        """The engine that a process belongs to."""
        servers = self.reading.servers if self.reading is not None and pid is not None else ()
        return next((server for server in servers if pid in (server.pid, *server.pids)), None)

    @property
    def server_of_marked(self) -> Server | None:
        """The engine that is marked, or that the marked alert or process is about."""
        alert, entry = self.marked_alert, self.marked_entry
        pid = alert.pid if alert is not None else entry.pid if entry is not None else None
        return self.marked_server or self.server_of(pid)

    @property
    def marked_entry(self) -> Entry | None:
        key = self._marked_in("processes")
        return next((entry for entry in self._entries if entry.key == key), None)

    @property
    def marked_gpu(self) -> Any:
        """A GPU or one of its slices; None where neither is marked."""
        key = self._marked_in("gpus")
        if key is None or self.reading is None or key == "none":
            return None
        index, part = index_of(key)
        gpu = next((one for one in self.reading.gpus.gpus if one.index == index), None)
        if gpu is None or part is None:
            return gpu
        return next((one for one in gpu.slices if one.index == part), None)

    def process_of(self, pid: int | None) -> ProcessReading | None:
        processes = self.reading.processes if self.reading is not None else ()
        return next((process for process in processes if process.pid == pid), None)

    @property
    def marked_process(self) -> ProcessReading | None:
        """That which `k` would end: of a model the one that the others descend from."""
        entry, server, alert = self.marked_entry, self.marked_server, self.marked_alert
        if entry is not None:
            return entry.process
        return self.process_of(server.pid if server is not None else alert.pid if alert is not None else None)

    def _detail_row(self) -> Row:
        alert, server, entry, gpu = self.marked_alert, self.marked_server, self.marked_entry, self.marked_gpu
        if alert is not None:
            return ((clean(alert.what_to_do), "$quiet"),)
        if server is not None:
            about = reasons_of(server) or f"{clean(server.model)}, pid {server.pid}"
            return ((f"{clean(server.name)}: ", "bold"), (clean(about), "$quiet"))
        if entry is not None:
            about = reasons_of(entry.process) if entry.process is not None else entry.title
            return ((f"pid {entry.pid}: ", "bold"), (clean(about or entry.title), "$quiet"))
        if gpu is not None:
            key = self._marked_in("gpus")
            about = reasons_of(gpu) or f"{gpu.name}, {gpu.uuid}"
            return ((f"GPU {key}: ", "bold"), (clean(about), "$quiet"))
        if self._marked_in("host") is not None and self.reading is not None:
            about = reasons_of(self.reading.host) or "all that was asked for is known"
            return (("Host: ", "bold"), (clean(about), "$quiet"))
        return ()

    def moment(self) -> Moment:
        process, server, logged = self.marked_process, self.marked_server, self.server_of_marked
        facts = (self.marked_gpu, server, self.marked_entry, self._marked_in("host"))
        return Moment(
            place="monitor",
            monitor=MonitorMoment(
                is_alert=self.marked_alert is not None,
                has_facts=any(one is not None for one in facts),
                has_log=logged is not None and logged.log is not None,
                can_end=process is not None and process.is_mine,
                shows_processes=self._heights.get("processes", 0) > 1,
                is_filtered=bool(self.wanted.text),
                is_paused=self.paused,
                is_bare=self.has_class("-bare"),
            ),
        )

    def on_row_pane_moved(self) -> None:
        self.draw_lines()

    def plain_text(self) -> str:
        top = self.console.glyphs.text(plain_of(self._top.content.heading))
        return "\n".join([top, *(pane.plain for pane in self.panes.values())]) + "\n"


def _colours_of(reading: Reading, before: dict[int, str]) -> dict[int, str]:
    """A model keeps its colour while it is there."""
    kept = {server.pid: before[server.pid] for server in reading.servers if server.pid in before}
    for server in reading.servers:
        if server.pid not in kept:
            used = list(kept.values())
            kept[server.pid] = min(_COLOURS, key=used.count)
    return kept
