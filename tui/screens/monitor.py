"""The first screen: whose memory it is, which model is where in its load, and what is wrong with the picture."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work

from tui import actions
from tui.screens.dialogs import AskText
from tui.screens.monitor_end import MonitorEnds
from tui.terminal_mouse import take_mouse
from tui.watching import INTERVALS_SECONDS
from tui.widgets.monitor_words import lasting
from tui.widgets.process_table import ORDERS

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.content import Content

    from playbooks.alert import Alert
    from playbooks.evidence import Evidence
    from tui.screens.monitor_layout import Pane
    from tui.widgets.one_line import TabLine
    from tui.widgets.row_pane import Row, RowPane

_AGE_EVERY_SECONDS = 1.0
_LATE_SECONDS = 3.0
"""So much later than it is due, a reading that does not come is said to be late."""


class MonitorScreen(MonitorEnds):
    """Keys, and what opens over it."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("monitor")]

    def __init__(self) -> None:
        super().__init__()
        self._late_seconds = 0

    def on_mount(self) -> None:
        self.set_interval(_AGE_EVERY_SECONDS, self._look_at_age)
        self.draw()

    def on_unmount(self) -> None:
        take_mouse(self.app, True)

    def on_screen_suspend(self) -> None:
        take_mouse(self.app, True)

    def on_screen_resume(self) -> None:
        take_mouse(self.app, not self.has_class("-bare"))

    # Time

    def _look_at_age(self) -> None:
        """A look that takes long holds up nothing, but what is shown is old then."""
        late = 0
        if self._newest is not None:
            age = self.console.backend.clock() - self._newest.reading.time
            late = int(age) if age > self.console.interval_seconds + _LATE_SECONDS else 0
        if late != self._late_seconds:
            self._late_seconds = late
            self.draw_lines()

    def state_words(self) -> Row:
        every = (f"every {self.console.interval_seconds:g} s", "$quiet")
        if self.paused:
            return (("paused   ", "$warning bold"), every)
        if self._late_seconds:
            return ((f"no reading for {lasting(self._late_seconds)}   ", "$warning bold"), every)
        return (every,)

    def _hold(self, paused: bool) -> None:
        self.paused = paused
        self.history = copy.deepcopy(self._kept) if paused else self._kept
        if not paused:
            self.look = self._newest
        self.draw()

    def do_pause_monitor(self) -> None:
        self._hold(True)

    def do_go_on(self) -> None:
        self._hold(False)

    def do_slower(self) -> None:
        self._change_interval(1)

    def do_faster(self) -> None:
        self._change_interval(-1)

    def _change_interval(self, by: int) -> None:
        now = self.console.interval_seconds
        others = [one for one in INTERVALS_SECONDS if (one > now if by > 0 else one < now)]
        if others:
            self.console.interval_seconds = others[0] if by > 0 else others[-1]
        self.draw_lines()

    # Panes

    def do_pane_gpus(self) -> None:
        self.turn_pane("gpus")

    def do_pane_host(self) -> None:
        self.turn_pane("host")

    def do_pane_models(self) -> None:
        self.turn_pane("models")

    def do_pane_alerts(self) -> None:
        self.turn_pane("alerts")

    def do_pane_processes(self) -> None:
        self.turn_pane("processes")

    def do_sort(self) -> None:
        order = ORDERS[(ORDERS.index(self.wanted.order) + 1) % len(ORDERS)]
        self.wanted = replace(self.wanted, order=order)
        self.draw()

    def do_reverse(self) -> None:
        self.wanted = replace(self.wanted, is_reversed=not self.wanted.is_reversed)
        self.draw()

    def do_filter_processes(self) -> None:
        hint = "Words of its pid, title, model, user or role; all of them have to be there. Nothing: all processes."
        ask = AskText(self.console.glyphs, "Which processes?", hint, self.wanted.text)
        self.app.push_screen(ask, self._filter)

    def _filter(self, text: str | None) -> None:
        if text is not None:
            self.wanted = replace(self.wanted, text=text)
            self.draw()

    def do_unfilter(self) -> None:
        if self.has_class("-bare"):
            self.do_bare_monitor()
        else:
            self._filter("")

    def do_bare_monitor(self) -> None:
        """The mouse is the terminal's until bare mode is left, and nothing moves while a person selects."""
        is_bare = not self.has_class("-bare")
        self.set_class(is_bare, "-bare")
        take_mouse(self.app, not is_bare)
        self._hold(is_bare)

    # What opens over it

    async def on_row_pane_taken(self, message: RowPane.Taken) -> None:
        if not message.pane.is_open:
            name: Pane = next(name for name, pane in self.panes.items() if pane is message.pane)
            self.turn_pane(name)
            return
        await self.action_do("what_to_do" if self.marked_alert is not None else "facts")

    async def on_tab_line_chosen(self, message: TabLine.Chosen) -> None:
        await self.action_do(message.action_id)

    def do_facts(self) -> None:
        from tui.screens.facts_dialog import FactsDialog  # noqa: PLC0415 -- as below
        from tui.screens.monitor_facts import draw_facts, rows_of  # noqa: PLC0415 -- seldom wanted

        thing = next((one for one in (self.marked_gpu, self.marked_server) if one is not None), None)
        entry = self.marked_entry
        if entry is not None:
            thing = entry.process or entry
        elif thing is None and self.reading is not None:
            thing = self.reading.host
        if thing is None:
            return
        rows = rows_of(thing)

        def draw(width: int) -> Content:
            return draw_facts(rows, width)

        self.app.push_screen(FactsDialog(self.console.glyphs, self._title_of_marked(), draw))

    def _title_of_marked(self) -> str:
        server, entry, gpu = self.marked_server, self.marked_entry, self.marked_gpu
        if server is not None:
            return f"{server.name}, {server.state}"
        if entry is not None:
            return f"pid {entry.pid}"
        if gpu is not None:
            return f"GPU {self.panes['gpus'].marked}: {gpu.name}"
        return "This host"

    def do_what_to_do(self) -> None:
        alert = self.marked_alert
        if alert is not None:
            self._show_alert(alert)

    @work(exclusive=True, group="alert")
    async def _show_alert(self, alert: Alert) -> None:
        from tui.screens.facts_dialog import FactsDialog  # noqa: PLC0415 -- as below
        from tui.screens.monitor_alert import draw_alert, facts_of, read_playbook  # noqa: PLC0415 -- seldom wanted

        known = await asyncio.to_thread(read_playbook, alert.playbook) if alert.playbook else None
        facts = await asyncio.to_thread(facts_of, alert, self.reading) if self.reading is not None else {}
        process = self.process_of(alert.pid)
        keys: dict[str, tuple[str, str]] = {}
        server = self.server_of(alert.pid)
        if server is not None and server.log is not None:
            keys["d"] = ("its log and diagnosis", "log")
        if process is not None and process.is_mine:
            keys["k"] = ("end the process", "end")

        def draw(width: int) -> Content:
            return draw_alert(alert, known, width, facts)

        self.app.push_screen(
            FactsDialog(self.console.glyphs, f"{alert.severity}: {alert.about}", draw, keys),
            lambda answer: self._answer(alert, answer),
        )

    def _answer(self, alert: Alert, answer: str | None) -> None:
        process, reading = self.process_of(alert.pid), self.reading
        if answer == "log":
            self.do_model_log()
        elif answer == "end" and process is not None and reading is not None:
            self.ask_to_end(process, reading)

    def do_tab_wizard(self) -> None:
        self.console.open_start()

    def do_model_log(self) -> None:
        server, reading = self.server_of_marked, self.reading
        if server is None or server.log is None or reading is None:
            return

        def evidence() -> Evidence:
            from tui.monitor_evidence import evidence_of  # noqa: PLC0415 -- most logs are only read

            return evidence_of(server, reading)

        self.open_log(Path(server.log), evidence)
