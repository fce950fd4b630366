"""How many rows each pane of the monitor gets: what a person opened first, then what tells most at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pane = Literal["gpus", "host", "models", "alerts", "processes"]
PANES: tuple[Pane, ...] = ("gpus", "host", "models", "alerts", "processes")
"""From top to bottom."""
_BY_WORTH: tuple[Pane, ...] = ("alerts", "gpus", "models", "processes", "host")
_FIRST_ROWS: dict[Pane, int] = {"gpus": 9, "host": 9, "models": 5, "alerts": 4, "processes": 5}
"""So many rows each pane gets before those that tell less are opened, if it has as many to show."""
_LEAST_ROWS: dict[Pane, int] = {"gpus": 3, "host": 5, "models": 2, "alerts": 2, "processes": 3}
"""With fewer a pane is not opened, unless it has no more to show."""
_MOST_ALERTS = 6


@dataclass(frozen=True)
class Room:
    """What a pane would fill, its heading included, and whether a person opened (True) or folded (False) it."""

    pane: Pane
    rows: int
    chosen: bool | None = None
    turn: int = 0
    """The later a person chose, the higher: what was opened last has the room."""


def heights(rooms: dict[Pane, Room], height: int) -> dict[Pane, int]:
    """Rows of each pane: 1 is folded, 0 no room at all. Together no more than `height`."""
    given = dict.fromkeys(_BY_WORTH, 0)
    left = height
    for pane in _BY_WORTH:
        if left > 0:
            given[pane], left = 1, left - 1
    opened: list[Pane] = []
    for pane in sorted(_BY_WORTH, key=lambda one: -rooms[one].turn if rooms[one].chosen else 0):
        room = rooms[pane]
        least = min(room.rows, _LEAST_ROWS[pane] if room.chosen is None else 3)
        if room.chosen is False or room.rows < 2 or not given[pane] or left < least - 1:
            continue
        rows = min(room.rows, _FIRST_ROWS[pane], left + 1)
        given[pane], left = rows, left - (rows - 1)
        opened.append(pane)
    for pane in opened:
        most = min(rooms[pane].rows, _MOST_ALERTS) if pane == "alerts" else rooms[pane].rows
        more = max(0, min(left, most - given[pane]))
        given[pane], left = given[pane] + more, left - more
    if "alerts" in opened:  # what nobody else has a use for
        given["alerts"] += max(0, min(left, rooms["alerts"].rows - given["alerts"]))
    return given
