"""Single lines around the monitor's panes: what host this is, which screens there are, what the marked row tells."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import word
from tui.widgets.row_pane import PaneContent, Piece, Row, RowPane, apart, cells_of, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Offset

    from engine_probe.hardware.reading import Reading

TABS = (
    ("tab_monitor", "1 Monitor"), ("tab_logs", "2 Logs"), ("tab_wizard", "3 Wizard"),
    ("tab_plan", "4 Plan"), ("tab_playbooks", "5 Playbooks"), ("tab_cases", "6 Cases"),
)  # fmt: skip
_GAP = 3


class OneLine(RowPane, can_focus=False):
    """Drawn again only when its text differs."""

    def show(self, row: Row) -> None:
        self.set_content(PaneContent(row))

    def clicked(self, offset: Offset, chain: int) -> None:
        """Nothing to open."""


class TabLine(OneLine):
    """The screens that there are; a click goes there."""

    @dataclass
    class Chosen(Message):
        """A name was clicked."""

        action_id: str

    def clicked(self, offset: Offset, chain: int) -> None:  # noqa: ARG002 -- one click goes there
        at = 0
        for text, _style in self.content.heading[: 2 * len(TABS)]:
            found = [action_id for action_id, name in TABS if name[0] == text[0]]
            if found and at <= offset.x < at + len(text):
                self.post_message(self.Chosen(found[0]))
            at += len(text)


def draw_tabs(here: str, right: Row, width: int) -> Row:
    """`here`: the action that leads to the screen that is shown.

    What a screen has to say (`right`) is worth more than the names of the others: their digits stay.
    """
    full = _tabs(here, are_short=False)
    return apart(full if cells_of(full) + cells_of(right) < width else _tabs(here, are_short=bool(right)), right, width)


def _tabs(here: str, *, are_short: bool) -> Row:
    left: list[Piece] = []
    for action_id, name in TABS:
        is_here = action_id == here
        left += [(name[0] if are_short and not is_here else name, "$accent bold" if is_here else "$quiet")]
        left += [(" " * _GAP, "")]
    return tuple(left)


def draw_top(reading: Reading, width: int) -> Row:
    """Host, GPUs, driver and engines at the left; at the right how many models serve, and when this was read."""
    gpus = reading.gpus
    about = [clean(reading.host_name), _names([gpu.name for gpu in gpus.gpus])]
    about += [f"driver {gpus.driver_version}"] if gpus.driver_version else []
    versions = dict.fromkeys(word(server.version) for server in reading.servers if server.state != "orphan")
    about += [f"vLLM {version}" for version in versions if "?" not in versions]
    states = [server.state for server in reading.servers]
    counts = " · ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    clock = time.strftime("%H:%M:%S", time.localtime(reading.time))
    left = (("vllm-console", "$accent bold"), (f"   {' · '.join(part for part in about if part)}", "$quiet"))
    right = ((f"{counts}   ", ""), (clock, "$quiet"))
    return apart(fit(left, width - cells_of(right) - 1), right, width)


def _names(names: Sequence[str]) -> str:
    """Such as "8×A100-80GB"."""
    if not names:
        return "no GPU"
    short = [clean(name).removeprefix("NVIDIA ") for name in names]
    return " + ".join(f"{short.count(name)}×{name}" for name in dict.fromkeys(short))
