"""How many rows each pane of the plan gets: models and GPUs first, then what is proposed, then the chosen model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Pane = Literal["gpus", "models", "detail", "advice"]
PANES: tuple[Pane, ...] = ("gpus", "models", "detail", "advice")
"""From top to bottom."""
_ROUNDS: tuple[tuple[tuple[Pane, int], ...], ...] = (
    (("models", 1), ("gpus", 1), ("advice", 1), ("detail", 1)),
    (("models", 4), ("gpus", 5), ("advice", 2), ("detail", 4)),
    (("models", 9), ("gpus", 9), ("advice", 6), ("detail", 9)),
    (("detail", 99), ("advice", 99), ("models", 99), ("gpus", 1025)),
)
"""Up to so many rows each, in this order, before the next round begins."""


def heights(wanted: Mapping[Pane, int], height: int) -> dict[Pane, int]:
    """`wanted`: what each would fill with its heading. 1 is folded, 0 no room at all; together `height` at most."""
    given = dict.fromkeys(PANES, 0)
    left = max(height, 0)
    for round_ in _ROUNDS:
        for pane, most in round_:
            more = max(0, min(wanted[pane], most) - given[pane])
            given[pane] += min(more, left)
            left -= min(more, left)
    return given
