"""Ending a process from the monitor: what it is is shown first, TERM comes before KILL, each is asked about."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from tui.ending import CannotEndError, Target, is_there, send, target_of
from tui.screens.dialogs import Confirm
from tui.screens.monitor_panes import MonitorPanes
from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import lasting, size
from tui.widgets.process_table import total_of
from tui.widgets.words import cell, lines, part

if TYPE_CHECKING:
    from textual.content import Content

    from engine_probe.hardware.reading import ProcessReading, Reading

GRACE_SECONDS = 5.0
_LOOK_EVERY_SECONDS = 0.25


def draw_process(process: ProcessReading, reading: Reading) -> Content:
    """What a person has to know of it before it is ended."""
    server = next((one for one in reading.servers if process.pid in (one.pid, *one.pids)), None)
    children = [one for one in reading.processes if one.ppid == process.pid]
    held = [f"GPU {gpu}: {size(fact)} GiB" for gpu, fact in process.gpu_gib]
    total = f" (together {size(total_of([fact for _, fact in process.gpu_gib]))} GiB)" if len(held) > 1 else ""
    since = None if process.started is None else reading.time - process.started
    began = "" if process.started is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(process.started))
    facts = [
        ("title", clean(process.title)),
        ("model", f"{clean(server.name)}, {server.state}" if server is not None else "none that is known"),
        ("memory", f"{', '.join(held) or 'none on a GPU'}{total}; {size(process.rss_gib)} GiB of RAM"),
        ("user", process.user),
        ("pid", f"{process.pid}, parent {process.ppid}"),
        ("since", f"{began}, for {lasting(since)}"),
    ]
    if children:
        facts.append(("children", ", ".join(f"{child.pid} {clean(child.title)}" for child in children)))
    return lines([part(cell(name, 10), "$quiet") + part(words) for name, words in facts])


class MonitorEnds(MonitorPanes):
    """One process at a time is ended; the wait for it goes on beside everything else."""

    def do_end_process(self) -> None:
        process, reading = self.marked_process, self.reading
        if process is not None and reading is not None:
            self.ask_to_end(process, reading)

    def ask_to_end(self, process: ProcessReading, reading: Reading) -> None:
        try:
            target = target_of(process)
        except CannotEndError as why:
            self.tell(f"Not ended: {why}", style="$error bold")
            return
        ask = Confirm(
            self.console.glyphs,
            "End this process? TERM asks it to end by itself.",
            draw_process(process, reading),
            "send TERM",
        )
        self.app.push_screen(ask, partial(self._ask_politely, target, process, reading))

    def _ask_politely(self, target: Target, process: ProcessReading, reading: Reading, yes: bool | None) -> None:
        if not yes or not self._send(target, "TERM"):
            return
        self.tell(f"TERM was sent to pid {target.pid}; it has {GRACE_SECONDS:.0f} s to end", style="$accent bold")
        self._wait(target, process, reading, time.monotonic() + GRACE_SECONDS)

    def _send(self, target: Target, how: str) -> bool:
        try:
            send(target, "KILL" if how == "KILL" else "TERM")
        except CannotEndError as why:
            self.tell(f"Not ended: {why}", style="$error bold")
            return False
        return True

    def _wait(self, target: Target, process: ProcessReading, reading: Reading, until: float) -> None:
        """A question waits until nothing else is asked."""
        if not is_there(target):
            self.tell(f"pid {target.pid} has ended")
        elif time.monotonic() < until or not self.is_current:
            self.set_timer(_LOOK_EVERY_SECONDS, partial(self._wait, target, process, reading, until))
        else:
            self._ask_to_kill(target, process, reading)

    def _ask_to_kill(self, target: Target, process: ProcessReading, reading: Reading) -> None:
        ask = Confirm(
            self.console.glyphs,
            f"pid {target.pid} is still there {GRACE_SECONDS:.0f} s after TERM. Kill it? It cannot clean up then.",
            draw_process(process, reading),
            "send KILL",
        )
        self.app.push_screen(ask, partial(self._kill, target))

    def _kill(self, target: Target, yes: bool | None) -> None:
        if yes and self._send(target, "KILL"):
            self.tell(f"KILL was sent to pid {target.pid}", style="$accent bold")
