"""Ending a process and all below it: they are shown first, TERM comes before KILL, each is asked about."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Literal

from playbooks.alert import resident_gib
from tui.ending import CannotEndError
from tui.ending_tree import Chosen, choose, send_all
from tui.screens.dialogs import Confirm
from tui.screens.monitor_panes import MonitorPanes
from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import lasting, size
from tui.widgets.process_table import total_of
from tui.widgets.words import cell, gib, lines, part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from engine_probe.facts import Fact
    from engine_probe.hardware.reading import ProcessReading, Reading
    from tui.ending import Target

GRACE_SECONDS = 5.0
_LOOK_EVERY_SECONDS = 0.25


def draw_chosen(chosen: Chosen, reading: Reading) -> Content:
    """What a person has to know of it before it is ended."""
    root = chosen.root
    server = next((one for one in reading.servers if root.pid in (one.pid, *one.pids)), None)
    since = None if root.started is None else reading.time - root.started
    began = "" if root.started is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(root.started))
    memory = _held(chosen.processes)
    resident = resident_gib(chosen.processes)
    facts = [
        ("title", clean(root.title)),
        ("model", f"{clean(server.name)}, {server.state}" if server is not None else "none that is known"),
        ("memory", f"{memory}; {'?' if resident is None else gib(resident)} GiB of RAM"),
        ("user", root.user),
        ("pid", f"{root.pid}, parent {root.ppid}"),
        ("since", f"{began}, for {lasting(since)}"),
    ]
    rows = [part(cell(name, 10), "$quiet") + part(words) for name, words in facts]
    if len(chosen.processes) > 1:
        rows.append(part(f"All {len(chosen.processes)}, children first:", "$quiet"))
        reasons = {one.pid: why for one, why in chosen.stays}
        rows += [_one(one, reasons.get(one.pid)) for one in chosen.processes]
    return lines(rows)


def _one(process: ProcessReading, why_not: str | None) -> Content:
    held = "" if not process.gpu_gib else f", {_held((process,))}"
    row = part(f"  {process.pid} {clean(process.title)}{held}")
    return row if why_not is None else row + part(f"; stays: {why_not}", "$warning")


def _held(processes: Sequence[ProcessReading]) -> str:
    """By GPU, and together where there are several."""
    found: dict[int, list[Fact]] = {}
    for one in processes:
        for gpu, fact in one.gpu_gib:
            found.setdefault(gpu, []).append(fact)
    held = [f"GPU {gpu}: {size(total_of(facts))} GiB" for gpu, facts in sorted(found.items())]
    together = total_of([fact for facts in found.values() for fact in facts])
    total = f" (together {size(together)} GiB)" if len(held) > 1 else ""
    return f"{', '.join(held) or 'none on a GPU'}{total}"


def _pids(targets: Sequence[Target]) -> str:
    return f"pid{'' if len(targets) == 1 else 's'} {', '.join(str(one.pid) for one in targets)}"


class MonitorEnds(MonitorPanes):
    """One tree of processes at a time is ended; the wait for it goes on beside everything else."""

    def do_end_process(self) -> None:
        process, reading = self.marked_process, self.reading
        if process is not None and reading is not None:
            self.ask_to_end(process, reading)

    def do_why_not_end(self) -> None:
        self.tell(f"Nothing to end: {self._why_not()}", style="$warning bold")

    def _why_not(self) -> str:
        process, alert, server = self.marked_process, self.marked_alert, self.marked_server
        entry = self.marked_entry
        pid = process.pid if process is not None else entry.pid if entry is not None else None
        if pid is None and server is not None:
            pid = server.pid
        if pid is None:
            about = "this alert is about no process" if alert is not None else "this is no process"
            return f"{about}; mark a model or a process for k"
        if process is None or process.started is None:
            is_ending = process is not None and process.title.startswith("ending")
            return (
                f"pid {pid} is ending already" if is_ending else f"pid {pid} is not visible here, so only where it runs"
            )
        return f"pid {pid} belongs to {process.user}, and only its user may end it"

    def ask_to_end(self, process: ProcessReading, reading: Reading) -> None:
        try:
            chosen = choose(process, reading)
        except CannotEndError as why:
            self.tell(f"Not ended: {why}", style="$error bold")
            return
        count = len(chosen.targets)
        what = "this process? TERM asks it" if count == 1 else f"these {count} processes? TERM asks them"
        about = draw_chosen(chosen, reading)
        ask = Confirm(
            self.console.glyphs, f"End {what} to end by {'itself' if count == 1 else 'themselves'}.", about, "send TERM"
        )
        self.app.push_screen(ask, partial(self._ask_politely, chosen, about))

    def _ask_politely(self, chosen: Chosen, about: Content, yes: bool | None) -> None:
        if not yes or not self._send(chosen.targets, "TERM"):
            return
        has = "it has" if len(chosen.targets) == 1 else "they have"
        words = f"TERM was sent to {_pids(chosen.targets)}; {has} {GRACE_SECONDS:.0f} s to end"
        self.tell(words, style="$accent bold")
        self._wait(chosen, about, time.monotonic() + GRACE_SECONDS)

    def _send(self, targets: tuple[Target, ...], how: Literal["TERM", "KILL"]) -> bool:
        try:
            send_all(targets, how)
        except CannotEndError as why:
            self.tell(f"Not ended: {why}", style="$error bold")
            return False
        return True

    def _wait(self, chosen: Chosen, about: Content, until: float) -> None:
        """A question waits until nothing else is asked."""
        left = chosen.left
        if not left:
            self._tell_ended(chosen)
        elif time.monotonic() < until or not self.is_current:
            self.set_timer(_LOOK_EVERY_SECONDS, partial(self._wait, chosen, about, until))
        else:
            self._ask_to_kill(chosen, left, about)

    def _tell_ended(self, chosen: Chosen) -> None:
        self.tell(f"{_pids(chosen.targets)} {'has' if len(chosen.targets) == 1 else 'have'} ended")

    def _ask_to_kill(self, chosen: Chosen, left: tuple[Target, ...], about: Content) -> None:
        is_one = len(left) == 1
        ask = Confirm(
            self.console.glyphs,
            f"{_pids(left)} {'is' if is_one else 'are'} still there {GRACE_SECONDS:.0f} s after TERM. "
            f"Kill {'it? It' if is_one else 'them? They'} cannot clean up then.",
            about,
            "send KILL",
        )
        self.app.push_screen(ask, partial(self._kill, chosen))

    def _kill(self, chosen: Chosen, yes: bool | None) -> None:
        left = chosen.left
        if yes and not left:
            self._tell_ended(chosen)
        elif yes and self._send(left, "KILL"):
            self.tell(f"KILL was sent to {_pids(left)}", style="$accent bold")
            self._wait_for_killed(chosen, time.monotonic() + GRACE_SECONDS)

    def _wait_for_killed(self, chosen: Chosen, until: float) -> None:
        left = chosen.left
        if not left:
            self._tell_ended(chosen)
        elif time.monotonic() < until:
            self.set_timer(_LOOK_EVERY_SECONDS, partial(self._wait_for_killed, chosen, until))
        else:
            self.tell(f"{_pids(left)} did not end on KILL: the kernel or a driver holds them", style="$error bold")
